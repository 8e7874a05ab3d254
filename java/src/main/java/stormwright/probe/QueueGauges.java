package stormwright.probe;

import com.codahale.metrics.Gauge;
import com.codahale.metrics.MetricRegistry;
import com.codahale.metrics.SharedMetricRegistries;
import java.util.HashMap;
import java.util.Map;
import org.apache.storm.Constants;

/** The population of receive queues; Storm keeps it as metrics called {@code ….TASK.PORT-receive-queue-pct_full}. */
final class QueueGauges {
    private static final String SUFFIX = "-receive-queue-pct_full";

    private QueueGauges() {
    }

    /** The gauge of each task's executor; none where Storm has no such metrics. */
    static Map<Integer, Gauge<?>> byTask(String topologyId) {
        Map<Integer, Gauge<?>> gauges = new HashMap<>();
        // Asking for a registry that does not exist would make one.
        if (SharedMetricRegistries.names().contains(Constants.WORKER_METRICS_REGISTRY)) {
            MetricRegistry registry = SharedMetricRegistries.getOrCreate(Constants.WORKER_METRICS_REGISTRY);
            registry.getGauges((name, metric) -> name.endsWith(SUFFIX) && name.contains("." + topologyId + "."))
                    .forEach((name, gauge) -> gauges.put(taskOf(name), gauge));
        }
        return gauges;
    }

    private static int taskOf(String name) {
        int port = name.lastIndexOf('.', name.length() - SUFFIX.length());
        int task = name.lastIndexOf('.', port - 1);
        return Integer.parseInt(name.substring(task + 1, port));
    }

    /** A population from 0 to 1; null where it is not known. */
    static Double read(Gauge<?> gauge) {
        return gauge != null && gauge.getValue() instanceof Number share
                ? Math.min(1, Math.max(0, share.doubleValue())) : null;
    }
}
