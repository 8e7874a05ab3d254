package stormwright.bridge;

import java.text.DecimalFormat;
import java.text.DecimalFormatSymbols;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeMap;
import org.apache.storm.Config;
import org.apache.storm.Constants;
import org.apache.storm.daemon.StormCommon;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.SchedulerAssignment;
import org.apache.storm.scheduler.SupervisorDetails;
import org.apache.storm.scheduler.TopologyDetails;
import org.apache.storm.scheduler.WorkerSlot;
import org.apache.storm.scheduler.resource.strategies.scheduling.ConstraintSolverConfig;

/**
 * What a topology demands of where it runs, and schedulers may not know: tags, constraints on components, executors per
 * worker and generic resources. Known by configuration alone.
 *
 * @param requested whether nodes and heaps also have to hold what executors ask for, as Storm's
 *     {@code ResourceAwareScheduler} sees to
 */
public record Limits(boolean requested) {
    private static final String MAX_EXECUTORS = "stormwright.max.executors.per.worker";
    /** Storm's older form of constraints, by a key that it calls deprecated and still reads. */
    private static final String SPREAD_COMPONENTS = "topology.spread.components";
    private static final Set<String> CPU_AND_MEMORY = Set.of(
            Constants.COMMON_CPU_RESOURCE_NAME, Constants.COMMON_TOTAL_MEMORY_RESOURCE_NAME,
            Constants.COMMON_ONHEAP_MEMORY_RESOURCE_NAME, Constants.COMMON_OFFHEAP_MEMORY_RESOURCE_NAME);
    /** Sums of amounts that exactly fill a node may come out a little above what it has. */
    private static final double TOLERANCE = 1e-9;

    /**
     * Says what executors of a topology that came to their slots break; what runs where it did breaks nothing.
     *
     * @param before where its executors were
     * @param cluster where they are
     * @return a text, or null
     */
    public String broken(TopologyDetails topology, Map<ExecutorDetails, WorkerSlot> before, Cluster cluster) {
        Map<ExecutorDetails, WorkerSlot> now = slots(cluster, topology.getId());
        Set<ExecutorDetails> arrived = new HashSet<>(now.keySet());
        arrived.removeIf(executor -> now.get(executor).equals(before.get(executor)));
        if (arrived.isEmpty()) {
            return null;
        }
        try {
            return new Look(topology, cluster, now, arrived).broken(requested);
        } catch (RuntimeException e) {
            return "its limits cannot be read: " + e;
        }
    }

    /** Where the executors of a topology are. */
    public static Map<ExecutorDetails, WorkerSlot> slots(Cluster cluster, String topology) {
        SchedulerAssignment assignment = cluster.getAssignmentById(topology);
        return assignment == null ? Map.of() : assignment.getExecutorToSlot();
    }

    static String amount(double amount) {
        return new DecimalFormat("0.##", DecimalFormatSymbols.getInstance(Locale.ROOT)).format(amount);
    }

