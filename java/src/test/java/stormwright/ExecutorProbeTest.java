package stormwright;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.codahale.metrics.Gauge;
import com.codahale.metrics.MetricRegistry;
import com.codahale.metrics.SharedMetricRegistries;
import java.io.IOException;
import java.lang.reflect.Field;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.storm.Constants;
import org.apache.storm.hooks.info.BoltAckInfo;
import org.apache.storm.hooks.info.BoltFailInfo;
import org.apache.storm.hooks.info.EmitInfo;
import org.apache.storm.hooks.info.SpoutAckInfo;
import org.apache.storm.hooks.info.SpoutFailInfo;
import org.apache.storm.shade.net.minidev.json.JSONValue;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import stormwright.probe.TaskCounts;
import stormwright.probe.TestTopology;
import stormwright.probe.WorkerProbe;

class ExecutorProbeTest {
    @TempDir
    private Path spool;
    private TestTopology topology;
    private final Map<Integer, ExecutorProbe> probes = new HashMap<>();

    @BeforeEach
    void prepare() {
        topology = new TestTopology(spool);
        for (int task = 1; task <= 6; task++) {
            ExecutorProbe probe = new ExecutorProbe();
            probe.prepare(topology.conf, topology.context(task));
            probes.put(task, probe);
        }
    }

    /** Ends all tasks, which writes the last record. */
    private Map<?, ?> record() throws IOException {
        probes.values().forEach(ExecutorProbe::cleanup);
        List<String> lines = new ArrayList<>();
        try (var files = Files.walk(spool)) {
            for (Path file : files.filter(path -> path.toString().endsWith(".jsonl")).toList()) {
                lines.addAll(Files.readAllLines(file));
            }
        }
        assertEquals(1, lines.size());
        return (Map<?, ?>) JSONValue.parse(lines.get(0));
    }

    private static Map<?, ?> executor(Map<?, ?> record, int task) {
        return (Map<?, ?>) ((List<?>) record.get("executors")).stream()
                .filter(executor -> ((Map<?, ?>) executor).get("first_task").equals(task)).findAny().orElseThrow();
    }

    /** Pairs as "source stream target" to tuples and bytes. */
    private static Map<String, List<?>> pairs(Map<?, ?> record) {
        Map<String, List<?>> pairs = new HashMap<>();
        for (Object entry : (List<?>) record.get("pairs")) {
            List<?> pair = (List<?>) entry;
            List<?> stream = (List<?>) ((List<?>) record.get("streams")).get((Integer) pair.get(2));
            pairs.put(pair.get(0) + " " + stream.get(1) + " " + pair.get(1), pair.subList(3, 5));
        }
        return pairs;
    }

    private static void runAs(String name, Runnable body) throws InterruptedException {
        Thread thread = new Thread(body, name);
        thread.start();
        thread.join();
    }

    @Test
    void recordHasItsShape() throws Exception {
        Map<?, ?> record = record();
        Set<Object> fields = new HashSet<>(record.keySet());
        fields.remove("threads"); // not every system tells of them
        assertEquals(
                Set.of("version", "worker", "seq", "start_ms", "length_ns", "written_ms", "process_cpu_ns",
                        "heap_bytes", "heap_limit_bytes", "executors", "streams", "pairs", "complete_latency", "gc", "node"),
                fields);
        assertEquals(Set.of("collections", "ms"), ((Map<?, ?>) record.get("gc")).keySet());
        Map<?, ?> worker = (Map<?, ?>) record.get("worker");
        Set<Object> named = new HashSet<>(worker.keySet());
        long ageMs = ((Number) record.get("written_ms")).longValue() - ((Number) worker.get("start_ms")).longValue();
        if (Math.abs(ageMs - 60_000) > 2_000) { // at which age they are left out, and this JVM may have run many tests
            assertEquals(ageMs < 60_000, named.contains("connections"));
        }
        named.remove("connections");
        assertEquals(Set.of("topology", "supervisor", "host", "port", "pid", "start_ms", "last"), named);
        assertEquals(TestTopology.ID, worker.get("topology"));
        assertEquals(TestTopology.PORT, worker.get("port"));
        assertEquals(0, record.get("seq"));
        assertEquals(
                Set.of("component", "type", "first_task", "last_task", "cpu_ns", "received", "emitted", "trees", "pending",
                        "acked", "failed", "execute_ns", "queue"),
                executor(record, 4).keySet());
        assertEquals("system", executor(record, 1).get("type"));
        assertEquals("bolt", executor(record, 2).get("type"));
        assertEquals("spout", executor(record, 6).get("type"));
        List<?> streams = (List<?>) record.get("streams");
        assertTrue(streams.containsAll(List.of(
                List.of("spout", "default", "split", "shuffle"),
                List.of("split", "default", "count", "fields"),
                List.of("spout", "__ack_init", "__acker", "fields"),
                List.of("count", "__ack_ack", "__acker", "fields"),
                List.of("__acker", "__ack_ack", "spout", "direct"),
                List.of("__acker", "__ack_fail", "spout", "direct"))), streams.toString());
        assertEquals(Set.of("counts"), ((Map<?, ?>) record.get("complete_latency")).keySet());
    }

