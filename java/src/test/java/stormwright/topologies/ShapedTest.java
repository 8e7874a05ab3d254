package stormwright.topologies;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.management.ManagementFactory;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.storm.task.IOutputCollector;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.tuple.Tuple;
import org.junit.jupiter.api.Test;

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
}
