package stormwright;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import org.apache.storm.Config;
import org.apache.storm.metric.StormMetricsRegistry;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.EvenScheduler;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.IScheduler;
import org.apache.storm.scheduler.Topologies;
import org.apache.storm.scheduler.TopologyDetails;
import org.apache.storm.scheduler.WorkerSlot;
import org.apache.storm.scheduler.multitenant.MultitenantScheduler;
import org.apache.storm.scheduler.resource.ResourceAwareScheduler;
import org.apache.storm.scheduler.resource.normalization.NormalizedResourceRequest;
import org.apache.storm.shade.net.minidev.json.JSONValue;
import org.apache.storm.utils.Time;
import org.apache.storm.utils.Utils;
import org.junit.jupiter.api.Test;
import stormwright.bridge.Snapshot;
import stormwright.bridge.TestCluster;

class SchedulerHostTest {
    private static TestCluster cluster() {
        return new TestCluster().supervisor("a", 3).supervisor("b", 2).supervisor("c", 1)
                .topology("s", 2).topology("t", 3)
                .running("t", new WorkerSlot("a", 6700), new WorkerSlot("b", 6701)).dead("t", 2, 5);
    }

    private static Object problem(Cluster cluster) {
        return ((Map<?, ?>) JSONValue.parse(Snapshot.of(cluster, Map.of(), "n"))).get("problem");
    }

    private static Map<?, ?> ask(Object scheduler, Object problem, Object... more) throws Exception {
        Map<String, Object> request = new LinkedHashMap<>();
        request.put("id", 7);
        request.put("class", scheduler instanceof Class<?> type ? type.getName() : scheduler);
        request.put("problem", problem);
        for (int i = 0; i < more.length; i += 2) {
            request.put((String) more[i], more[i + 1]);
        }
        List<Map<?, ?>> responses = serve(JSONValue.toJSONString(request));
        assertEquals(1, responses.size());
        assertEquals(7, responses.get(0).get("id"));
        return responses.get(0);
    }

    private static List<Map<?, ?>> serve(String... lines) throws Exception {
        return Responses.of(new SchedulerHost(), lines);
    }

    /** The placements of a response, for the topologies of {@link #cluster}, whose tasks are 1 to 9. */
    private static Map<String, Map<ExecutorDetails, WorkerSlot>> placements(Map<?, ?> response) {
        assertFalse(response.containsKey("error"), () -> "error: " + response);
        Map<String, Map<ExecutorDetails, WorkerSlot>> placements = new HashMap<>();
        ((Map<?, ?>) response.get("assignments")).forEach((id, value) -> {
            List<?> slots = (List<?>) ((Map<?, ?>) value).get("slots");
            List<?> slotOf = (List<?>) ((Map<?, ?>) value).get("slot_of_executor");
            Map<ExecutorDetails, WorkerSlot> placement = new HashMap<>();
            for (int i = 0; i < slotOf.size(); i++) {
                int index = (Integer) slotOf.get(i);
                if (index >= 0) {
                    List<?> slot = (List<?>) slots.get(index);
                    placement.put(new ExecutorDetails(i + 1, i + 1),
                            new WorkerSlot((String) slot.get(0), (Integer) slot.get(1)));
                }
            }
            if (!placement.isEmpty()) {
                placements.put((String) id, placement);
            }
        });
        return placements;
    }

    private static Map<String, Map<ExecutorDetails, WorkerSlot>> directly(IScheduler scheduler, Cluster cluster) {
        scheduler.prepare(Utils.readDefaultConfig(), new StormMetricsRegistry());
        scheduler.schedule(cluster.getTopologies(), cluster);
        scheduler.cleanup();
        return TestCluster.placements(cluster);
    }

    @Test
    void stormsClassesAnswerAsOnStormsOwnCluster() throws Exception {
        Object problem = problem(cluster().build());
        assertEquals(directly(new EvenScheduler(), cluster().build()), placements(ask("EvenScheduler", problem)));
        assertEquals(directly(new MultitenantScheduler(), cluster().build()),
                placements(ask("MultitenantScheduler", problem)));
        assertEquals(directly(new ResourceAwareScheduler(), cluster().build()),
                placements(ask("ResourceAwareScheduler", problem)));
        assertEquals(9, placements(ask("EvenScheduler", problem)).get("s").size());
    }

