package stormwright.fallback;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.storm.metric.StormMetricsRegistry;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.EvenScheduler;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.IScheduler;
import org.apache.storm.scheduler.Topologies;
import org.apache.storm.scheduler.TopologyDetails;
import org.apache.storm.scheduler.WorkerSlot;
import org.apache.storm.scheduler.resource.ResourceAwareScheduler;
import org.apache.storm.scheduler.resource.normalization.NormalizedResources;
import org.apache.storm.shade.net.minidev.json.JSONValue;
import org.apache.storm.utils.Utils;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import stormwright.PlacementScheduler;
import stormwright.bridge.FakeService;
import stormwright.bridge.TestCluster;

/** Who places what the service does not; most of the time nobody answers at its address. */
class FallbackTest {
    private static final String NOBODY = "http://127.0.0.1:1";
    private static final String MACHINES = "isolation.scheduler.machines";
    private static final WorkerSlot A0 = new WorkerSlot("a", 6700);
    private static final WorkerSlot B0 = new WorkerSlot("b", 6700);

    /** Storm keeps the names of all resources that it has met. */
    @AfterEach
    void forgetResources() {
        NormalizedResources.resetResourceNames();
    }

    private static TestCluster two() {
        return new TestCluster().supervisor("a", 4).supervisor("b", 4);
    }

    private static Cluster schedule(TestCluster state, Map<String, Object> conf) {
        return schedule(state.build(), conf);
    }

    private static Cluster schedule(Cluster cluster, Map<String, Object> conf) {
        Map<String, Object> all = new HashMap<>(Utils.readDefaultConfig());
        all.put("stormwright.service.url", NOBODY);
        all.put("stormwright.service.deadline.ms", 15_000);
        all.putAll(conf);
        PlacementScheduler scheduler = new PlacementScheduler();
        scheduler.prepare(all, new StormMetricsRegistry());
        scheduler.schedule(cluster.getTopologies(), cluster);
        scheduler.cleanup();
        return cluster;
    }

    private static Map<String, Map<ExecutorDetails, WorkerSlot>> alone(TestCluster state, IScheduler scheduler) {
        Cluster cluster = state.build();
        scheduler.prepare(Utils.readDefaultConfig(), new StormMetricsRegistry());
        scheduler.schedule(cluster.getTopologies(), cluster);
        return TestCluster.placements(cluster);
    }

    private static Set<String> nodes(Cluster cluster, String topology) {
        Collection<WorkerSlot> slots = cluster.getUsedSlotsByTopologyId(topology);
        return slots.stream().map(WorkerSlot::getNodeId).collect(Collectors.toSet());
    }

    private static void assertStays(Cluster cluster, String topology, String why) {
        assertFalse(TestCluster.placements(cluster).containsKey(topology), topology);
        String status = cluster.getStatusMap().get(topology);
        assertTrue(status.endsWith(why), status);
    }

    @Test
    void noneLeavesItUnscheduled() {
        TestCluster state = two().topology("live", 2).running("live", A0, B0).topology("new", 2);
        Cluster cluster = schedule(state, Map.of(Fallback.KEY, "none"));
        assertEquals(Set.of("live"), TestCluster.placements(cluster).keySet());
        assertStays(cluster, "new", "(1 failure); stays unscheduled, as stormwright.fallback is none");
    }

    /** The tag's promise: all of it is placed, or nothing. */
    @Test
    void noneShowsTheServicesReasons() {
        String refusal = """
                {"schema": "stormwright-assignment/1", "assignments": {},
                 "status": {"new": "tag_aware: 0 of 2 nodes: tag gpu"}}""";
        try (FakeService service = FakeService.saying(200, refusal)) {
            Map<String, Object> conf = Map.of(Fallback.KEY, "none", "stormwright.service.url", service.url());
            Cluster cluster = schedule(two().topology("new", 2, Map.of(), "gpu"), conf);
            assertEquals("tag_aware: 0 of 2 nodes: tag gpu; stays unscheduled, as stormwright.fallback is none",
                    cluster.getStatusMap().get("new"));
        }
    }

    @Test
    void aClassPlacesWhatItPlacesAloneAndItsWordsAreKept() {
        TestCluster state = two().topology("live", 2).running("live", A0, B0).topology("new", 2);
        Cluster cluster = schedule(state, Map.of(Fallback.KEY, "ResourceAwareScheduler"));
        assertEquals(alone(state, new ResourceAwareScheduler()), TestCluster.placements(cluster));
        String status = cluster.getStatusMap().get("new");
        assertTrue(status.contains("; placed by ResourceAwareScheduler: Running - Fully Scheduled by "), status);
        assertTrue(cluster.getStatusMap().get("live").endsWith("; left as it is"), cluster.getStatusMap().get("live"));
    }

