package stormwright.bridge;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.SupervisorDetails;
import org.apache.storm.scheduler.TopologyDetails;
import org.apache.storm.scheduler.WorkerSlot;

/** Brings an answer into the cluster: of each topology all or nothing, and only what differs from what runs. */
public final class Placement {
    private final Cluster cluster;
    private final Map<String, Map<ExecutorDetails, WorkerSlot>> wanted;
    private final Map<String, String> refused;

    private Placement(Cluster cluster, Answer answer) {
        this.cluster = cluster;
        this.wanted = new HashMap<>(answer.placements());
        this.refused = new HashMap<>(answer.refused());
    }

    /**
     * Applies what makes sense and is within limits.
     *
     * @return for each topology of which nothing was applied, why
     */
    public static Map<String, String> apply(Answer answer, Cluster cluster, Limits limits) {
        Placement placement = new Placement(cluster, answer);
        placement.wanted.entrySet().removeIf(entry -> entry.getValue().equals(placement.current(entry.getKey())));
        placement.refuseUnknownSlots();
        placement.refuseOccupiedSlots();
        placement.refuseBeyond(limits);
        placement.refuseOccupiedSlots();
        placement.assign();
        return placement.refused;
    }

    private Map<ExecutorDetails, WorkerSlot> current(String topology) {
        return Limits.slots(cluster, topology);
    }

    private void refuse(String topology, String why) {
        wanted.remove(topology);
        refused.put(topology, why);
    }

    /** A slot must be on offer; one that the topology has already may be kept even where its node is blacklisted. */
    private void refuseUnknownSlots() {
        for (String topology : List.copyOf(wanted.keySet())) {
            Collection<WorkerSlot> own = cluster.getUsedSlotsByTopologyId(topology);
            wanted.get(topology).values().stream()
                    .filter(slot -> !own.contains(slot) && !isOnOffer(slot))
                    .findAny()
                    .ifPresent(slot -> refuse(topology, "there is no slot " + slot));
        }
    }

    private boolean isOnOffer(WorkerSlot slot) {
        SupervisorDetails supervisor = cluster.getSupervisorById(slot.getNodeId());
        return supervisor != null && cluster.getAssignablePorts(supervisor).contains(slot.getPort());
    }

    /** Refusing one topology leaves it in its slots, which may be what another one counts on. */
    private void refuseOccupiedSlots() {
        Map<WorkerSlot, Set<String>> claims = new HashMap<>();
        for (TopologyDetails topology : cluster.getTopologies()) {
            String id = topology.getId();
            for (WorkerSlot slot : wanted.getOrDefault(id, current(id)).values()) {
                claims.computeIfAbsent(slot, key -> new LinkedHashSet<>()).add(id);
            }
        }
        Deque<WorkerSlot> toCheck = new ArrayDeque<>(claims.keySet());
        while (!toCheck.isEmpty()) {
            WorkerSlot slot = toCheck.remove();
            List<String> claimants = List.copyOf(claims.get(slot));
            for (String topology : claimants.size() > 1 ? claimants : List.<String>of()) {
                if (wanted.containsKey(topology)) {
                    wanted.get(topology).values().forEach(given -> claims.get(given).remove(topology));
                    for (WorkerSlot kept : new HashSet<>(current(topology).values())) {
                        claims.computeIfAbsent(kept, key -> new LinkedHashSet<>()).add(topology);
                        toCheck.add(kept);
                    }
                    String other = claimants.get(claimants.get(0).equals(topology) ? 1 : 0);
                    refuse(topology, "slot " + slot + " would belong to " + other + " as well");
                }
            }
        }
    }

    private void refuseBeyond(Limits limits) {
        if (wanted.isEmpty()) {
            return;
        }
        Cluster copy = new Cluster(cluster);
        try {
            replace(copy, wanted);
        } catch (RuntimeException | Error e) {
            return; // what Storm refuses is told where it counts
        }
        for (String topology : List.copyOf(wanted.keySet())) {
            String why = limits.broken(cluster.getTopologies().getById(topology), current(topology), copy);
            if (why != null) {
                refuse(topology, why);
            }
        }
    }

    private void assign() {
        Map<String, Map<ExecutorDetails, WorkerSlot>> before = new HashMap<>();
        wanted.keySet().forEach(topology -> before.put(topology, new HashMap<>(current(topology))));
        try {
            replace(cluster, wanted);
        } catch (RuntimeException | Error e) {
            replace(cluster, before);
            Set.copyOf(wanted.keySet()).forEach(topology -> refuse(topology, "Storm refused it: " + e.getMessage()));
        }
    }

    /** Puts executors elsewhere. First all slots are freed, so that topologies may exchange them. */
    public static void replace(Cluster cluster, Map<String, Map<ExecutorDetails, WorkerSlot>> placements) {
        placements.keySet().forEach(topology -> cluster.freeSlots(cluster.getUsedSlotsByTopologyId(topology)));
        placements.forEach((topology, placement) -> {
            Map<WorkerSlot, List<ExecutorDetails>> bySlot = new HashMap<>();
            placement.forEach((executor, slot) -> bySlot.computeIfAbsent(slot, key -> new ArrayList<>()).add(executor));
            bySlot.forEach((slot, executors) -> cluster.assign(slot, topology, executors));
        });
    }
}
