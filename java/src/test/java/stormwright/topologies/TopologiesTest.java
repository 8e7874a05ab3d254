package stormwright.topologies;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import org.apache.storm.daemon.StormCommon;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.utils.Utils;
import org.junit.jupiter.api.Test;

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
}