    @Test
    void theServicesAnswerComesFirstAndTheClassPlacesTheRest() {
        try (FakeService service = FakeService.saying(200, allIn("s", "b"))) {
            Map<String, Object> conf = Map.of(
                    Fallback.KEY, "ResourceAwareScheduler", "stormwright.service.url", service.url());
            Cluster cluster = schedule(two().topology("s", 1, heap(2000), null).topology("t", 1), conf);
            assertEquals(Set.of(B0), Set.copyOf(cluster.getUsedSlotsByTopologyId("s")));
            assertTrue(cluster.getStatusMap().get("t").startsWith(
                    "stormwright: the service left it out; placed by ResourceAwareScheduler"));
        }
    }

    /** 9 executors of 128 MB in one heap: more than ResourceAwareScheduler would ever put there. */
    @Test
    void theServicesAnswerKeepsTheLimitsOfResourceAware() {
        try (FakeService service = FakeService.saying(200, allIn("s", "b"))) {
            Map<String, Object> conf = Map.of(
                    Fallback.KEY, "ResourceAwareScheduler", "stormwright.service.url", service.url());
            Cluster cluster = schedule(two().topology("s", 1, heap(800), null), conf);
            assertEquals(2, cluster.getUsedSlotsByTopologyId("s").size());
            String status = cluster.getStatusMap().get("s");
            String expected = "stormwright: answer refused: heap of b:6700: 1152 MB of 800; placed by ";
            assertTrue(status.startsWith(expected), status);
        }
    }

    @Test
    void theServicesAnswerKeepsTagsUnderAnyFallback() {
        try (FakeService service = FakeService.saying(200, allIn("s", "b"))) {
            TestCluster state = new TestCluster().supervisor("a", 1, "gpu, ssd").supervisor("b", 1)
                    .topology("s", 1, Map.of(), List.of("gpu"));
            Cluster cluster = schedule(state, Map.of("stormwright.service.url", service.url()));
            assertEquals(Set.of("a"), nodes(cluster, "s"));
            assertEquals("stormwright: answer refused: count on host-b, which lacks tag gpu; placed by EvenScheduler",
                    cluster.getStatusMap().get("s"));
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"EvenScheduler", "ResourceAwareScheduler"})
    void nobodyPutsAComponentWhereItsTagIsMissing(String fallback) {
        TestCluster state = new TestCluster().supervisor("a", 4, "gpu").supervisor("b", 4)
                .topology("plain", 2).topology("tagged", 2, Map.of("topology.worker.max.heap.size.mb", 640.0), "gpu");
        Cluster cluster = schedule(state, Map.of(Fallback.KEY, fallback));
        assertEquals(Set.of("plain"), TestCluster.placements(cluster).keySet());
        assertStays(cluster, "tagged", fallback + " would break its limits: count on host-b, which lacks tag gpu");
    }

    @Test
    void whatLivesOfATaggedTopologyStaysAndItsSlotsAreNobodyElses() {
        TestCluster state = new TestCluster().supervisor("a", 1, "gpu").supervisor("b", 3)
                .topology("hurt", 2, Map.of(), "gpu").running("hurt", A0, B0).dead("hurt", 2, 4, 6, 8)
                .topology("new", 2);
        Cluster cluster = schedule(state, Map.of());
        assertEquals(5, TestCluster.placements(cluster).get("hurt").size());
        assertEquals(Set.of("b"), nodes(cluster, "new"));
        String status = cluster.getStatusMap().get("hurt");
        String expected = "; EvenScheduler would break its limits: count on host-b, which lacks tag gpu";
        assertTrue(status.endsWith(expected), status);
    }

    @ParameterizedTest
    @ValueSource(strings = {
        "topology.ras.constraints={\"count\": {\"maxNodeCoLocationCnt\": 1}}",
        "topology.ras.constraints={\"count\": {\"incompatibleComponents\": \"split\"}}",
        "topology.ras.constraints=[[\"count\", \"split\"]]",
        "topology.spread.components=[\"count\"]",
        "topology.ras.one.executor.per.worker=true",
        "topology.ras.one.component.per.worker=true",
        "stormwright.max.executors.per.worker=4",
        "topology.ras.constraints=[[\"count\"]]",
        "topology.component.resources.map={\"gpu.count\": 1}",
    })
    void evenLeavesOutWhatItWouldBreakTheLimitsOf(String setting) {
        String[] parts = setting.split("=", 2);
        Object value = JSONValue.parse(parts[1]);
        TestCluster state = two().topology("limited", 2, Map.of(parts[0], value), null).topology("new", 2);
        Cluster cluster = schedule(state, Map.of());
        assertEquals(alone(two().topology("new", 2), new EvenScheduler()), TestCluster.placements(cluster));
        String status = cluster.getStatusMap().get("limited");
        assertTrue(status.contains("; EvenScheduler would break its limits: "), status);
    }

