package stormwright.topologies;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import org.apache.storm.daemon.StormCommon;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.utils.Utils;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Builds each topology and lets Storm say whether it is one. */
class TopologiesTest {
    private static Map<String, Integer> parallelism(
            Function<Arguments, StormTopology> build, Map<String, String> defaults, String... args) throws Exception {
        StormTopology topology = build.apply(Arguments.parse(args, defaults));
        StormCommon.validateBasic(topology);
        StormCommon.systemTopology(Utils.readDefaultConfig(), topology);
        Map<String, Integer> parallelism = new HashMap<>();
        StormCommon.allComponents(topology).forEach((name, component) ->
                parallelism.put(name, StormCommon.getComponentCommon(component).get_parallelism_hint()));
        return parallelism;
    }

    @Test
    void wordCount() throws Exception {
        Map<String, String> defaults = Submission.defaults("wc", "spouts", "2", "split", "4", "count", "4");
        assertEquals(Map.of("spout", 2, "split", 8, "count", 4), parallelism(WordCount::build, defaults, "split=8"));
    }

    @Test
    void exclamation() throws Exception {
        Map<String, String> defaults = Submission.defaults(
                "e", "spouts", "10", "exclaim1", "3", "exclaim2", "2", "exclaim3", "0");
        assertEquals(Map.of("word", 10, "exclaim1", 3, "exclaim2", 2), parallelism(Exclamation::build, defaults));
        assertEquals(4, parallelism(Exclamation::build, defaults, "exclaim3=4").get("exclaim3"));
    }

    @Test
    void rollingTopWords() throws Exception {
        Map<String, String> defaults = Submission.defaults(
                "r", "spouts", "5", "count", "4", "rank", "4", "window", "9", "top", "10");
        assertEquals(
                Map.of("word", 5, "count", 4, "rank", 4, "total", 1), parallelism(RollingTopWords::build, defaults));
    }

    @Test
    void reference() throws Exception {
        Map<String, String> defaults = Submission.defaults("r", "stages", "6", "replication", "2", "payload", "100");
        assertEquals(Set.of("spout", "simple-1", "stateful-2", "simple-3", "ack"),
                parallelism(Reference::build, defaults, "stages=3").keySet());
        assertEquals(Map.of("spout", 5, "simple-1", 5, "ack", 5),
                parallelism(Reference::build, defaults, "stages=1", "replication=5"));
    }

    @ParameterizedTest
    @EnumSource
    void everyShapeIsATopologyOfItsComponents(Shape shape) throws Exception {
        Shape.Component last = shape.components.get(shape.components.size() - 1);
        Map<String, Integer> expected = new HashMap<>();
        shape.components.forEach(component -> expected.put(component.name(), component.executors()));
        expected.put(last.name(), 7);
        assertEquals(expected, parallelism(
                arguments -> Shaped.build(shape, arguments), Shaped.defaults(shape), last.name() + "=7", "rate=5"));
    }

    @Test
    void aShapeThatThereIsNotIsRefused() {
        Arguments arguments = Arguments.parse(new String[] {"shape=ring"}, Shaped.defaults(Shape.LINEAR));
        assertEquals("shape=ring is none of linear, diamond, star, page-load, processing, advertising, sol",
                assertThrows(IllegalArgumentException.class, () -> Shaped.build(Shape.LINEAR, arguments)).getMessage());
    }
}
