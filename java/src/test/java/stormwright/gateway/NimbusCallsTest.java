package stormwright.gateway;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.lang.reflect.Proxy;
import java.util.Map;
import org.apache.storm.generated.Nimbus;
import org.apache.storm.generated.RebalanceOptions;
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

    @Test
    void executorsThatAreNoNumbersAreRefusedByName() {
        Map<String, Object> args = Map.of("name", "words", "wait_s", 0, "executors", Map.of("count", "many"));
        assertEquals("args.count should be a number of at least 0",
                assertThrows(IllegalArgumentException.class, () -> rebalance(args)).getMessage());
    }
}