    @Test
    void countsWhatHappens() throws Exception {
        runAs("Thread-9-spout-executor[6, 6]", () -> {
            for (int i = 0; i < 1000; i++) {
                probes.get(6).emit(TestTopology.emit("default", 6, "sentence", 4 + i % 2));
                probes.get(6).emit(TestTopology.emit("__ack_init", 6, 1L, 1));
            }
            probes.get(6).spoutAck(new SpoutAckInfo(1L, 6, 20L));
            probes.get(6).spoutAck(new SpoutAckInfo(2L, 6, null));
            probes.get(6).spoutFail(new SpoutFailInfo(3L, 6, null));
        });
        runAs("Thread-9-split-executor[4, 4]", () -> {
            for (int i = 0; i < 500; i++) {
                probes.get(4).boltExecute(topology.executed(6, 4, i % 20 == 0 ? 2 : -1));
                probes.get(4).boltAck(new BoltAckInfo(null, 4, null));
            }
            probes.get(4).boltExecute(topology.executed(-1, 4, -1));
            probes.get(4).boltFail(new BoltFailInfo(null, 4, null));
            probes.get(4).emit(TestTopology.emit("default", 4, "word", 2, 3));
        });
        Map<?, ?> record = record();
        Map<?, ?> spout = executor(record, 6);
        assertEquals(List.of(1000, 1000, 2, 1),
                List.of(spout.get("emitted"), spout.get("trees"), spout.get("acked"), spout.get("failed")));
        Map<?, ?> split = executor(record, 4);
        assertEquals(List.of(500, 1, 500, 1),
                List.of(split.get("received"), split.get("emitted"), split.get("acked"), split.get("failed")));
        assertEquals(25 * 2 * 1_000_000 * 20, split.get("execute_ns"));
        Map<String, List<?>> pairs = pairs(record);
        assertEquals(500, pairs.get("6 default 4").get(0));
        assertEquals(500, pairs.get("6 default 5").get(0));
        assertEquals(1000, pairs.get("6 __ack_init 1").get(0));
        assertEquals(1, pairs.get("4 default 2").get(0));
        assertEquals(1, pairs.get("4 default 3").get(0));
        assertEquals(5, pairs.size());
        int bytes = (Integer) pairs.get("6 default 4").get(1) / 500;
        assertTrue(bytes >= "sentence".length() && bytes <= 2 * "sentence".length(), "bytes of a tuple: " + bytes);
        List<?> latency = (List<?>) ((Map<?, ?>) record.get("complete_latency")).get("counts");
        assertEquals(1, latency.get(18)); // 2^(17/4) = 19.03 < 20 <= 2^(18/4)
        assertEquals(19, latency.size());
    }

