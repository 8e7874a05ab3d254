package stormwright.host;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.storm.Config;
import org.apache.storm.metric.StormMetricsRegistry;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.SchedulerAssignment;
import org.apache.storm.scheduler.SchedulerAssignmentImpl;
import org.apache.storm.scheduler.SupervisorDetails;
import org.apache.storm.scheduler.Topologies;
import org.apache.storm.scheduler.TopologyDetails;
import org.apache.storm.scheduler.WorkerSlot;
import org.apache.storm.scheduler.resource.normalization.NormalizedResources;
import org.apache.storm.scheduler.resource.normalization.ResourceMetrics;
import org.apache.storm.utils.Utils;

/** A {@code stormwright-problem/1} as the objects that Nimbus hands to a scheduler. */
final class ProblemCluster {
    /** Nimbus knows who submitted a topology, a problem may not; ResourceAwareScheduler silently passes over those. */
    private static final String NOBODY = "nobody";

    private static final Map<String, Object> DEFAULTS = Utils.readDefaultConfig();

    private final Map<String, Object> conf = new HashMap<>(DEFAULTS);
    /** Seconds since 1970, as Storm counts them; its own method is deprecated in Storm 3. */
    private final int now = (int) (System.currentTimeMillis() / 1000);
    private final Map<String, SupervisorDetails> supervisors = new LinkedHashMap<>();
    private final Map<String, TopologyDetails> details = new LinkedHashMap<>();
    private final Map<String, List<ExecutorDetails>> order = new LinkedHashMap<>();
    private final Topologies topologies;
    private final Cluster cluster;

    /**
     * Reads a problem.
     *
     * @param overrides laid over the configuration of the problem
     * @param strategy full name of the strategy that every topology gets, or null to leave each its own
     */
    ProblemCluster(Fields problem, Map<String, Object> overrides, String strategy) {
        // Storm numbers resource names as it meets them, for good; those of earlier problems would count in averages.
        NormalizedResources.resetResourceNames();
        conf.putAll(problem.object("conf").conf());
        conf.putAll(overrides);
        for (Fields supervisor : problem.objects("supervisors")) {
            supervisors.put(supervisor.text("id"), supervisor(supervisor));
        }
        for (Fields topology : problem.objects("topologies")) {
            details.put(topology.text("id"), topology(topology, strategy));
        }
        topologies = new Topologies(details.values().toArray(TopologyDetails[]::new));
        cluster = new Cluster(new PassiveNimbus(), new ResourceMetrics(new StormMetricsRegistry()), supervisors,
                assignments(problem), topologies, conf);
        cluster.setNetworkTopography(racks(problem));
        cluster.setBlacklistedHosts(new HashSet<>(problem.texts("blacklisted_hosts")));
        cluster.setGreyListedSupervisors(new HashSet<>(problem.texts("greylisted_supervisors")));
    }

    Map<String, Object> conf() {
        return conf;
    }

    Topologies topologies() {
        return topologies;
    }

    Cluster cluster() {
        return cluster;
    }

    private static SupervisorDetails supervisor(Fields supervisor) {
        List<Integer> ports = new ArrayList<>();
        for (Object port : supervisor.list("ports")) {
            ports.add(Fields.integer(supervisor.path() + ".ports", port));
        }
        Object meta = supervisor.has("scheduler_meta") ? supervisor.object("scheduler_meta").conf() : null;
        return new SupervisorDetails(
                supervisor.text("id"), supervisor.text("host"), meta, ports, supervisor.amounts("resources"));
    }

    private static Map<String, List<String>> racks(Fields problem) {
        Map<String, String> rackOfHost = new HashMap<>();
        for (Fields supervisor : problem.objects("supervisors")) {
            rackOfHost.putIfAbsent(supervisor.text("host"), supervisor.text("rack", "default-rack"));
        }
        // In the order in which Storm itself comes by them: that of a hash map of the hosts.
        Map<String, List<String>> racks = new HashMap<>();
        rackOfHost.forEach((host, rack) -> racks.computeIfAbsent(rack, key -> new ArrayList<>()).add(host));
        return racks;
    }