    @ParameterizedTest
    @ValueSource(strings = {"EvenScheduler", "ResourceAwareScheduler"})
    void nobodyGivesAUserMoreThanHeMayHave(String fallback) {
        Map<String, Object> heap = Map.of("topology.worker.max.heap.size.mb", 1280.0);
        TestCluster state = new TestCluster().supervisor("a", 4).supervisor("b", 4).topology("runs", 1, heap, null)
                .running("runs", A0).topology("new1", 1, heap, null).topology("new2", 1, heap, null);
        Cluster cluster = schedule(state, Map.of(Fallback.KEY, fallback, "stormwright.users",
                Map.of("*", Map.of("executors", 5), "user", Map.of("executors", 18, "memory", 1e6))));
        assertEquals(Set.of("runs", "new1"), TestCluster.placements(cluster).keySet());
        assertStays(cluster, "new2",
                fallback + " would break its limits: user user would have 27 of 18 executors (stormwright.users)");
    }

    @Test
    void everybodysLimitIsThatOfWhoIsNotNamed() {
        TestCluster state = two().topology("new", 2);
        Cluster cluster = schedule(state, Map.of("stormwright.users", Map.of("*", Map.of("slots", 1), "other", 3)));
        assertStays(cluster, "new", "user user would have 2 of 1 slots (stormwright.users)");
    }

    @Test
    void whatEvenHappensToKeepItPlaces() {
        TestCluster state = new TestCluster().supervisor("a", 1).supervisor("b", 1).supervisor("c", 1)
                .topology("spread", 3, Map.of("topology.spread.components", List.of("count")), null);
        Cluster cluster = schedule(state, Map.of());
        assertEquals(alone(state, new EvenScheduler()), TestCluster.placements(cluster));
        assertEquals(1, TestCluster.placements(cluster).size());
    }

    @Test
    void hostsOfIsolatedTopologiesAreClosedToEven() {
        TestCluster state = two().topology("alone", 2).running("alone", A0, new WorkerSlot("a", 6701))
                .topology("apart", 2).topology("new", 2);
        Cluster cluster = schedule(state, Map.of(MACHINES, Map.of("alone", 1, "apart", 1)));
        assertEquals(Set.of("b"), nodes(cluster, "new"));
        assertEquals(Set.of("a"), nodes(cluster, "alone"));
        assertStays(cluster, "apart",
                "EvenScheduler would break its limits: isolation.scheduler.machines gives it 1 hosts for itself");
        assertEquals(Set.of(), cluster.getBlacklistedHosts());
    }

    @Test
    void theIsolationSchedulerKeepsItsOwnLimits() {
        TestCluster state = two().topology("apart", 2).topology("new", 2);
        Map<String, Object> conf = Map.of(Fallback.KEY, "IsolationScheduler", MACHINES, Map.of("apart", 1));
        Cluster cluster = schedule(state, conf);
        assertEquals(1, nodes(cluster, "apart").size());
        assertEquals(1, nodes(cluster, "new").size());
        assertFalse(nodes(cluster, "apart").equals(nodes(cluster, "new")));
    }

    @ParameterizedTest
    @ValueSource(strings = {
        "gone.Scheduler | there is no class gone.Scheduler in Storm's jars or in those given",
        "java.lang.String | java.lang.String is no org.apache.storm.scheduler.IScheduler",
        "stormwright.PlacementScheduler | should be another scheduler than stormwright.PlacementScheduler",
        "org.apache.storm.scheduler.blacklist.BlacklistScheduler | "
                + "org.apache.storm.scheduler.blacklist.BlacklistScheduler has no constructor without arguments",
        "stormwright.fallback.FallbackTest$Unlinked | stormwright.fallback.FallbackTest$Unlinked threw "
                + "java.lang.NoClassDefFoundError: a part",
    })
    void evenTakesThePlaceOfWhatIsNoSchedulerAndSaysSo(String row) {
        String[] parts = row.split(" \\| ");
        TestCluster state = two().topology("new", 2);
        Cluster cluster = schedule(state, Map.of(Fallback.KEY, parts[0]));
        assertEquals(alone(state, new EvenScheduler()), TestCluster.placements(cluster));
        String status = cluster.getStatusMap().get("new");
        assertTrue(status.endsWith("; placed by EvenScheduler (stormwright.fallback: " + parts[1] + ")"), status);
    }