    @Test
    void whatComesBySeveralStreamsIsCountedByStream() throws Exception {
        runAs("Thread-9-count-executor[2, 3]", () -> {
            for (int i = 0; i < 60; i++) {
                probes.get(2).boltExecute(topology.executed(6, 2, i % 20 == 0 ? 3 : -1));
                probes.get(3).boltExecute(topology.executed(4 + i % 2, 3, i % 20 == 0 ? 1 : -1));
            }
            probes.get(2).boltExecute(topology.executed(4, 2, -1));
            probes.get(2).boltExecute(topology.executed(-1, 2, 5)); // a tick comes by no stream of ours
            probes.get(4).boltExecute(topology.executed(6, 4, -1));
        });
        Map<?, ?> record = record();
        Map<String, List<?>> inputs = new HashMap<>();
        for (int task = 2; task <= 3; task++) {
            for (Object entry : (List<?>) executor(record, task).get("inputs")) {
                List<?> input = (List<?>) entry;
                List<?> stream = (List<?>) ((List<?>) record.get("streams")).get((Integer) input.get(0));
                assertEquals("count", stream.get(2));
                inputs.put(task + " " + stream.get(0), input.subList(1, 3));
            }
        }
        assertEquals(
                Map.of(
                        "2 spout", List.of(60, 3 * 3 * 1_000_000 * 20),
                        "2 split", List.of(1, 0),
                        "3 split", List.of(60, 3 * 1_000_000 * 20)),
                inputs);
        assertTrue(!executor(record, 4).containsKey("inputs"), "a single stream is all that was received");
        assertTrue(!executor(record, 6).containsKey("inputs"), "a spout");
        assertTrue(!executor(record, 1).containsKey("inputs"), "an acker");
    }

    @Test
    void exactWithFourThreads() throws Exception {
        int threads = 4;
        int each = 200_000;
        CountDownLatch start = new CountDownLatch(1);
        List<Thread> running = new ArrayList<>();
        for (int i = 0; i < threads; i++) {
            // one of them is the executor's own
            Thread thread = new Thread(() -> {
                EmitInfo info = TestTopology.emit("default", 4, "word", 2, 3);
                try {
                    start.await();
                } catch (InterruptedException e) {
                    return;
                }
                for (int n = 0; n < each; n++) {
                    probes.get(4).emit(info);
                    probes.get(4).boltAck(null);
                }
            }, i == 0 ? "Thread-7-split-executor[4, 4]" : "helper-" + i);
            running.add(thread);
            thread.start();
        }
        start.countDown();
        for (Thread thread : running) {
            thread.join();
        }
        Map<?, ?> record = record();
        assertEquals(threads * each, executor(record, 4).get("emitted"));
        assertEquals(threads * each, executor(record, 4).get("acked"));
        assertEquals(threads * each, pairs(record).get("4 default 2").get(0));
        assertEquals(threads * each, pairs(record).get("4 default 3").get(0));
    }

    @Test
    void oddEmissionsDoNoHarm() throws Exception {
        runAs("Thread-9-split-executor[4, 4]", () -> {
            probes.get(4).emit(TestTopology.emit("default", 4, new Object(), 2)); // not serializable
            probes.get(4).emit(TestTopology.emit("default", 4, "x", (Integer) null)); // emitDirect to no subscriber
            probes.get(4).emit(TestTopology.emit("default", 4, "x", 99)); // no such task
            probes.get(4).emit(TestTopology.emit("unheard", 4, "x"));
            probes.get(4).emit(new EmitInfo(null, null, 4, null));
        });
        Map<?, ?> record = record();
        assertEquals(5, executor(record, 4).get("emitted"));
        assertEquals(Map.of("4 default 2", List.of(1, 0)), pairs(record));
    }

    @Test
    void aTupleThatCannotBeSizedCounts() throws Exception {
        List<Object> endless = new ArrayList<>();
        endless.add(endless); // serializing it takes all of the stack; inside one worker Storm does not
        runAs("Thread-9-split-executor[4, 4]", () -> {
            probes.get(4).emit(TestTopology.emit("default", 4, endless, 2));
            probes.get(4).emit(TestTopology.emit("default", 4, "x", 2));
        });
        Map<?, ?> record = record();
        assertEquals(2, executor(record, 4).get("emitted"));
        assertEquals(Map.of("4 default 2", List.of(2, 0)), pairs(record));
    }

