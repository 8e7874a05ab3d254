package stormwright.gateway;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.lang.reflect.Proxy;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.storm.generated.ClusterSummary;
import org.apache.storm.generated.Nimbus;
import org.apache.storm.generated.NotAliveException;
import org.apache.storm.generated.RebalanceOptions;
import org.apache.storm.generated.TopologySummary;
import org.apache.storm.utils.Utils;
import org.junit.jupiter.api.Test;
import stormwright.access.ConfDigest;

class NimbusCallsTest {
    private RebalanceOptions told;

    private void rebalance(Map<String, Object> args) throws Exception {
        Nimbus.Iface nimbus = (Nimbus.Iface) Proxy.newProxyInstance(
                getClass().getClassLoader(), new Class<?>[] {Nimbus.Iface.class}, (proxy, method, given) -> {
                    assertEquals("rebalance", method.getName());
                    assertEquals("words", given[0]);
                    told = (RebalanceOptions) given[1];
                    return null;
                });
        NimbusCalls.call(nimbus, (host, port, assignments) -> { }, "rebalance", args);
    }

    @Test
    void aRebalanceHasTheExecutorsAndWorkersThatAreGiven() throws Exception {
        rebalance(Map.of("name", "words", "wait_s", 3, "num_workers", 2, "executors", Map.of("count", 4, "split", 1)));
        assertEquals(Map.of("count", 4, "split", 1), told.get_num_executors());
        assertEquals(2, told.get_num_workers());
        assertEquals(3, told.get_wait_secs());
    }

    @Test
    void aRebalanceHasTheConfigurationThatIsGivenAsJson() throws Exception {
        Map<String, Object> conf = new TreeMap<>(Map.of("topology.debug", true, "topology.max.spout.pending", 50));
        conf.put("topology.tick.tuple.freq.secs", null);
        rebalance(Map.of("name", "words", "wait_s", 0, "conf", conf));
        assertEquals("{\"topology.debug\":true,\"topology.max.spout.pending\":50,"
                + "\"topology.tick.tuple.freq.secs\":null}", told.get_topology_conf_overrides());
    }

    /** A worker reads it from a file, a client of Nimbus as a text: keys come in any order, numbers with their types. */
    @Test
    void configurationsThatAreEqualHaveTheSameDigest() throws Exception {
        Map<String, Object> one = new LinkedHashMap<>();
        one.put("b", List.of(1L, Map.of("y", 0.05, "x", "text")));
        one.put("a", null);
        Map<String, Object> other = Utils.fromCompressedJsonConf(Utils.toCompressedJsonConf(one));
        Map<String, Object> turned = new TreeMap<>(one);
        assertEquals(ConfDigest.of(one), ConfDigest.of(other));
        assertEquals(ConfDigest.of(one), ConfDigest.of(turned));
        turned.put("a", 1L);
        assertNotEquals(ConfDigest.of(one), ConfDigest.of(turned));
    }

    @Test
    void withoutThemNothingOfItIsSet() throws Exception {
        rebalance(Map.of("name", "words", "wait_s", 0));
        assertFalse(told.is_set_topology_conf_overrides());
        assertFalse(told.is_set_num_executors());
        assertFalse(told.is_set_num_workers());
    }

    /** Nimbus lists `listed`, and knows no name. */
    private static Throwable activationOf(String name, String listed) {
        Nimbus.Iface nimbus = (Nimbus.Iface) Proxy.newProxyInstance(
                NimbusCallsTest.class.getClassLoader(), new Class<?>[] {Nimbus.Iface.class}, (proxy, method, given) -> {
                    if (method.getName().equals("getClusterInfo")) {
                        TopologySummary topology = new TopologySummary();
                        topology.set_name(listed);
                        ClusterSummary cluster = new ClusterSummary();
                        cluster.set_topologies(List.of(topology));
                        return cluster;
                    }
                    throw new NotAliveException(given[0] + " is not alive");
                });
        return assertThrows(Exception.class,
                () -> NimbusCalls.call(nimbus, (host, port, assignments) -> { }, "activate", Map.of("name", name)));
    }

    @Test
    void aTopologyThatIsListedIsAliveBeforeNimbusKnowsItsName() {
        assertEquals("NotReadyException", activationOf("words", "words").getClass().getSimpleName());
        assertEquals("NotAliveException", activationOf("words", "others").getClass().getSimpleName());
    }

    @Test
    void executorsThatAreNoNumbersAreRefusedByName() {
        Map<String, Object> args = Map.of("name", "words", "wait_s", 0, "executors", Map.of("count", "many"));
        assertEquals("args.count should be a number of at least 0",
                assertThrows(IllegalArgumentException.class, () -> rebalance(args)).getMessage());
    }
}
