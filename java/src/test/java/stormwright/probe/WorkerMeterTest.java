package stormwright.probe;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import com.codahale.metrics.Gauge;
import com.codahale.metrics.MetricRegistry;
import com.codahale.metrics.SharedMetricRegistries;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Set;
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
        WorkerMeter meter = new WorkerMeter(WorkerIdentity.of(context), Set.of("spout"), 20);
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

    @Test
    void aQueueWithoutANumberIsNotKnown() {
        assertNull(QueueGauges.read((Gauge<Double>) () -> Double.NaN));
        assertNull(QueueGauges.read((Gauge<Double>) () -> {
            throw new IllegalStateException("not yet");
        }));
        assertEquals(1.0, QueueGauges.read((Gauge<Double>) () -> 1.5));
    }
}
