package stormwright.topologies;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Map;
import org.apache.storm.Config;
import org.junit.jupiter.api.Test;

class ArgumentsTest {
    private static final Map<String, String> DEFAULTS = Submission.defaults("wc", "split", "4");

    @Test
    void layOverDefaults() {
        Arguments arguments = Arguments.parse(new String[] {"split=8", "workers=2", "conf.topology.debug=true",
            "conf.topology.name=\"x=y\"", "probe.interval.ms=500"}, DEFAULTS);
        assertEquals(8, arguments.count("split", 1));
        Map<String, Object> conf = arguments.stormConf();
        assertEquals(2, conf.get(Config.TOPOLOGY_WORKERS));
        assertEquals(2, conf.get(Config.TOPOLOGY_ACKER_EXECUTORS));
        assertEquals(200, conf.get(Config.TOPOLOGY_MAX_SPOUT_PENDING));
        assertEquals(true, conf.get(Config.TOPOLOGY_DEBUG));
        assertEquals("x=y", conf.get(Config.TOPOLOGY_NAME));
        assertEquals("500", conf.get("stormwright.probe.interval.ms"));
        assertEquals(List.of("stormwright.ExecutorProbe"), conf.get(Config.TOPOLOGY_AUTO_TASK_HOOKS));
    }

    @Test
    void theProbeCanBeLeftOut() {
        Arguments arguments = Arguments.parse(new String[] {"probe=false"}, DEFAULTS);
        assertFalse(arguments.stormConf().containsKey(Config.TOPOLOGY_AUTO_TASK_HOOKS));
    }

    @Test
    void allFaultsAtOnce() {
        String[] args = {"splits=8", "fast", "conf.topology.name=wc"};
        String message = assertThrows(
                IllegalArgumentException.class, () -> Arguments.parse(args, DEFAULTS)).getMessage();
        assertTrue(message.contains("there is no 'splits', only name, workers"), message);
        assertTrue(message.contains("'fast' is not key=value"), message);
        assertTrue(message.contains("conf.topology.name is not JSON: wc"), message);
    }

    @Test
    void numbersAreChecked() {
        Arguments arguments = Arguments.parse(new String[] {"split=0", "rate=-1"}, DEFAULTS);
        assertEquals("split=0 is not a number of at least 1",
                assertThrows(IllegalArgumentException.class, () -> arguments.count("split", 1)).getMessage());
        assertThrows(IllegalArgumentException.class, () -> arguments.rate("rate"));
    }
}