    private TopologyDetails topology(Fields topology, String strategy) {
        String id = topology.text("id");
        int workers = topology.integer("num_workers");
        Map<String, Object> own = new HashMap<>(conf);
        own.putAll(Map.of(Config.STORM_ID, id, Config.TOPOLOGY_WORKERS, workers));
        own.putAll(topology.object("conf").conf());
        own.put(Config.TOPOLOGY_NAME, topology.text("name"));
        if (strategy != null) {
            own.put(Config.TOPOLOGY_SCHEDULER_STRATEGY, strategy);
        }
        List<Fields> components = topology.objects("components");
        int[] tasks = new int[components.size()];
        List<ExecutorDetails> executors = new ArrayList<>();
        Map<ExecutorDetails, String> componentOf = new HashMap<>();
        String path = topology.path() + ".executor_runs";
        for (Object row : topology.list("executor_runs")) {
            int[] run = Fields.list(path, row).stream().mapToInt(number -> Fields.integer(path, number)).toArray();
            if (run.length != 4 || run[0] < 0 || run[0] >= tasks.length) {
                throw new IllegalArgumentException(path + " should have rows of a component's index, first task, "
                        + "number of executors and tasks of each");
            }
            for (int i = 0; i < run[2]; i++) {
                int first = run[1] + i * run[3];
                ExecutorDetails executor = new ExecutorDetails(first, first + run[3] - 1);
                executors.add(executor);
                componentOf.put(executor, components.get(run[0]).text("id"));
            }
            tasks[run[0]] += run[2] * run[3];
        }
        order.put(id, executors);
        String owner = topology.text("owner", "");
        return new StillTopology(id, own, Structure.of(components, tasks, own), workers, componentOf,
                topology.nearestInteger("launch_time", 0), owner.isEmpty() ? NOBODY : owner, now);
    }

    /** What lives: as Nimbus does, without what runs in slots that are gone. */
    private Map<String, SchedulerAssignment> assignments(Fields problem) {
        Map<String, SchedulerAssignment> assignments = new LinkedHashMap<>();
        Fields given = problem.object("assignments");
        order.forEach((id, executors) -> {
            if (given.has(id)) {
                Map<ExecutorDetails, WorkerSlot> alive = alive(given.object(id), executors);
                if (!alive.isEmpty()) {
                    assignments.put(id, new SchedulerAssignmentImpl(id, alive, null, null));
                }
            }
        });
        return assignments;
    }

    private Map<ExecutorDetails, WorkerSlot> alive(Fields placement, List<ExecutorDetails> executors) {
        List<WorkerSlot> slots = new ArrayList<>();
        for (Object pair : placement.list("slots")) {
            List<?> slot = Fields.list(placement.path() + ".slots", pair);
            int port = Fields.integer(placement.path() + ".slots", slot.get(1));
            SupervisorDetails supervisor = supervisors.get(slot.get(0));
            boolean exists = supervisor != null && supervisor.getAllPorts().contains(port);
            slots.add(exists ? new WorkerSlot(supervisor.getId(), port) : null);
        }
        List<?> slotOfExecutor = placement.list("slot_of_executor");
        if (slotOfExecutor.size() != executors.size()) {
            throw new IllegalArgumentException(placement.path() + ".slot_of_executor should have "
                    + executors.size() + " items, got " + slotOfExecutor.size());
        }
        Map<ExecutorDetails, WorkerSlot> alive = new HashMap<>();
        for (int i = 0; i < executors.size(); i++) {
            int slot = Fields.integer(placement.path() + ".slot_of_executor", slotOfExecutor.get(i));
            if (slot >= 0 && slots.get(slot) != null) {
                alive.put(executors.get(i), slots.get(slot));
            }
        }
        return alive;
    }

    /** Where every executor is now, as {@code stormwright-assignment/1} has it. */
    Map<String, Object> placements() {
        Map<String, Object> placements = new LinkedHashMap<>();
        order.forEach((id, executors) -> {
            SchedulerAssignment assignment = cluster.getAssignmentById(id);
            Map<ExecutorDetails, WorkerSlot> slotOf = assignment == null ? Map.of() : assignment.getExecutorToSlot();
            Map<WorkerSlot, Integer> indexes = new LinkedHashMap<>();
            int[] slotOfExecutor = new int[executors.size()];
            for (int i = 0; i < slotOfExecutor.length; i++) {
                WorkerSlot slot = slotOf.get(executors.get(i));
                slotOfExecutor[i] = slot == null ? -1 : indexes.computeIfAbsent(slot, key -> indexes.size());
            }
            List<Object> slots = new ArrayList<>();
            indexes.keySet().forEach(slot -> slots.add(List.of(slot.getNodeId(), slot.getPort())));
            placements.put(id, Map.of("slots", slots, "slot_of_executor", slotOfExecutor));
        });
        return placements;
    }

    /** Memory on the heap that the executors of each worker request and share: supervisor, port and MB, by topology. */
    Map<String, Object> heaps() {
        Map<String, Object> heaps = new LinkedHashMap<>();
        order.keySet().forEach(id -> {
            SchedulerAssignment assignment = cluster.getAssignmentById(id);
            List<Object> ofWorkers = new ArrayList<>();
            if (assignment != null) {
                assignment.getScheduledResources().forEach((slot, resources) ->
                        ofWorkers.add(List.of(slot.getNodeId(), slot.getPort(), resources.get_mem_on_heap())));
            }
            heaps.put(id, ofWorkers);
        });
        return heaps;
    }

    /** What the scheduler says of each topology, where it says something. */
    Map<String, String> status() {
        Map<String, String> status = new LinkedHashMap<>();
        order.keySet().forEach(id -> {
            String text = cluster.getStatusMap().get(id);
            if (text != null && !text.isEmpty()) {
                status.put(id, text);
            }
        });
        return status;
    }
}
