package stormwright.bridge;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.WorkerSlot;
import org.apache.storm.shade.net.minidev.json.JSONValue;
import org.junit.jupiter.api.Test;

class SnapshotTest {
    @Test
    void isAProblemDocument() {
        Cluster cluster = new TestCluster().supervisor("b", 1).supervisor("a", 2).topology("t", 2)
                .running("t", new WorkerSlot("a", 6701), new WorkerSlot("b", 6700)).dead("t", 2).build();
        cluster.blacklistHost("host-b");
        Map<String, Object> ofSchedulers = Map.of("stormwright.service.url", "u",
                "storm.scheduler", "stormwright.PlacementScheduler",
                "isolation.scheduler.machines", Map.of("t", 2),
                "task.refresh.poll.secs", 10,
                "worker.heap.memory.mb", 768);
        Map<String, Object> conf = new HashMap<>(ofSchedulers);
        conf.put("nimbus.thrift.port", 6627);
        Map<?, ?> request = parse(Snapshot.of(cluster, conf, "nimbus-1"));
        assertEquals("stormwright-snapshot/1", request.get("schema"));
        assertEquals(Map.of("nimbus_host", "nimbus-1"), request.get("cluster"));
        Map<?, ?> problem = (Map<?, ?>) request.get("problem");
        assertEquals("stormwright-problem/1", problem.get("schema"));
        assertEquals(ofSchedulers, problem.get("conf"));
        assertEquals(List.of("host-b"), problem.get("blacklisted_hosts"));
        Map<?, ?> supervisor = (Map<?, ?>) ((List<?>) problem.get("supervisors")).get(0);
        assertEquals(
                Map.of("id", "a", "host", "host-a", "rack", "/default-rack", "ports", List.of(6700, 6701),
                        "scheduler_meta", Map.of("tags", "a"),
                        "resources", Map.of("cpu.pcore.percent", 400.0, "memory.mb", 4096.0)),
                supervisor);
        Map<?, ?> topology = (Map<?, ?>) ((List<?>) problem.get("topologies")).get(0);
        assertEquals("user", topology.get("owner"));
        assertEquals(2, topology.get("num_workers"));
        assertEquals(List.of(List.of(0, 1, 1, 1), List.of(1, 2, 3, 1), List.of(2, 5, 3, 1), List.of(3, 8, 2, 1)),
                topology.get("executor_runs"));
        assertFalse(((Map<?, ?>) topology.get("conf")).keySet().stream()
                .anyMatch(key -> !key.toString().startsWith("topology.")));
        assertEquals(
                Map.of("slots", List.of(List.of("a", 6701), List.of("b", 6700)),
                        "slot_of_executor", List.of(0, -1, 0, 1, 0, 1, 0, 1, 0)),
                ((Map<?, ?>) problem.get("assignments")).get("t"));
    }

    /** Other options, such as passwords of key stores, are none of the service's. */
    @Test
    void onlyOptionsOfTheHeapAreSent() {
        Cluster cluster = new TestCluster().supervisor("a", 2).topology("t", 1)
                .topology("u", 1, Map.of("worker.heap.memory.mb", 512), null).build();
        Map<String, Object> conf = new HashMap<>();
        conf.put("worker.childopts", List.of("-Dsecret=1", "-Xmx%HEAP-MEM%m", "-XX:MaxHeapSize=1g"));
        conf.put("worker.gc.childopts", " -XX:+UseG1GC  -Xmx2g ");
        conf.put("topology.worker.childopts", null);
        conf.put("topology.worker.gc.childopts", "");
        conf.put("worker.heap.memory.mb", 768);
        Map<?, ?> problem = (Map<?, ?>) parse(Snapshot.of(cluster, conf, "n")).get("problem");
        assertEquals(Map.of("worker.childopts", "-Xmx%HEAP-MEM%m -XX:MaxHeapSize=1g", "worker.gc.childopts", "-Xmx2g",
                "topology.worker.gc.childopts", "", "worker.heap.memory.mb", 768), problem.get("conf"));
        List<?> topologies = (List<?>) problem.get("topologies");
        assertEquals(null, ((Map<?, ?>) ((Map<?, ?>) topologies.get(0)).get("conf")).get("worker.heap.memory.mb"));
        assertEquals(512, ((Map<?, ?>) ((Map<?, ?>) topologies.get(1)).get("conf")).get("worker.heap.memory.mb"));
    }

    /** Nimbus may end after it has stored one of two that exchange slots: the other counts as unassigned then. */
    @Test
    void ofTwoTopologiesInOneSlotOneHasIt() {
        WorkerSlot slot = new WorkerSlot("a", 6700);
        Cluster cluster = new TestCluster().supervisor("a", 1)
                .topology("t", 1).running("t", slot).topology("u", 1).running("u", slot).build();
        Map<?, ?> problem = (Map<?, ?>) parse(Snapshot.of(cluster, Map.of(), "n")).get("problem");
        assertEquals(1, ((Map<?, ?>) problem.get("assignments")).size());
    }

    @Test
    void eachPartHasALineWhichStaysAsItIs() {
        TestCluster cluster = new TestCluster().supervisor("b", 1).supervisor("a", 2).topology("t", 2).topology("u", 1)
                .running("t", new WorkerSlot("a", 6701), new WorkerSlot("b", 6700));
        String request = Snapshot.of(cluster.build(), Map.of(), "n");
        List<String> lines = request.lines().toList();
        assertEquals(List.of("{\"id\":\"a\"", "{\"id\":\"b\"", "{\"id\":\"t\"", "{\"id\":\"u\"", "\"t\":{"),
                lines.stream().filter(line -> !line.startsWith("]") && !line.startsWith("}")).skip(1)
                        .map(line -> line.startsWith("\"") ? line.substring(0, 5) : line.substring(0, 9)).toList());
        assertEquals(request, Snapshot.of(cluster.build(), Map.of(), "n"));
    }

    @Test
    void componentsHaveTheirInputs() {
        Cluster cluster = new TestCluster().supervisor("a", 2).topology("t", 2).build();
        Map<?, ?> problem = (Map<?, ?>) parse(Snapshot.of(cluster, Map.of(), "n")).get("problem");
        Map<?, ?> topology = (Map<?, ?>) ((List<?>) problem.get("topologies")).get(0);
        List<?> components = (List<?>) topology.get("components");
        Map<?, ?> acker = (Map<?, ?>) components.get(0);
        assertEquals("system", acker.get("type"));
        assertEquals(List.of("__ack_ack", "__ack_ack", "__ack_init"),
                ((List<?>) acker.get("inputs")).stream().map(input -> ((Map<?, ?>) input).get("stream")).toList());
        Map<?, ?> count = (Map<?, ?>) components.get(1);
        assertEquals(
                List.of(Map.of("from", "split", "stream", "default", "grouping", "fields", "fields", List.of("word"))),
                count.get("inputs"));
        assertEquals(3, count.get("parallelism"));
        Map<?, ?> split = (Map<?, ?>) components.get(2);
        assertEquals(List.of(Map.of("from", "spout", "stream", "default", "grouping", "shuffle")), split.get("inputs"));
        Map<?, ?> spout = (Map<?, ?>) components.get(3);
        assertEquals("spout", spout.get("type"));
        assertEquals(List.of(), spout.get("inputs"));
    }

    private static Map<?, ?> parse(String json) {
        return (Map<?, ?>) JSONValue.parse(json);
    }
}
