package stormwright.topologies;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.management.ManagementFactory;
import java.lang.reflect.Proxy;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.storm.spout.ISpoutOutputCollector;
import org.apache.storm.spout.SpoutOutputCollector;
import org.apache.storm.task.IOutputCollector;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.tuple.Tuple;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import stormwright.probe.TestTopology;

/** What the spouts and bolts of a shape do to tuples. */
class ShapedTest {
    private final List<List<Object>> emitted = new ArrayList<>();
    private int acked;

    @Test
    void aViewIsOneEventInThree() {
        run(Shape.ADVERTISING, "filter", 0, 300);
        assertEquals(100, emitted.size(), 1);
        assertEquals(300, acked);
        assertEquals(50, ((byte[]) emitted.get(0).get(1)).length);
    }

    @Test
    void aThousandAdvertisementsBelongToAHundredCampaigns() {
        run(Shape.ADVERTISING, "join", 0, 1000);
        assertEquals(1000, emitted.size());
        Map<Object, Long> advertisements =
                emitted.stream().collect(Collectors.groupingBy(values -> values.get(0), Collectors.counting()));
        assertEquals(100, advertisements.size());
        assertEquals(Set.of(10L), Set.copyOf(advertisements.values()));
    }

    @Test
    void whatNobodySubscribesToIsNotEmitted() {
        run(Shape.DIAMOND, "sink", 0, 10);
        assertEquals(List.of(), emitted);
        assertEquals(10, acked);
    }

    @Test
    void aTupleCostsItsCpu() {
        long begin = ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
        run(Shape.LINEAR, "bolt-1", 500, 100);
        double usedMs = (ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime() - begin) / 1e6;
        assertTrue(usedMs >= 50, usedMs + " ms");
    }

    @Test
    void aTupleThatIsEmittedAgainIsTheSame() {
        Shaped.KeySpout spout = new Shaped.KeySpout(0, 1000, 50);
        assertEquals(spout.tuple(7).get(0), spout.tuple(7).get(0));
        Set<Object> keys = new HashSet<>();
        for (long number = 0; number < 20_000; number++) {
            keys.add(spout.tuple(number).get(0));
        }
        assertEquals(1000, keys.size());
    }

    /** Task 4 is one of two of its component: 500 tuples/s are its share. */
    @Test
    void aTaskHasItsShareOfTheRateAndEmitsAgainWhatFailed(@TempDir Path spool) {
        List<Object> numbers = new ArrayList<>();
        Shaped.KeySpout spout = new Shaped.KeySpout(1000, 10, 0);
        long begin = System.nanoTime();
        spout.open(Map.of(), new TestTopology(spool).context(4), new SpoutOutputCollector(new Emissions(numbers)));
        emit(spout, numbers, 250);
        double tookMs = (System.nanoTime() - begin) / 1e6;
        assertTrue(tookMs >= 249 * 2, tookMs + " ms");
        assertTrue(tookMs < 2000, tookMs + " ms");
        assertEquals(250, Set.copyOf(numbers).size());
        spout.fail(numbers.get(17));
        emit(spout, numbers, 252);
        assertEquals(numbers.get(17), numbers.get(250));
        assertEquals(251, Set.copyOf(numbers).size());
    }

    private static void emit(PacedSpout spout, List<Object> numbers, int upTo) {
        while (numbers.size() < upTo) {
            spout.nextTuple();
        }
    }

    private void run(Shape shape, String name, int workUs, int tuples) {
        Shape.Component component =
                shape.components.stream().filter(one -> one.name().equals(name)).findFirst().orElseThrow();
        Shaped.Step step = new Shaped.Step(component, shape, workUs);
        step.prepare(Map.of(), null, new OutputCollector(new Recorder()));
        for (int key = 0; key < tuples; key++) {
            step.execute(tuple(key));
        }
    }

    /** Storm's own test tuples take 13 ms each to make. */
    private static Tuple tuple(int key) {
        return (Tuple) Proxy.newProxyInstance(ShapedTest.class.getClassLoader(), new Class<?>[] {Tuple.class},
                (proxy, method, args) -> method.getName().equals("getInteger") ? (Object) key : new byte[50]);
    }

    private final class Recorder implements IOutputCollector {
        @Override
        public List<Integer> emit(String streamId, Collection<Tuple> anchors, List<Object> values) {
            emitted.add(values);
            return List.of();
        }

        @Override
        public void emitDirect(int task, String streamId, Collection<Tuple> anchors, List<Object> values) {
            throw new UnsupportedOperationException();
        }

        @Override
        public void ack(Tuple input) {
            acked++;
        }

        @Override
        public void fail(Tuple input) {
            throw new UnsupportedOperationException();
        }

        @Override
        public void resetTimeout(Tuple input) {
            throw new UnsupportedOperationException();
        }

        @Override
        public void flush() {
            // nothing is held back
        }

        @Override
        public void reportError(Throwable error) {
            throw new IllegalStateException(error);
        }
    }

    /** Notes the numbers of the tuples that a spout emits. */
    private record Emissions(List<Object> numbers) implements ISpoutOutputCollector {
        @Override
        public List<Integer> emit(String streamId, List<Object> values, Object number) {
            numbers.add(number);
            return List.of();
        }

        @Override
        public void emitDirect(int task, String streamId, List<Object> values, Object number) {
            throw new UnsupportedOperationException();
        }

        @Override
        public long getPendingCount() {
            return 0;
        }

        @Override
        public void flush() {
            // nothing is held back
        }

        @Override
        public void reportError(Throwable error) {
            throw new IllegalStateException(error);
        }
    }
}
