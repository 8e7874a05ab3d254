package stormwright;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.storm.generated.Assignment;
import org.apache.storm.generated.ClusterSummary;
import org.apache.storm.generated.ErrorInfo;
import org.apache.storm.generated.ExecutorInfo;
import org.apache.storm.generated.ExecutorSummary;
import org.apache.storm.generated.KillOptions;
import org.apache.storm.generated.Nimbus;
import org.apache.storm.generated.NotAliveException;
import org.apache.storm.generated.RebalanceOptions;
import org.apache.storm.generated.SupervisorAssignments;
import org.apache.storm.generated.SupervisorSummary;
import org.apache.storm.generated.TopologyInfo;
import org.apache.storm.generated.TopologySummary;
import org.apache.storm.thrift.transport.TTransportException;
import org.apache.storm.utils.NimbusClient;
import org.apache.storm.utils.Utils;
import org.junit.jupiter.api.Test;
import stormwright.gateway.NimbusConnection;

class NimbusGatewayTest {
    private final List<String> calls = new ArrayList<>();
    private int brokenCalls;

    /** A Nimbus with one supervisor and one topology, "wc". */
    private Object nimbus(Object proxy, Method method, Object[] args) throws Exception {
        if (brokenCalls > 0) {
            brokenCalls--;
            throw new TTransportException("broken pipe");
        }
        switch (method.getName()) {
            case "getClusterInfo":
                SupervisorSummary supervisor = new SupervisorSummary("node1", 60, 4, 1, "sup-1");
                TopologySummary topology = new TopologySummary("wc-1-16", "wc", 12, 12, 3, 50, "ACTIVE");
                topology.set_owner("me");
                return new ClusterSummary(List.of(supervisor), List.of(topology), List.of());
            case "getTopologyInfoWithOpts":
                ExecutorSummary executor = new ExecutorSummary(new ExecutorInfo(5, 6), "split", "node1", 6700, 40);
                ErrorInfo error = new ErrorInfo("java.io.IOException: x\n\tat y", 16);
                return new TopologyInfo("wc-1-16", "wc", 50, List.of(executor), "ACTIVE",
                        Map.of("split", List.of(error), "count", List.of()));
            case "getSupervisorAssignments":
                SupervisorAssignments assignments = new SupervisorAssignments();
                assignments.set_storm_assignment(Map.of("wc-1-16", new Assignment()));
                return assignments;
            case "rebalance":
                calls.add("rebalance " + args[0] + " " + ((RebalanceOptions) args[1]).get_wait_secs());
                return null;
            case "killTopologyWithOpts":
                calls.add("kill " + args[0] + " " + ((KillOptions) args[1]).get_wait_secs());
                return null;
            case "activate":
                throw new NotAliveException(args[0] + "");
            default:
                calls.add(method.getName() + " " + args[0]);
                return null;
        }
    }

    private List<Map<?, ?>> ask(String... requests) throws Exception {
        Nimbus.Iface nimbus = (Nimbus.Iface) Proxy.newProxyInstance(
                getClass().getClassLoader(), new Class<?>[] {Nimbus.Iface.class}, this::nimbus);
        NimbusClient.LocalOverride local = new NimbusClient.LocalOverride(nimbus);
        try (local; NimbusConnection connection = new NimbusConnection(Utils.readDefaultConfig())) {
            return Responses.of(new NimbusGateway(connection), requests);
        }
    }

    @Test
    void answersInOrder() throws Exception {
        List<Map<?, ?>> responses = ask(
                "{\"id\":1,\"call\":\"ping\"}",
                "",
                "{\"id\":2,\"call\":\"rebalance\",\"args\":{\"name\":\"wc\",\"wait_s\":2}}",
                "{\"id\":3,\"call\":\"kill\",\"args\":{\"name\":\"wc\",\"wait_s\":0}}",
                "{\"id\":4,\"call\":\"deactivate\",\"args\":{\"name\":\"wc\"}}");
        assertEquals(List.of(1, 2, 3, 4), responses.stream().map(response -> (Object) response.get("id")).toList());
        assertEquals("pong", responses.get(0).get("result"));
        assertEquals(List.of("rebalance wc 2", "kill wc 0", "deactivate wc"), calls);
    }

    @Test
    void cluster() throws Exception {
        Map<?, ?> result = (Map<?, ?>) ask("{\"id\":1,\"call\":\"cluster\",\"args\":{}}").get(0).get("result");
        assertEquals(
                List.of(Map.of("id", "sup-1", "host", "node1", "uptime_s", 60, "num_workers", 4, "used_workers", 1)),
                result.get("supervisors"));
        Map<?, ?> topology = (Map<?, ?>) ((List<?>) result.get("topologies")).get(0);
        assertEquals("wc-1-16", topology.get("id"));
        assertEquals(3, topology.get("num_workers"));
        assertEquals("me", topology.get("owner"));
    }

    @Test
    void topology() throws Exception {
        Map<?, ?> result = (Map<?, ?>) ask("{\"id\":1,\"call\":\"topology\",\"args\":{\"id\":\"wc-1-16\"}}")
                .get(0).get("result");
        assertEquals(
                List.of(Map.of("first_task", 5, "last_task", 6, "component", "split", "host", "node1", "port", 6700,
                        "uptime_s", 40, "acked_trees", 0)),
                result.get("executors"));
        Map<?, ?> errors = (Map<?, ?>) result.get("errors");
        assertEquals(1, errors.size());
        assertEquals("java.io.IOException: x", ((Map<?, ?>) ((List<?>) errors.get("split")).get(0)).get("error"));
    }

    @Test
    void aSupervisorIsReleasedOnceNimbusHasTheTopologyElsewhere() throws Exception {
        List<Map<?, ?>> responses = ask(
                "{\"id\":1,\"call\":\"release\",\"args\":{\"id\":\"wc-1-16\",\"supervisor\":\"s\",\"host\":\"127.0.0.1\"}}",
                "{\"id\":2,\"call\":\"release\",\"args\":"
                        + "{\"id\":\"other\",\"supervisor\":\"s\",\"host\":\"127.0.0.1\",\"thrift_port\":1}}");
        assertEquals(false, responses.get(0).get("result"));
        assertTrue(((String) responses.get(1).get("error")).contains("refused"), "it was told, but nobody listens");
    }

    @Test
    void errorsAreSentences() throws Exception {
        List<Map<?, ?>> responses = ask(
                "{\"id\":1,\"call\":\"activate\",\"args\":{\"name\":\"gone\"}}",
                "{\"id\":2,\"call\":\"dance\"}",
                "{\"id\":3,\"call\":\"kill\",\"args\":{\"name\":\"wc\"}}",
                "[]",
                "what");
        assertEquals("gone is not alive", responses.get(0).get("error"));
        assertEquals("NotAliveException", responses.get(0).get("type"));
        assertEquals("there is no call 'dance'", responses.get(1).get("error"));
        assertEquals("args.wait_s should be a number of at least 0", responses.get(2).get("error"));
        assertEquals("a request should be a JSON object", responses.get(3).get("error"));
        assertEquals("ParseException", responses.get(4).get("type"));
    }

    @Test
    void aConnectionThatBrokeIsMadeAgain() throws Exception {
        brokenCalls = 1;
        List<Map<?, ?>> responses = ask(
                "{\"id\":1,\"call\":\"cluster\"}", "{\"id\":2,\"call\":\"cluster\"}");
        assertEquals("TTransportException", responses.get(0).get("type"), "the first connection never worked");
        assertTrue(responses.get(1).containsKey("result"));
    }
}
