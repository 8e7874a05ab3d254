package stormwright.probe;

import com.codahale.metrics.Gauge;
import com.codahale.metrics.MetricRegistry;
import com.codahale.metrics.SharedMetricRegistries;
import java.util.HashMap;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.storm.Constants;

/**
 * The population of receive queues; Storm keeps it as metrics called
 * {@code storm.worker.….TASK.PORT-receive-queue-pct_full}. A topology's own begin with {@code storm.topology}.
 */
final class QueueGauges {
    private static final Pattern NAME =
            Pattern.compile("storm\\.worker\\..*\\.(\\d{1,9})\\.\\d+-receive-queue-pct_full");

    private QueueGauges() {
    }

    /** The gauge of each task's executor; none where Storm has no such metrics. */
    static Map<Integer, Gauge<?>> byTask(String topologyId) {
        Map<Integer, Gauge<?>> gauges = new HashMap<>();
        // Asking for a registry that does not exist would make one.
        if (SharedMetricRegistries.names().contains(Constants.WORKER_METRICS_REGISTRY)) {
            MetricRegistry registry = SharedMetricRegistries.getOrCreate(Constants.WORKER_METRICS_REGISTRY);
            registry.getGauges((name, metric) -> name.contains("." + topologyId + ".")).forEach((name, gauge) -> {
                Matcher storms = NAME.matcher(name);
                if (storms.matches()) {
                    gauges.put(Integer.parseInt(storms.group(1)), gauge);
                }
            });
        }
        return gauges;
    }

    /** A population from 0 to 1; null where it is not known. */
    static Double read(Gauge<?> gauge) {
        try {
            return gauge != null && gauge.getValue() instanceof Number share && !Double.isNaN(share.doubleValue())
                    ? Math.min(1, Math.max(0, share.doubleValue())) : null;
        } catch (RuntimeException e) {
            return null; // the rest of the record is worth as much without it
        }
    }
}