    @Test
    void nothingOfOursLeavesACallback() throws Exception {
        ExecutorProbe probe = probes.get(4);
        Field field = ExecutorProbe.class.getDeclaredField("counts");
        field.setAccessible(true);
        TaskCounts counts = (TaskCounts) field.get(probe);
        // A fault of ours that nobody has thought of.
        Field counters = TaskCounts.class.getDeclaredField("counters");
        counters.setAccessible(true);
        Object right = counters.get(counts);
        counters.set(counts, null);
        for (int i = 0; i < 2; i++) {
            probe.emit(TestTopology.emit("default", 4, "x", 2));
            probe.boltExecute(topology.executed(6, 4, 2));
            probe.boltAck(new BoltAckInfo(null, 4, null));
            probe.boltFail(new BoltFailInfo(null, 4, null));
            probe.spoutAck(new SpoutAckInfo(1L, 4, 20L));
            probe.spoutFail(new SpoutFailInfo(2L, 4, null));
        }
        assertEquals(12, counts.uncounted());
        counters.set(counts, right);
        probe.emit(TestTopology.emit("default", 4, "x", 2));
        probe.boltExecute(null);
        probe.spoutAck(null);
        assertEquals(14, counts.uncounted());
        assertEquals(1, executor(record(), 4).get("emitted"));
    }

    @Test
    void nothingOfOursLeavesTheEndOfATask() throws Exception {
        Field worker = ExecutorProbe.class.getDeclaredField("worker");
        worker.setAccessible(true);
        Field timer = WorkerProbe.class.getDeclaredField("timer");
        timer.setAccessible(true);
        Object of = worker.get(probes.get(1));
        Object right = timer.get(of);
        timer.set(of, null);
        probes.values().forEach(ExecutorProbe::cleanup);
        ((ScheduledThreadPoolExecutor) right).shutdown();
    }

    @Test
    void recordsGoOnAfterAnError() throws Exception {
        TestTopology quick = new TestTopology(spool);
        quick.conf.put("stormwright.probe.interval.ms", "100");
        probes.values().forEach(ExecutorProbe::cleanup);
        AtomicInteger reads = new AtomicInteger();
        MetricRegistry registry = SharedMetricRegistries.getOrCreate(Constants.WORKER_METRICS_REGISTRY);
        registry.register("storm.worker." + TestTopology.ID + ".host.spout.6.6700-receive-queue-pct_full",
                (Gauge<Double>) () -> {
                    if (reads.incrementAndGet() == 1) {
                        throw new StackOverflowError();
                    }
                    return 0.5;
                });
        ExecutorProbe probe = new ExecutorProbe();
        try {
            probe.prepare(quick.conf, quick.context(6));
            long deadline = System.nanoTime() + 10_000_000_000L;
            while (reads.get() < 3 && System.nanoTime() < deadline) {
                Thread.sleep(10);
            }
            assertTrue(reads.get() >= 3, "records " + reads.get());
        } finally {
            probe.cleanup();
            SharedMetricRegistries.remove(Constants.WORKER_METRICS_REGISTRY);
        }
    }

    @Test
    void executorThreadsGiveCpuTime() throws Exception {
        CountDownLatch done = new CountDownLatch(1);
        Thread busy = new Thread(() -> {
            while (done.getCount() > 0) {
                Thread.onSpinWait();
            }
        }, "Thread-3-count-executor[2, 3]");
        busy.start();
        Thread.sleep(200);
        Map<?, ?> record = record();
        done.countDown();
        busy.join();
        Map<?, ?> count = executor(record, 2);
        assertEquals(3, count.get("last_task"));
        assertTrue(((Number) count.get("cpu_ns")).longValue() > 20_000_000, "cpu_ns " + count.get("cpu_ns"));
        assertEquals(0, executor(record, 4).get("cpu_ns"));
        assertEquals(5, ((List<?>) record.get("executors")).size());
    }
}
