package stormwright.gateway;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.lang.reflect.Proxy;
import java.util.List;
import java.util.Map;
import org.apache.storm.generated.ClusterSummary;
import org.apache.storm.generated.Nimbus;
import org.apache.storm.generated.NotAliveException;
import org.apache.storm.generated.RebalanceOptions;
import org.apache.storm.generated.TopologySummary;
import org.junit.jupiter.api.Test;

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
    void withoutThemNothingOfItIsSet() throws Exception {
        rebalance(Map.of("name", "words", "wait_s", 0));
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