    /** One topology in one cluster. */
    private record Look(TopologyDetails topology, Cluster cluster, Map<ExecutorDetails, WorkerSlot> now,
            Set<ExecutorDetails> arrived) {
        String broken(boolean requested) {
            List<String> broken = new ArrayList<>();
            broken.add(tags());
            broken.add(workers());
            broken.add(constraints());
            broken.add(resources(requested));
            broken.add(requested ? heaps() : null);
            broken.removeIf(Objects::isNull);
            return broken.isEmpty() ? null : String.join(", ", broken);
        }

        private String component(ExecutorDetails executor) {
            return topology.getComponentFromExecutor(executor);
        }

        private String host(String node) {
            SupervisorDetails supervisor = cluster.getSupervisorById(node);
            return supervisor == null ? node : supervisor.getHost();
        }

        private String tags() {
            StormTopology structure = topology.getTopology();
            Map<String, Object> declared = structure == null ? Map.of() : StormCommon.allComponents(structure);
            Map<String, Set<String>> wanted = new HashMap<>();
            for (ExecutorDetails executor : arrived) {
                Set<String> missing = new HashSet<>(wanted.computeIfAbsent(
                        component(executor), name -> Tags.ofComponent(declared.get(name))));
                SupervisorDetails node = cluster.getSupervisorById(now.get(executor).getNodeId());
                if (!missing.isEmpty() && node != null) {
                    missing.removeAll(Tags.ofNode(node));
                }
                if (!missing.isEmpty()) {
                    return component(executor) + " on " + host(now.get(executor).getNodeId()) + ", which lacks tag "
                            + String.join(", ", missing);
                }
            }
            return null;
        }

        /** Limits on what a worker holds, whatever its components are. */
        private String workers() {
            Map<WorkerSlot, Set<String>> components = new HashMap<>();
            Map<WorkerSlot, Integer> executors = new HashMap<>();
            now.forEach((executor, slot) -> {
                components.computeIfAbsent(slot, key -> new HashSet<>()).add(component(executor));
                executors.merge(slot, 1, Integer::sum);
            });
            Map<String, Object> conf = topology.getConf();
            boolean oneExecutor = Boolean.TRUE.equals(conf.get(Config.TOPOLOGY_RAS_ONE_EXECUTOR_PER_WORKER));
            boolean oneComponent = Boolean.TRUE.equals(conf.get(Config.TOPOLOGY_RAS_ONE_COMPONENT_PER_WORKER));
            int most = conf.get(MAX_EXECUTORS) instanceof Integer limit && limit > 0 ? limit : Integer.MAX_VALUE;
            int allowed = oneExecutor ? 1 : most;
            for (ExecutorDetails executor : arrived) {
                WorkerSlot slot = now.get(executor);
                if (executors.get(slot) > allowed) {
                    return executors.get(slot) + " executors in " + slot + ", limit " + allowed;
                }
                if (oneComponent && components.get(slot).size() > 1) {
                    return components.get(slot).size() + " components in " + slot + ", limit 1";
                }
            }
            return null;
        }

        private String constraints() {
            Map<String, Object> conf = topology.getConf();
            if (conf.get(Config.TOPOLOGY_RAS_CONSTRAINTS) == null
                    && conf.get(SPREAD_COMPONENTS) == null) {
                return null;
            }
            ConstraintSolverConfig constraints = new ConstraintSolverConfig(topology);
            Map<String, Map<String, Integer>> onNode = new HashMap<>();
            Map<WorkerSlot, Map<String, Integer>> inWorker = new HashMap<>();
            now.forEach((executor, slot) -> {
                onNode.computeIfAbsent(slot.getNodeId(), key -> new HashMap<>())
                        .merge(component(executor), 1, Integer::sum);
                inWorker.computeIfAbsent(slot, key -> new HashMap<>()).merge(component(executor), 1, Integer::sum);
            });
            for (ExecutorDetails executor : arrived) {
                String component = component(executor);
                WorkerSlot slot = now.get(executor);
                Integer most = constraints.getMaxNodeCoLocationCnts().get(component);
                int there = onNode.get(slot.getNodeId()).get(component);
                if (most != null && there > most) {
                    return there + " executors of " + component + " on " + host(slot.getNodeId()) + ", limit " + most;
                }
                for (String other : constraints.getIncompatibleComponentSets().getOrDefault(component, Set.of())) {
                    if (inWorker.get(slot).getOrDefault(other, 0) > (other.equals(component) ? 1 : 0)) {
                        return component + " and " + other + " in " + slot + ", incompatible";
                    }
                }
            }
            return null;
        }

        /** Generic resources, which few executors ask for, and if wanted CPU and memory. */
        private String resources(boolean all) {
            Map<String, Set<String>> asked = new TreeMap<>();
            for (ExecutorDetails executor : arrived) {
                topology.getTotalResources(executor).toNormalizedMap().forEach((name, amount) -> {
                    if (amount > 0 && !CPU_AND_MEMORY.contains(name)) {
                        asked.computeIfAbsent(now.get(executor).getNodeId(), key -> new HashSet<>()).add(name);
                    }
                });
                if (all) {
                    asked.computeIfAbsent(now.get(executor).getNodeId(), key -> new HashSet<>())
                            .addAll(Set.of(Constants.COMMON_CPU_RESOURCE_NAME,
                                    Constants.COMMON_TOTAL_MEMORY_RESOURCE_NAME));
                }
            }
            for (Map.Entry<String, Set<String>> entry : asked.entrySet()) {
                SupervisorDetails node = cluster.getSupervisorById(entry.getKey());
                Map<String, Double> has = node == null ? Map.of() : node.getTotalResources().toNormalizedMap();
                for (String name : entry.getValue()) {
                    double wanted = scheduled(entry.getKey(), name);
                    double there = has.getOrDefault(name, 0.0);
                    if (wanted > there * (1 + TOLERANCE)) {
                        return host(entry.getKey()) + ": " + name + " " + amount(wanted) + " of " + amount(there);
                    }
                }
            }
            return null;
        }

        /** What all executors on a node ask for of a resource. */
        private double scheduled(String node, String resource) {
            if (resource.equals(Constants.COMMON_CPU_RESOURCE_NAME)) {
                return cluster.getScheduledCpuForNode(node);
            }
            return resource.equals(Constants.COMMON_TOTAL_MEMORY_RESOURCE_NAME)
                    ? cluster.getScheduledMemoryForNode(node)
                    : cluster.getAllScheduledResourcesForNode(node).toNormalizedMap().getOrDefault(resource, 0.0);
        }

        private String heaps() {
            double most = topology.getTopologyWorkerMaxHeapSize();
            for (WorkerSlot slot : new HashSet<>(arrived.stream().map(now::get).toList())) {
                double heap = cluster.getWorkerResources(slot).get_mem_on_heap();
                if (heap > most * (1 + TOLERANCE)) {
                    return "heap of " + slot + ": " + amount(heap) + " MB of " + amount(most);
                }
            }
            return null;
        }
    }
}