    @Test
    void statusAndTimeAreTold() throws Exception {
        Map<?, ?> response = ask("ResourceAwareScheduler", problem(cluster().build()));
        assertTrue(((String) ((Map<?, ?>) response.get("status")).get("s")).startsWith("Running - "));
        assertTrue((Double) response.get("seconds") > 0);
    }

    @Test
    void blacklistedHostsTakeNothing() throws Exception {
        Cluster cluster = new TestCluster().supervisor("a", 3).supervisor("b", 2).topology("s", 4).build();
        cluster.blacklistHost("host-a");
        placements(ask("EvenScheduler", problem(cluster))).get("s").values()
                .forEach(slot -> assertEquals("b", slot.getNodeId()));
    }

    @Test
    void confAndStrategyReachTheClass() throws Exception {
        Object problem = problem(cluster().build());
        Map<?, ?> status = (Map<?, ?>) ask(TellsConf.class, problem, "strategy", "RoundRobinResourceAwareStrategy",
                "conf", Map.of("a.b", List.of(1, 2.5))).get("status");
        assertEquals("org.apache.storm.scheduler.resource.strategies.scheduling.RoundRobinResourceAwareStrategy"
                + " [1, 2.5] 768.0 t", status.get("t"));
    }

    /** Writes what it is told into the status. */
    public static final class TellsConf extends EvenScheduler {
        private Object told;

        @Override
        public void prepare(Map<String, Object> conf, StormMetricsRegistry metrics) {
            told = conf.get("a.b") + " " + conf.get(Config.TOPOLOGY_WORKER_MAX_HEAP_SIZE_MB);
        }

        @Override
        public void schedule(Topologies topologies, Cluster cluster) {
            for (TopologyDetails topology : topologies) {
                cluster.setStatus(topology.getId(), topology.getConf().get(Config.TOPOLOGY_SCHEDULER_STRATEGY) + " "
                        + told + " " + topology.getName());
            }
        }
    }

    @Test
    void resourcesTagsAndInputsReachTheClass() throws Exception {
        String problem = """
                {"supervisors": [{"id": "a", "host": "h", "ports": [1], "rack": "r", "scheduler_meta": {"k": "v"}}],
                 "topologies": [{"id": "t-1", "name": "t", "num_workers": 2,
                  "components": [
                   {"id": "__acker", "type": "system", "parallelism": 1, "resources": {"cpu.pcore.percent": 77.0},
                    "inputs": [{"from": "in", "stream": "__ack_init", "grouping": "fields"}]},
                   {"id": "in", "type": "spout", "parallelism": 2, "tags": ["x", "y"],
                    "resources": {"cpu.pcore.percent": 12.0, "onheap.memory.mb": 5.0, "gpu.count": 1.0},
                    "shared_memory": [{"name": "m", "on_heap": 3.0}]},
                   {"id": "out", "type": "bolt", "parallelism": 1,
                    "inputs": [{"from": "in", "stream": "default", "grouping": "global"}]}],
                  "executor_runs": [[0, 1, 1, 1], [1, 2, 2, 2], [2, 6, 1, 1]]}]}""";
        Map<?, ?> status = (Map<?, ?>) ask(TellsStructure.class, JSONValue.parse(problem)).get("status");
        assertEquals("racks {r=[h]}, meta {k=v}; [1, 1] __acker 77.0%; [2, 3] in 12.0% 5.0 MB 1.0 GPU;"
                        + " [4, 5] in 12.0% 5.0 MB 1.0 GPU; [6, 6] out 10.0%; shared 3.0;"
                        + " conf {\"topology.tasks\":4,\"tags\":[\"x\",\"y\"]}; children [out], out has global",
                status.get("t-1"));
    }

