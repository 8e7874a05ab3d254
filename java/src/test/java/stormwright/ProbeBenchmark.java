package stormwright;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.function.IntConsumer;
import org.apache.storm.hooks.info.BoltAckInfo;
import org.apache.storm.hooks.info.BoltExecuteInfo;
import org.apache.storm.hooks.info.EmitInfo;
import stormwright.probe.TestTopology;

/**
 * What the probe costs a tuple, in ns: best of several rounds on one thread, first of a loop without it.
 *
 * <p>{@code java -cp java/target/classes:java/target/test-classes:build/storm/lib/* stormwright.ProbeBenchmark}
 */
public final class ProbeBenchmark {
    private static final int CALLS = 5_000_000;
    private static final int ROUNDS = 8;

    private ProbeBenchmark() {
    }

    public static void main(String[] args) throws Exception {
        Path spool = Files.createTempDirectory("probe-benchmark");
        Thread executor = new Thread(() -> measure(spool), "Thread-1-split-executor[4, 4]");
        executor.start();
        executor.join();
    }

    private static void measure(Path spool) {
        TestTopology topology = new TestTopology(spool);
        ExecutorProbe probe = new ExecutorProbe();
        probe.prepare(topology.conf, topology.context(4));
        EmitInfo[] emissions = new EmitInfo[64];
        Arrays.setAll(emissions, i -> TestTopology.emit(i % 2 == 0 ? "default" : "__ack_ack", 4, "word" + i,
                i % 2 == 0 ? 2 + i % 4 / 2 : 1));
        BoltExecuteInfo executed = topology.executed(6, 4, -1);
        BoltAckInfo acked = new BoltAckInfo(executed.tuple, 4, null);
        long[] sink = new long[1];
        report("loop alone", i -> sink[0] += emissions[i & 63].taskId);
        report("emit", i -> probe.emit(emissions[i & 63]));
        report("boltExecute", i -> probe.boltExecute(executed));
        report("boltAck", i -> probe.boltAck(acked));
        probe.cleanup();
    }

    private static void report(String what, IntConsumer call) {
        double best = Double.MAX_VALUE;
        for (int round = 0; round < ROUNDS; round++) {
            long begun = System.nanoTime();
            for (int i = 0; i < CALLS; i++) {
                call.accept(i);
            }
            best = Math.min(best, (double) (System.nanoTime() - begun) / CALLS);
        }
        System.out.printf("%-12s %6.1f ns%n", what, best);
    }
}