    /** EvenScheduler of Storm 3 would; before it, there is no such key. */
    @Test
    void evenMovesNothingToAnIdleNode() {
        TestCluster state = two().topology("old", 2).running("old", A0, new WorkerSlot("a", 6701)).topology("new", 1);
        Cluster cluster = new Cluster(state.build()); // a configuration of its own
        cluster.getConf().put("nimbus.even.rebalance.idle.supervisor.enabled", true);
        schedule(cluster, Map.of());
        assertEquals(Set.of("a"), nodes(cluster, "old"));
        assertEquals(Set.of("b"), nodes(cluster, "new"));
    }

    @Test
    void evenTakesThePlaceOfAnIsolationSchedulerThatIsolatesNothing() {
        Cluster cluster = schedule(two().topology("new", 2), Map.of(Fallback.KEY, "IsolationScheduler"));
        String status = cluster.getStatusMap().get("new");
        assertTrue(status.contains("; placed by EvenScheduler (stormwright.fallback: IsolationScheduler threw "), status);
        // Another exception before Storm 3, of the same text.
        assertTrue(status.endsWith("Exception: The validated map is empty)"), status);
    }

    @Test
    void evenTakesThePlaceOfWhatIsNoText() {
        Cluster cluster = schedule(two().topology("new", 2), Map.of(Fallback.KEY, false));
        String status = cluster.getStatusMap().get("new");
        String expected = " (stormwright.fallback: should be even, none or the name of a class, got false)";
        assertTrue(status.endsWith(expected), status);
    }

    @Test
    void aClassThatFailsHasChangedNothing() {
        TestCluster state = two().topology("live", 2).running("live", A0, B0).topology("new", 2);
        Cluster cluster = schedule(state, Map.of(Fallback.KEY, Fails.class.getName()));
        assertEquals(TestCluster.placements(state.build()), TestCluster.placements(cluster));
        assertStays(cluster, "new", "; Fails failed: java.lang.IllegalStateException: halfway");
    }

    /** What a class does to others on the way is told of them. */
    @Test
    void whatAClassTakesAwayIsTold() {
        TestCluster state = two().topology("live", 2).running("live", A0, B0);
        Cluster cluster = schedule(state, Map.of(Fallback.KEY, Evicts.class.getName()));
        assertStays(cluster, "live", "; Evicts found no slots for it");
    }

    @Test
    void nimbusIsToldTheClassesConfiguration() {
        PlacementScheduler scheduler = new PlacementScheduler();
        Map<String, Object> conf = new HashMap<>(Utils.readDefaultConfig());
        conf.put(Fallback.KEY, "ResourceAwareScheduler");
        conf.put("resource.aware.scheduler.user.pools", Map.of("ann", Map.of("cpu", 100.0)));
        scheduler.prepare(conf, new StormMetricsRegistry());
        assertEquals(Map.of("ann", Map.of("cpu", 100.0)), scheduler.config());
        scheduler.cleanup();
    }

    private static Map<String, Object> heap(double mb) {
        return Map.of("topology.worker.max.heap.size.mb", mb);
    }

    private static String allIn(String topology, String node) {
        return """
                {"schema": "stormwright-assignment/1", "status": {}, "assignments":
                 {"%s": {"slots": [["%s", 6700]], "slot_of_executor": [0,0,0,0,0,0,0,0,0]}}}"""
                .formatted(topology, node);
    }

    /** Needs a class that is not there. */
    public static final class Unlinked extends Idle {
        @Override
        public void prepare(Map<String, Object> conf, StormMetricsRegistry metrics) {
            throw new NoClassDefFoundError("a part");
        }
    }

    /** Fails after it has done something. */
    public static final class Fails extends Idle {
        @Override
        public void schedule(Topologies topologies, Cluster cluster) {
            new Evicts().schedule(topologies, cluster);
            throw new IllegalStateException("halfway");
        }
    }

    /** Frees all slots. */
    public static final class Evicts extends Idle {
        @Override
        public void schedule(Topologies topologies, Cluster cluster) {
            for (TopologyDetails topology : topologies) {
                cluster.freeSlots(cluster.getUsedSlotsByTopologyId(topology.getId()));
            }
        }
    }

    /** Does nothing. */
    public static class Idle implements IScheduler {
        @Override
        public void prepare(Map<String, Object> conf, StormMetricsRegistry metrics) {
            // needs nothing
        }

        @Override
        public void schedule(Topologies topologies, Cluster cluster) {
            // leaves it
        }

        @Override
        public Map<String, Object> config() {
            return Map.of();
        }
    }
}