    /** Writes the structure of a topology into its status. */
    public static final class TellsStructure extends EvenScheduler {
        @Override
        public void schedule(Topologies topologies, Cluster cluster) {
            TopologyDetails topology = topologies.getByName("t");
            StringBuilder text = new StringBuilder("racks " + cluster.getNetworkTopography()
                    + ", meta " + cluster.getSupervisorById("a").getSchedulerMeta());
            topology.getExecutors().stream().sorted((a, b) -> a.startTask - b.startTask).forEach(executor -> {
                NormalizedResourceRequest resources = topology.getTotalResources(executor);
                text.append("; ").append(executor).append(' ').append(topology.getComponentFromExecutor(executor))
                        .append(' ').append(resources.getTotalCpu()).append('%');
                if (resources.getOnHeapMemoryMb() != 128.0) {
                    text.append(' ').append(resources.getOnHeapMemoryMb()).append(" MB ")
                            .append(resources.toNormalizedMap().get("gpu.count")).append(" GPU");
                }
            });
            text.append("; shared ").append(topology.getRequestedSharedOnHeap());
            Map<?, ?> conf = (Map<?, ?>) JSONValue.parse(
                    topology.getTopology().get_spouts().get("in").get_common().get_json_conf());
            Map<String, Object> rest = new LinkedHashMap<>();
            List.of("topology.tasks", "tags").forEach(key -> rest.put(key, conf.get(key)));
            text.append("; conf ").append(JSONValue.toJSONString(rest));
            text.append("; children ").append(topology.getUserTopolgyComponents().get("in").getChildren());
            topology.getTopology().get_bolts().get("out").get_common().get_inputs().values().forEach(
                    grouping -> text.append(", out has ").append(grouping.get_fields().isEmpty() ? "global" : grouping));
            cluster.setStatus("t-1", text.toString());
        }
    }

    @Test
    void whatRunsInSlotsThatAreGoneIsDead() throws Exception {
        Map<?, ?> problem = (Map<?, ?>) problem(cluster().build());
        ((List<?>) problem.get("supervisors")).remove(1);
        Map<ExecutorDetails, WorkerSlot> placed = placements(ask(DoesNothing.class, problem)).get("t");
        assertEquals(Map.of(new ExecutorDetails(1, 1), new WorkerSlot("a", 6700),
                new ExecutorDetails(3, 3), new WorkerSlot("a", 6700), new ExecutorDetails(7, 7), new WorkerSlot("a", 6700),
                new ExecutorDetails(9, 9), new WorkerSlot("a", 6700)), placed);
    }

    /** Leaves everything as it is. */
    public static final class DoesNothing extends EvenScheduler {
        @Override
        public void schedule(Topologies topologies, Cluster cluster) {
            // as it says
        }
    }

    @Test
    void shufflesAreRepeatable() throws Exception {
        Object problem = problem(cluster().build());
        List<Object> told = new ArrayList<>();
        for (int seed : new int[] {42, 42, 43}) {
            told.add(ask(Shuffles.class, problem, "seed", seed).get("status"));
        }
        assertEquals(told.get(0), told.get(1));
        assertFalse(told.get(0).equals(told.get(2)));
    }

    /** Writes a shuffled list into the status. */
    public static final class Shuffles extends EvenScheduler {
        @Override
        public void schedule(Topologies topologies, Cluster cluster) {
            List<Integer> list = new ArrayList<>(IntStream.range(0, 50).boxed().toList());
            Collections.shuffle(list);
            cluster.setStatus("t", list.toString());
        }
    }

    @Test
    void whatTheClassThrowsIsToldWithItsCauses() throws Exception {
        Object problem = problem(cluster().build());
        Map<?, ?> response = ask(Throws.class, problem);
        assertTrue(((String) response.get("error")).startsWith(Throws.class.getName()
                + " threw java.lang.IllegalStateException: cannot at stormwright.SchedulerHostTest$Throws.schedule("));
        List<?> cause = (List<?>) response.get("cause");
        assertEquals(2, cause.size());
        assertTrue(((String) cause.get(1)).startsWith("java.lang.NoClassDefFoundError: a/b/C at "));
        assertTrue(ask("EvenScheduler", problem).containsKey("assignments"), "the host goes on");
    }

    /** Throws. */
    public static final class Throws extends EvenScheduler {
        @Override
        public void schedule(Topologies topologies, Cluster cluster) {
            throw new IllegalStateException("cannot", new NoClassDefFoundError("a/b/C"));
        }
    }

    /** Throws before it exists. */
    public static final class ThrowsAtOnce extends EvenScheduler {
        ThrowsAtOnce() {
            throw new UnsupportedOperationException("not today");
        }
    }

    /** Cannot be made from nothing. */
    public static final class NeedsSomething extends EvenScheduler {
        NeedsSomething(String something) {
            assertEquals("never called", something);
        }
    }

    /** Is not all there. */
    public abstract static class Half extends EvenScheduler {
    }

    private static void assertError(String expected, Map<?, ?> response) {
        String error = (String) response.get("error");
        assertTrue(error.contains(expected), error);
    }

