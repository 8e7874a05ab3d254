package stormwright.topologies;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.storm.Config;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.utils.Utils;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

class OddTest {
    private static StormTopology build(String... args) {
        return Odd.build(Arguments.parse(args, Odd.defaults(args)));
    }

    @ParameterizedTest
    @EnumSource(Odd.Kind.class)
    void everyKindCanBeSubmitted(Odd.Kind kind) throws Exception {
        StormTopology topology = build("kind=" + kind.text(), "step=4");
        assertEquals(Set.of("step", "sink"), topology.get_bolts().keySet());
        assertEquals(kind == Odd.Kind.JOIN ? 2 : 1, topology.get_spouts_size());
        assertEquals(4, topology.get_bolts().get("step").get_common().get_parallelism_hint());
        org.apache.storm.daemon.StormCommon.validateBasic(topology);
        assertTrue(Utils.serialize(topology).length > 0);
    }

    @Test
    void anUnknownKindIsRefusedWithAllThatThereAre() {
        String text = assertThrows(IllegalArgumentException.class, () -> build("kind=none")).getMessage();
        assertTrue(text.startsWith("kind=none is none of unregistered, never-acking,"), text);
    }

    @Test
    void nineOfTenTuplesOfASkewedSourceHaveOneKey() {
        Odd.Source source = new Odd.Source(Odd.Kind.SKEWED, 0);
        long zeros = java.util.stream.LongStream.range(0, 10_000).filter(n -> source.tuple(n).get(0).equals(0)).count();
        assertEquals(9000, zeros, 150);
        assertEquals(AtomicLong.class, new Odd.Source(Odd.Kind.UNREGISTERED, 0).tuple(1).get(1).getClass());
    }

    @Test
    void aBoundStepEndsOnAnyOtherNode(@TempDir Path directory) {
        Odd.Step step = new Odd.Step(Odd.Kind.BOUND, 0, directory.resolve("home").toString());
        step.prepare(Map.of(Config.STORM_LOCAL_HOSTNAME, "a"), null, null);
        step.prepare(Map.of(Config.STORM_LOCAL_HOSTNAME, "a"), null, null);
        Map<String, Object> other = Map.of(Config.STORM_LOCAL_HOSTNAME, "b");
        assertThrows(IllegalStateException.class, () -> step.prepare(other, null, null));
    }

    @Test
    void anUnregisteredClassRunsInOneWorkerUnlessTold() {
        Map<String, Object> conf = Arguments.parse(new String[0], Odd.defaults()).stormConf();
        assertEquals(1, conf.get("topology.workers"));
    }
}
