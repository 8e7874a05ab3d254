package stormwright.bridge;

import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.SchedulerAssignment;
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

    /** Applies what makes sense; returns, for each topology of which nothing was applied, what does not. */
    public static Map<String, String> apply(Answer answer, Cluster cluster) {
        Placement placement = new Placement(cluster, answer);
        placement.wanted.entrySet().removeIf(entry -> entry.getValue().equals(placement.current(entry.getKey())));
        placement.refuseUnknownSlots();
        placement.refuseOccupiedSlots();
        placement.assign();
        return placement.refused;
    }

    private Map<ExecutorDetails, WorkerSlot> current(String topology) {
        SchedulerAssignment assignment = cluster.getAssignmentById(topology);
        return assignment == null ? Map.of() : assignment.getExecutorToSlot();
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

    /** Refusing one topology leaves it in its slots, which may be what another one counts on: hence the loop. */
    private void refuseOccupiedSlots() {
        boolean changed = true;
        while (changed) {
            changed = false;
            Map<WorkerSlot, String> owners = new HashMap<>();
            for (TopologyDetails topology : cluster.getTopologies()) {
                if (!wanted.containsKey(topology.getId())) {
                    current(topology.getId()).values().forEach(slot -> owners.put(slot, topology.getId()));
                }
            }
            for (String topology : List.copyOf(wanted.keySet())) {
                for (WorkerSlot slot : new HashSet<>(wanted.get(topology).values())) {
                    String other = owners.putIfAbsent(slot, topology);
                    if (other != null && !other.equals(topology)) {
                        refuse(topology, "slot " + slot + " would belong to " + other + " as well");
                        if (wanted.containsKey(other)) {
                            refuse(other, "slot " + slot + " would belong to " + topology + " as well");
                        }
                        changed = true;
                        break;
                    }
                }
                if (changed) {
                    break;
                }
            }
        }
    }

    private void assign() {
        Map<String, Map<ExecutorDetails, WorkerSlot>> before = new HashMap<>();
        wanted.keySet().forEach(topology -> before.put(topology, new HashMap<>(current(topology))));
        try {
            replace(wanted);
        } catch (RuntimeException e) {
            replace(before);
            Set.copyOf(wanted.keySet()).forEach(topology -> refuse(topology, "Storm refused it: " + e.getMessage()));
        }
    }

    /** First all slots are freed, so that topologies may exchange them. */
    private void replace(Map<String, Map<ExecutorDetails, WorkerSlot>> placements) {
        placements.keySet().forEach(topology -> cluster.freeSlots(cluster.getUsedSlotsByTopologyId(topology)));
        placements.forEach((topology, placement) -> {
            Map<WorkerSlot, List<ExecutorDetails>> bySlot = new HashMap<>();
            placement.forEach((executor, slot) -> bySlot.computeIfAbsent(slot, key -> new ArrayList<>()).add(executor));
            bySlot.forEach((slot, executors) -> cluster.assign(slot, topology, executors));
        });
    }
}
