package stormwright.probe;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.codahale.metrics.Gauge;
import com.codahale.metrics.MetricRegistry;
import com.codahale.metrics.SharedMetricRegistries;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.storm.Config;
import org.apache.storm.Constants;
import org.apache.storm.shade.net.minidev.json.JSONValue;
import org.apache.storm.task.TopologyContext;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class WorkerMeterTest {
    private final TestTopology topology = new TestTopology(Path.of("unused"));
    private final TopologyContext context = topology.context(6);

    @AfterEach
    void forget() {
        SharedMetricRegistries.remove(Constants.WORKER_METRICS_REGISTRY);
    }

    private TaskCounts counts(List<Edge> edges) {
        return new TaskCounts(6, "spout", edges, List.of(), context, new PayloadSampler(topology.conf));
    }

    private Map<?, ?> record(TaskCounts counts) {
        WorkerMeter meter = new WorkerMeter(WorkerIdentity.of(context), Set.of("spout"), Set.of(), 20);
        meter.add(new TaskMeter(counts, context.getTaskToComponent()));
        return (Map<?, ?>) JSONValue.parse(new String(meter.record(false), StandardCharsets.UTF_8));
    }

    /** A grouping of the user's may choose any task; Storm sends the tuple there. */
    @Test
    void aTupleToATaskThatDoesNotSubscribeIsInNoPair() {
        // Tasks 1 and 4 to 5 subscribe; 2 and 3 lie between them.
        TaskCounts counts = counts(List.of(new Edge("spout", "default", "__acker", "fields"),
                new Edge("spout", "default", "split", "shuffle")));
        counts.emitted(TestTopology.emit("default", 6, "x", 2));
        counts.emitted(TestTopology.emit("default", 6, "x", 4, 3, 1));
        Map<?, ?> record = record(counts);
        assertEquals(List.of(List.of(6, 1, 0, 1, 0), List.of(6, 4, 1, 1, 0)), record.get("pairs"));
        assertEquals(2, ((Map<?, ?>) ((List<?>) record.get("executors")).get(0)).get("emitted"));
    }

    /** As a topology in one worker may run for years: nothing was ever serialized. */
    @Test
    void aStreamWithObjectsThatKryoDoesNotKnowIsNamedAndTheOthersAreSized() throws InterruptedException {
        topology.conf.put(Config.TOPOLOGY_FALL_BACK_ON_JAVA_SERIALIZATION, false);
        TaskCounts counts = counts(List.of(new Edge("spout", "default", "split", "shuffle"),
                new Edge("spout", "words", "count", "shuffle")));
        assertNull(record(counts).get("unserializable"));
        Thread executor = new Thread(() -> {
            counts.emitted(TestTopology.emit("default", 6, new AtomicLong(), 4));
            counts.emitted(TestTopology.emit("words", 6, "word", 2));
            counts.emitted(TestTopology.emit("default", 6, "word", 4));
        }, "Thread-9-spout-executor[6, 6]");
        executor.start();
        executor.join();
        Map<?, ?> record = record(counts);
        List<?> named = (List<?>) ((List<?>) record.get("unserializable")).get(0);
        assertEquals(List.of("spout", "default"), named.subList(0, 2));
        assertTrue(named.get(2).toString().contains("Class is not registered"), named.get(2).toString());
        assertEquals(1, ((List<?>) record.get("unserializable")).size());
        List<?> pairs = (List<?>) record.get("pairs");
        assertEquals(0, ((List<?>) pairs.get(0)).get(4));
        assertTrue((Integer) ((List<?>) pairs.get(1)).get(4) > 0);
    }

    /** A child that computes, of a bolt of another language. */
    @Test
    void theCpuOfAProcessOfAnotherLanguageIsThatOfItsExecutor() throws Exception {
        WorkerMeter meter = new WorkerMeter(WorkerIdentity.of(context), Set.of(), Set.of("spout"), 20);
        meter.add(new TaskMeter(counts(List.of()), context.getTaskToComponent()));
        meter.record(false);
        meter.commit();
        Process child = new ProcessBuilder("sh", "-c", "while :; do :; done").start();
        try {
            long begin = System.nanoTime();
            long childNs = 0;
            while (childNs < 300_000_000L && System.nanoTime() - begin < 20_000_000_000L) {
                Thread.sleep(20);
                childNs = child.info().totalCpuDuration().map(Duration::toNanos).orElse(0L);
            }
            Map<?, ?> record = (Map<?, ?>) JSONValue.parse(new String(meter.record(false), StandardCharsets.UTF_8));
            long cpuNs = ((Number) ((Map<?, ?>) ((List<?>) record.get("executors")).get(0)).get("cpu_ns")).longValue();
            assertTrue(cpuNs >= childNs && cpuNs < 2 * childNs, cpuNs + " of " + childNs);
            assertTrue(((Number) record.get("process_cpu_ns")).longValue() >= cpuNs);
            meter.commit();
            record = (Map<?, ?>) JSONValue.parse(new String(meter.record(false), StandardCharsets.UTF_8));
            Number next = (Number) ((Map<?, ?>) ((List<?>) record.get("executors")).get(0)).get("cpu_ns");
            assertTrue(next.longValue() < childNs, next + " after " + childNs);
        } finally {
            child.destroyForcibly();
        }
    }

    @Test
    void metricsOfTheTopologysOwnAreNoQueues() {
        MetricRegistry registry = SharedMetricRegistries.getOrCreate(Constants.WORKER_METRICS_REGISTRY);
        String place = TestTopology.ID + ".host.spout.6.6700-";
        Gauge<Double> half = () -> 0.5;
        registry.register("storm.worker." + place + "receive-queue-pct_full", half);
        registry.register("storm.topology." + place + "receive-queue-pct_full", (Gauge<Double>) () -> 0.25);
        registry.register("storm.topology." + place + "my.own-receive-queue-pct_full", (Gauge<Double>) () -> 0.75);
        assertEquals(Map.of(6, half), QueueGauges.byTask(TestTopology.ID));
        Map<?, ?> executor = (Map<?, ?>) ((List<?>) record(counts(List.of())).get("executors")).get(0);
        assertEquals(0.5, executor.get("queue"));
    }

    /** As the tuples are that flush batches; a backlog is there each time. */
    @Test
    void aQueueThatIsEmptyNowAndThenIsEmptyWhereNothingFlows() {
        MetricRegistry registry = SharedMetricRegistries.getOrCreate(Constants.WORKER_METRICS_REGISTRY);
        AtomicInteger reads = new AtomicInteger();
        registry.register("storm.worker." + TestTopology.ID + ".host.spout.6.6700-receive-queue-pct_full",
                (Gauge<Double>) () -> reads.incrementAndGet() % 5 == 0 ? 0.0 : 0.001);
        Map<?, ?> executor = (Map<?, ?>) ((List<?>) record(counts(List.of())).get("executors")).get(0);
        assertEquals(0.0, executor.get("queue"));
        assertEquals(5, reads.get());
    }

    @Test
    void aQueueWithoutANumberIsNotKnown() {
        assertNull(QueueGauges.read((Gauge<Double>) () -> Double.NaN));
        assertNull(QueueGauges.read((Gauge<Double>) () -> {
            throw new IllegalStateException("not yet");
        }));
        assertEquals(1.0, QueueGauges.read((Gauge<Double>) () -> 1.5));
    }

    /** As {@code KafkaOffsetPartitionMetrics} of Storm names and computes them; a worker at another port reads others. */
    @Test
    void aBacklogIsWhatPartitionsHaveBeyondTheOffsetsThatWereEmitted() {
        MetricRegistry registry = SharedMetricRegistries.getOrCreate(Constants.WORKER_METRICS_REGISTRY);
        KafkaBacklog backlog = new KafkaBacklog(TestTopology.ID, 6700);
        backlog.read();
        assertNull(backlog.waiting());
        partition(registry, "6700", "a.topic/partition_0/", () -> 100L, () -> 69L, () -> 40L);
        partition(registry, "6700", "a.topic/partition_1/", () -> 10L, () -> 0L, () -> 10L); // nothing since it started
        partition(registry, "6701", "a.topic/partition_2/", () -> 500L, () -> 0L, () -> 0L);
        partition(registry, "6700", "a.topic/partition_3/", () -> 500L, () -> 0L, () -> {
            throw new IllegalStateException("it is another spout's now");
        });
        backlog.read();
        assertEquals(30, backlog.waiting());
        partition(registry, "6700", "a.topic/partition_4/", () -> 0L, () -> 9L, () -> 5L); // Storm has 0 if it fails
        registry.remove(registry.getNames().stream().filter(name -> name.endsWith("_0/latestTimeOffset")).findAny()
                .orElseThrow());
        backlog.read(); // the broker does not answer: as before
        assertEquals(30, backlog.waiting());
    }

    private static void partition(
            MetricRegistry registry, String port, String name, Gauge<Long> end, Gauge<Long> emitted, Gauge<Long> committed) {
        String place = "storm.topology." + TestTopology.ID + ".host.spout.6." + port + "-kafkaOffset." + name;
        registry.register(place + "latestTimeOffset", end);
        registry.register(place + "latestEmittedOffset", emitted);
        registry.register(place + "latestCompletedOffset", committed);
    }
}
