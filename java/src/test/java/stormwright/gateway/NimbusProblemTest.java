package stormwright.gateway;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.storm.Config;
import org.apache.storm.generated.ClusterSummary;
import org.apache.storm.generated.ExecutorInfo;
import org.apache.storm.generated.ExecutorSummary;
import org.apache.storm.generated.Nimbus;
import org.apache.storm.generated.NotAliveException;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.generated.SupervisorSummary;
import org.apache.storm.generated.TopologyInfo;
import org.apache.storm.generated.TopologyPageInfo;
import org.apache.storm.generated.TopologySummary;
import org.apache.storm.generated.WorkerSummary;
import org.apache.storm.shade.net.minidev.json.JSONValue;
import org.apache.storm.testing.TestWordCounter;
import org.apache.storm.testing.TestWordSpout;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.tuple.Fields;
import org.apache.storm.utils.Utils;
import org.junit.jupiter.api.Test;

class NimbusProblemTest {
    private final List<ExecutorSummary> executors = new ArrayList<>();
    private final List<WorkerSummary> workers = new ArrayList<>();

    /** Nimbus with two supervisors on one host and the topology "wc"; "gone" is killed before it is looked at. */
    private Object nimbus(Object proxy, Method method, Object[] args) throws Exception {
        if (args != null && args[0].equals("gone-2-16")) {
            throw new NotAliveException("gone-2-16");
        }
        switch (method.getName()) {
            case "getClusterInfo":
                SupervisorSummary first = new SupervisorSummary("host", 60, 3, 1, "sup-1");
                first.set_total_resources(Map.of("cpu.pcore.percent", 400.0, "memory.mb", 4096.0, "gpu", 1.0));
                SupervisorSummary second = new SupervisorSummary("host", 60, 2, 1, "sup-2");
                second.set_blacklisted(true);
                TopologySummary wc = new TopologySummary("wc-1-1600000000", "wc", 9, 9, 2, 50, "ACTIVE");
                wc.set_owner("me");
                TopologySummary gone = new TopologySummary("gone-2-16", "gone", 1, 1, 1, 50, "KILLED");
                return new ClusterSummary(List.of(second, first), List.of(wc, gone), List.of());
            case "getNimbusConf":
                Map<String, Object> conf = new HashMap<>(Utils.readDefaultConfig());
                conf.put("supervisor.slots.ports", List.of(6710, 6711, 6712));
                conf.put("isolation.scheduler.machines", Map.of("wc", 1));
                conf.put("topology.priority", 3);
                conf.put("storm.zookeeper.auth.password", "secret");
                return JSONValue.toJSONString(conf);
            case "getTopologyInfoWithOpts":
                return new TopologyInfo("wc-1-1600000000", "wc", 50, executors, "ACTIVE", Map.of());
            case "getTopologyPageInfo":
                TopologyPageInfo page = new TopologyPageInfo("wc-1-1600000000");
                page.set_workers(workers);
                return page;
            case "getTopologyConf":
                return JSONValue.toJSONString(Map.of(Config.TOPOLOGY_NAME, "wc", Config.TOPOLOGY_WORKERS, 1,
                        Config.TOPOLOGY_ACKER_EXECUTORS, 1, "nimbus.seeds", List.of("n")));
            case "getUserTopology":
                return topology();
            default:
                throw new UnsupportedOperationException(method.getName());
        }
    }

    /** Tasks: 1 acker, 2 to 7 count in 3 executors, 8 and 9 word. */
    private static StormTopology topology() {
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout("word", new TestWordSpout(), 2);
        builder.setBolt("count", new TestWordCounter(), 3).setNumTasks(6).fieldsGrouping("word", new Fields("word"));
        return builder.createTopology();
    }

    private void running(String component, int first, int last, int port) {
        executors.add(new ExecutorSummary(new ExecutorInfo(first, last), component, "host", port, 40));
    }