    @Test
    void whatCannotBeRunIsSaid() throws Exception {
        Object problem = problem(cluster().build());
        assertError("there is no class a.b.C in Storm's jars or in those given", ask("a.b.C", problem));
        assertError("there is no class Evn in", ask("Evn", problem));
        assertError("java.lang.String is no org.apache.storm.scheduler.IScheduler", ask("java.lang.String", problem));
        assertError("there is no class BlacklistScheduler in", ask("BlacklistScheduler", problem));
        assertError("there is no class Best in", ask("EvenScheduler", problem, "strategy", "Best"));
        assertError("has no constructor without arguments", ask(NeedsSomething.class, problem));
        assertError("threw java.lang.UnsupportedOperationException: not today", ask(ThrowsAtOnce.class, problem));
        assertError("IsolationScheduler threw java.lang", ask("IsolationScheduler", problem));
        assertError("is abstract", ask(Half.class, problem));
    }

    @Test
    void launchTimesMayBeLongerThanAnInt() throws Exception {
        for (String time : List.of("1700000000", "1700000000000", "18446744073709551615")) {
            String problem = """
                    {"supervisors": [], "topologies": [{"id": "t", "name": "t", "num_workers": 1, "launch_time": %s,
                     "components": [], "executor_runs": []}]}""".formatted(time);
            Map<?, ?> status = (Map<?, ?>) ask(TellsLaunchTime.class, JSONValue.parse(problem)).get("status");
            assertEquals(time.length() > 10 ? "2147483647" : time, status.get("t"));
        }
        assertError("$.problem.topologies[0].launch_time should be an integer", ask("EvenScheduler", JSONValue.parse(
                "{\"topologies\": [{\"id\": \"t\", \"name\": \"t\", \"num_workers\": 1, \"launch_time\": 1.5}]}")));
    }

    /** Writes the launch time of a topology into its status. */
    public static final class TellsLaunchTime extends EvenScheduler {
        @Override
        public void schedule(Topologies topologies, Cluster cluster) {
            cluster.setStatus("t", String.valueOf(topologies.getById("t").getLaunchTime()));
        }
    }

    @Test
    void topologiesDoNotAgeWhileTheyAreSorted() throws Exception {
        String problem = """
                {"supervisors": [], "topologies": [{"id": "t", "name": "t", "num_workers": 1, "launch_time": 1700000000,
                 "components": [], "executor_runs": []}]}""";
        assertEquals("0", ((Map<?, ?>) ask(Ages.class, JSONValue.parse(problem)).get("status")).get("t"));
    }

    /** Writes into the status how many seconds older a topology is in another second. */
    public static final class Ages extends EvenScheduler {
        @Override
        public void schedule(Topologies topologies, Cluster cluster) {
            int before = topologies.getById("t").getUpTime();
            Time.SimulatedTime other = new Time.SimulatedTime();
            try {
                cluster.setStatus("t", String.valueOf(topologies.getById("t").getUpTime() - before));
            } finally {
                other.close();
            }
        }
    }

    @Test
    void anAnswerThatCannotBeWrittenIsARefusal() throws Exception {
        RequestLoop loop = new RequestLoop() {
            @Override
            Map<String, Object> answer(Map<?, ?> request) {
                return Map.of("long", new ArrayList<Object>() {
                    @Override
                    public Iterator<Object> iterator() {
                        throw new OutOfMemoryError("Java heap space");
                    }
                });
            }

            @Override
            Map<String, Object> refusal(Throwable thrown) {
                return Map.of("error", String.valueOf(thrown));
            }
        };
        assertEquals(List.of(Map.of("id", 1, "error", "java.lang.OutOfMemoryError: Java heap space"),
                Map.of("id", 2, "error", "java.lang.OutOfMemoryError: Java heap space")),
                Responses.of(loop, "{\"id\":1}", "{\"id\":2}"));
    }

    @Test
    void badRequestsAreSaid() throws Exception {
        List<Map<?, ?>> responses = serve("what", "", "[]", "{\"id\":1}",
                "{\"id\":2,\"class\":\"EvenScheduler\",\"problem\":{\"supervisors\":[{\"id\":\"a\",\"host\":1}]}}");
        assertEquals(4, responses.size());
        assertError("bad request: ", responses.get(0));
        assertError("a request should be a JSON object", responses.get(1));
        assertError("$.class should be a text", responses.get(2));
        assertError("$.problem.supervisors[0].host should be a text", responses.get(3));
        assertEquals(2, responses.get(3).get("id"));
    }
}
