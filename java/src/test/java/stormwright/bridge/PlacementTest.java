package stormwright.bridge;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.SchedulerAssignment;
import org.apache.storm.scheduler.WorkerSlot;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class PlacementTest {
    private static final WorkerSlot A0 = new WorkerSlot("a", 6700);
    private static final WorkerSlot B0 = new WorkerSlot("b", 6700);
    private static final WorkerSlot B1 = new WorkerSlot("b", 6701);
    private static final Limits LIMITS = new Limits(false);

    private static TestCluster two() {
        return new TestCluster().supervisor("a", 1).supervisor("b", 2)
                .topology("s", 1).running("s", A0).topology("t", 1).running("t", B0);
    }

    private static Map<ExecutorDetails, WorkerSlot> allIn(WorkerSlot slot) {
        Map<ExecutorDetails, WorkerSlot> placement = new HashMap<>();
        for (int task = 1; task <= 9; task++) {
            placement.put(new ExecutorDetails(task, task), slot);
        }
        return placement;
    }

    private static Answer answer(Map<String, Map<ExecutorDetails, WorkerSlot>> placements) {
        return new Answer(placements, Map.of(), Map.of(), Set.of(), 0);
    }

    @Test
    void topologiesMayExchangeSlots() {
        Cluster cluster = two().build();
        assertEquals(Map.of(), Placement.apply(answer(Map.of("s", allIn(B0), "t", allIn(A0))), cluster, LIMITS));
        assertEquals(Map.of("s", allIn(B0), "t", allIn(A0)), TestCluster.placements(cluster));
    }

    @Test
    void neitherOfTwoGetsTheSameSlot() {
        Cluster cluster = two().build();
        Map<String, String> refused = Placement.apply(answer(Map.of("s", allIn(B1), "t", allIn(B1))), cluster, LIMITS);
        assertEquals(Set.of("s", "t"), refused.keySet());
        assertEquals(TestCluster.placements(two().build()), TestCluster.placements(cluster));
    }

    @Test
    void noneOfThreeGetsTheSameSlot() {
        TestCluster three = two().topology("u", 1);
        Cluster cluster = three.build();
        Map<String, String> refused = Placement.apply(
                answer(Map.of("s", allIn(B1), "t", allIn(B1), "u", allIn(B1))), cluster, LIMITS);
        assertEquals(Set.of("s", "t", "u"), refused.keySet());
        assertEquals(TestCluster.placements(three.build()), TestCluster.placements(cluster));
    }

    /** Each of many topologies wants the slot of the one before, and the first wants one that is not there. */
    @Test
    void manyThatCountOnEachOtherAreLookedAtAFewTimesEach() {
        int topologies = 100;
        TestCluster many = new TestCluster().supervisor("a", topologies);
        Map<String, Map<ExecutorDetails, WorkerSlot>> wanted = new HashMap<>();
        for (int i = 0; i < topologies; i++) {
            many.topology("t" + i, 1).running("t" + i, new WorkerSlot("a", 6700 + i));
            wanted.put("t" + i, allIn(new WorkerSlot("a", 6700 + i - 1)));
        }
        AtomicInteger looks = new AtomicInteger();
        Cluster cluster = new Cluster(many.build()) {
            @Override
            public SchedulerAssignment getAssignmentById(String topology) {
                looks.incrementAndGet();
                return super.getAssignmentById(topology);
            }
        };
        looks.set(0);
        Map<String, String> refused = Placement.apply(answer(wanted), cluster, LIMITS);
        assertTrue(looks.get() <= 10 * topologies, "looks " + looks.get());
        assertEquals(wanted.keySet(), refused.keySet());
        assertEquals("there is no slot a:6699", refused.get("t0"));
        assertEquals("slot a:6798 would belong to t98 as well", refused.get("t99"));
    }

    @Test
    void whoCountsOnTheSlotOfARefusedOneIsRefusedToo() {
        Cluster cluster = two().build();
        Map<String, String> refused = Placement.apply(
                answer(Map.of("s", allIn(B0), "t", allIn(new WorkerSlot("b", 1)))), cluster, LIMITS);
        assertEquals("there is no slot b:1", refused.get("t"));
        assertEquals("slot b:6700 would belong to t as well", refused.get("s"));
        assertEquals(TestCluster.placements(two().build()), TestCluster.placements(cluster));
    }

    @Test
    void whatStaysIsNotTouched() {
        Set<String> touched = new HashSet<>();
        Cluster cluster = new Recording(two().build(), touched);
        Placement.apply(answer(Map.of("s", allIn(A0), "t", allIn(B1))), cluster, LIMITS);
        assertEquals(Set.of("assign t"), touched);
        assertEquals(Map.of("s", allIn(A0), "t", allIn(B1)), TestCluster.placements(cluster));
    }

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void whatFailsMidwayIsUndone(boolean expected) {
        Cluster cluster = new Cluster(two().build()) {
            private boolean failed;

            @Override
            public void assign(WorkerSlot slot, String topology, Collection<ExecutorDetails> executors) {
                if (topology.equals("t") && slot.equals(A0) && !failed) {
                    failed = true;
                    if (expected) {
                        throw new IllegalStateException("no");
                    }
                    throw new NoSuchMethodError("no");
                }
                super.assign(slot, topology, executors);
            }
        };
        Map<String, String> refused = Placement.apply(answer(Map.of("s", allIn(B0), "t", allIn(A0))), cluster, LIMITS);
        assertEquals(Set.of("s", "t"), refused.keySet());
        assertTrue(refused.get("t").contains("Storm refused it: no"), refused.get("t"));
        assertEquals(TestCluster.placements(two().build()), TestCluster.placements(cluster));
    }

    @Test
    void aSlotOnABlacklistedHostMayBeKeptButNotTaken() {
        Cluster cluster = two().build();
        cluster.blacklistHost("host-b");
        Map<ExecutorDetails, WorkerSlot> kept = allIn(B0);
        kept.put(new ExecutorDetails(1, 1), A0);
        assertEquals(Set.of("s"), Placement.apply(answer(Map.of("s", allIn(B1))), cluster, LIMITS).keySet());
        cluster.freeSlot(A0);
        assertEquals(Map.of(), Placement.apply(answer(Map.of("t", kept)), cluster, LIMITS));
    }

    private static final class Recording extends Cluster {
        private final Set<String> touched;

        Recording(Cluster source, Set<String> touched) {
            super(source);
            this.touched = touched;
            touched.clear();
        }

        @Override
        public void assign(WorkerSlot slot, String topology, Collection<ExecutorDetails> executors) {
            if (touched != null) { // the constructor above assigns as well
                touched.add("assign " + topology);
            }
            super.assign(slot, topology, executors);
        }
    }
}