    private void worker(String supervisor, int port) {
        WorkerSummary worker = new WorkerSummary();
        worker.set_supervisor_id(supervisor);
        worker.set_host("host");
        worker.set_port(port);
        workers.add(worker);
    }

    private Map<?, ?> problem() throws Exception {
        Nimbus.Iface nimbus = (Nimbus.Iface) Proxy.newProxyInstance(
                getClass().getClassLoader(), new Class<?>[] {Nimbus.Iface.class}, this::nimbus);
        Object answer = NimbusCalls.call(nimbus, (host, port, assignments) -> { }, "problem", Map.of());
        return (Map<?, ?>) JSONValue.parse(JSONValue.toJSONString(answer));
    }

    private static Map<?, ?> first(Map<?, ?> problem, String key) {
        return (Map<?, ?>) ((List<?>) problem.get(key)).get(0);
    }

    @Test
    void supervisorsHaveThePortsInUseAndTheUsualOnes() throws Exception {
        worker("sup-1", 6711);
        worker("sup-2", 7000);
        Map<?, ?> problem = problem();
        assertEquals("stormwright-problem/1", problem.get("schema"));
        Map<String, Object> expected = new HashMap<>();
        expected.put("id", "sup-1");
        expected.put("host", "host");
        expected.put("ports", List.of(6710, 6711, 6712));
        expected.put("scheduler_meta", null);
        expected.put("resources", Map.of("cpu.pcore.percent", 400.0, "memory.mb", 4096.0, "gpu", 1.0));
        assertEquals(expected, first(problem, "supervisors"));
        Map<?, ?> second = (Map<?, ?>) ((List<?>) problem.get("supervisors")).get(1);
        assertEquals(List.of(6710, 7000), second.get("ports"));
        assertEquals(List.of("host"), problem.get("blacklisted_hosts"));
    }

    @Test
    void confIsWhatTheOperatorHasSetForSchedulers() throws Exception {
        assertEquals(Map.of("isolation.scheduler.machines", Map.of("wc", 1), "topology.priority", 3),
                problem().get("conf"));
    }

    @Test
    void aTopologyThatDoesNotRunHasTheExecutorsItWasSubmittedWith() throws Exception {
        Map<?, ?> problem = problem();
        assertEquals(1, ((List<?>) problem.get("topologies")).size());
        Map<?, ?> topology = first(problem, "topologies");
        assertEquals("wc-1-1600000000", topology.get("id"));
        assertEquals("me", topology.get("owner"));
        assertEquals(1600000000, topology.get("launch_time"));
        assertEquals(1, topology.get("num_workers"));
        assertEquals(List.of(List.of(0, 1, 1, 1), List.of(1, 2, 3, 2), List.of(2, 8, 2, 1)),
                topology.get("executor_runs"));
        assertEquals(Map.of(), problem.get("assignments"));
    }

    @Test
    void whatRunsIsWhereItsWorkerIs() throws Exception {
        worker("sup-2", 6700);
        worker("sup-1", 6701);
        running("__acker", 1, 1, 6700);
        // After a rebalance to 2 executors; the second has no slot. So has one of the spout.
        running("count", 2, 4, 6701);
        running("word", 9, 9, 6700);
        Map<?, ?> problem = problem();
        Map<?, ?> topology = first(problem, "topologies");
        assertEquals(2, topology.get("num_workers"));
        assertEquals(List.of(List.of(0, 1, 1, 1), List.of(1, 2, 1, 3), List.of(1, 5, 1, 2), List.of(1, 7, 1, 1),
                List.of(2, 8, 2, 1)), topology.get("executor_runs"));
        assertEquals(
                Map.of("slots", List.of(List.of("sup-2", 6700), List.of("sup-1", 6701)),
                        "slot_of_executor", List.of(0, 1, -1, -1, -1, 0)),
                ((Map<?, ?>) problem.get("assignments")).get("wc-1-1600000000"));
    }
}
