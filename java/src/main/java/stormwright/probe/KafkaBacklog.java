package stormwright.probe;

import com.codahale.metrics.Gauge;
import com.codahale.metrics.MetricRegistry;
import com.codahale.metrics.SharedMetricRegistries;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.storm.Constants;

/**
 * What waits in the partitions of Kafka that the spouts of this worker read: records that none of them has emitted, by
 * the metrics of Storm's own spout, {@code storm.topology.ID.….PORT-kafkaOffset.TOPIC/partition_N/latestTimeOffset} and
 * its like.
 *
 * <p>The end of a partition is asked of the broker, which may take long: a thread of its own does so.
 */
final class KafkaBacklog {
    private static final String EMITTED = "latestEmittedOffset";
    private static final String COMMITTED = "latestCompletedOffset";
    private static final long PERIOD_MS = 5_000;
    /** Age from which a number is none any more. */
    private static final long MAX_AGE_NS = 20_000_000_000L;

    private record Known(long waiting, long atNs) {
    }

    private final Pattern end;
    private ScheduledExecutorService reader;
    private volatile Known known;

    /** For the worker of a topology at a port. */
    KafkaBacklog(String topology, int port) {
        String names = "storm\\.topology\\." + Pattern.quote(topology) + "\\..*\\." + port + "-kafkaOffset\\.";
        end = Pattern.compile("(" + names + ".+/partition_\\d+/)latestTimeOffset");
    }

    /** Reads it from now on, in the background. */
    void start() {
        if (reader == null) {
            reader = Executors.newSingleThreadScheduledExecutor(task -> {
                Thread thread = new Thread(task, "stormwright-probe-kafka");
                thread.setDaemon(true);
                return thread;
            });
            reader.scheduleWithFixedDelay(this::read, PERIOD_MS, PERIOD_MS, TimeUnit.MILLISECONDS);
        }
    }

    /** Reads it no more. */
    void stop() {
        if (reader != null) {
            reader.shutdownNow();
        }
    }

    /** Records that wait; null if none of the spouts reads from Kafka, or the broker has not answered lately. */
    Long waiting() {
        Known newest = known;
        return newest != null && System.nanoTime() - newest.atNs < MAX_AGE_NS ? newest.waiting : null;
    }

    void read() {
        // Asking for a registry that does not exist would make one.
        if (!SharedMetricRegistries.names().contains(Constants.WORKER_METRICS_REGISTRY)) {
            return;
        }
        MetricRegistry metrics = SharedMetricRegistries.getOrCreate(Constants.WORKER_METRICS_REGISTRY);
        @SuppressWarnings("rawtypes")
        Map<String, Gauge> gauges = metrics.getGauges((name, metric) -> name.contains("kafkaOffset."));
        long sum = 0;
        boolean any = false;
        for (String name : gauges.keySet()) {
            Matcher own = end.matcher(name);
            if (!own.matches()) {
                continue;
            }
            Long committed = offset(gauges.get(own.group(1) + COMMITTED));
            if (committed == null) {
                continue; // the partition is another spout's now
            }
            Long last = offset(gauges.get(name));
            if (last == null || last < committed) {
                return; // the broker does not answer (0 is Storm's answer then), and the rest would be taken for all
            }
            Long emitted = offset(gauges.get(own.group(1) + EMITTED));
            // An offset that was emitted is the last one; the one that was committed is the next.
            sum += Math.max(0, last - Math.max(committed, emitted == null ? 0 : emitted + 1));
            any = true;
        }
        if (any) {
            known = new Known(sum, System.nanoTime());
        }
    }

    /** The value of a gauge; null if it has none, or fails as those of partitions do that were given away. */
    private static Long offset(Gauge<?> gauge) {
        try {
            return gauge != null && gauge.getValue() instanceof Number number ? Long.valueOf(number.longValue()) : null;
        } catch (RuntimeException e) {
            return null;
        }
    }
}
