package stormwright.bridge;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.storm.Config;
import org.apache.storm.DaemonConfig;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.SchedulerAssignment;
import org.apache.storm.scheduler.SupervisorDetails;
import org.apache.storm.scheduler.TopologyDetails;
import org.apache.storm.scheduler.WorkerSlot;
import org.apache.storm.scheduler.resource.normalization.NormalizedResourceOffer;
import org.apache.storm.scheduler.resource.normalization.NormalizedResourceRequest;
import org.apache.storm.shade.net.minidev.json.JSONValue;
import org.apache.storm.utils.ConfigUtils;

/** What Nimbus shows a scheduler, as the request that the service is sent. */
public final class Snapshot {
    private static final String OUR_CONF = "stormwright.";
    private static final String TOPOLOGY_CONF = "topology.";
    private static final List<String> CLUSTER_CONF =
            List.of(OUR_CONF, "isolation.scheduler.", DaemonConfig.RESOURCE_AWARE_SCHEDULER_USER_POOLS, "storm.scheduler", Config.TASK_REFRESH_POLL_SECS,
                    DaemonConfig.SUPERVISOR_LOCALIZER_UPDATE_BLOB_INTERVAL_SECS);
    private static final int UNASSIGNED = -1;

    private Snapshot() {
    }

    /**
     * The request {@code stormwright-snapshot/1} as JSON.
     *
     * <p>Each supervisor, topology and assignment has a line of its own, by which the service sees which of them are as
     * they were when it was asked before; it reads only the others.
     */
    public static String of(Cluster cluster, Map<String, Object> conf, String nimbusHost) {
        List<String> topologies = new ArrayList<>();
        List<String> assignments = new ArrayList<>();
        for (TopologyDetails topology : sorted(cluster)) {
            List<ExecutorDetails> order = ExecutorOrder.of(topology);
            topologies.add(JSONValue.toJSONString(topology(topology, order, conf)));
            SchedulerAssignment assignment = cluster.getAssignmentById(topology.getId());
            if (assignment != null && !assignment.getExecutorToSlot().isEmpty()) {
                assignments.add(inner(Map.of(topology.getId(), assignment(assignment, order))));
            }
        }
        return "{" + inner(Map.of("schema", "stormwright-snapshot/1", "cluster", Map.of("nimbus_host", nimbusHost)))
                + ",\"problem\":{" + inner(header(cluster, conf))
                + ",\"supervisors\":[" + lines(supervisors(cluster).stream().map(JSONValue::toJSONString).toList())
                + "],\"topologies\":[" + lines(topologies)
                + "],\"assignments\":{" + lines(assignments) + "}}}";
    }

    private static Map<String, Object> header(Cluster cluster, Map<String, Object> conf) {
        Map<String, Object> header = new LinkedHashMap<>();
        header.put("schema", "stormwright-problem/1");
        header.put("name", "nimbus");
        Map<String, Object> ofCluster = new TreeMap<>();
        CLUSTER_CONF.forEach(prefix -> ofCluster.putAll(select(conf, prefix)));
        ofCluster.putAll(HeapOptions.ofCluster(conf));
        header.put("conf", ofCluster);
        header.put("blacklisted_hosts", new TreeSet<>(cluster.getBlacklistedHosts()));
        header.put("greylisted_supervisors", cluster.getGreyListedSupervisors());
        return header;
    }

    /** A JSON object without its braces. */
    private static String inner(Map<String, ?> object) {
        String json = JSONValue.toJSONString(object);
        return json.substring(1, json.length() - 1);
    }

    private static String lines(List<String> items) {
        return "\n" + String.join(",\n", items) + "\n";
    }

    private static List<TopologyDetails> sorted(Cluster cluster) {
        Collection<TopologyDetails> topologies = cluster.getTopologies().getTopologies();
        return topologies.stream().sorted(Comparator.comparing(TopologyDetails::getId)).toList();
    }

    private static List<Object> supervisors(Cluster cluster) {
        Map<String, String> rackOfHost = new HashMap<>();
        cluster.getNetworkTopography().forEach((rack, hosts) -> hosts.forEach(host -> rackOfHost.put(host, rack)));
        List<Object> documents = new ArrayList<>();
        for (SupervisorDetails supervisor : new TreeMap<>(cluster.getSupervisors()).values()) {
            Map<String, Object> document = new LinkedHashMap<>();
            document.put("id", supervisor.getId());
            document.put("host", supervisor.getHost());
            document.put("rack", rackOfHost.getOrDefault(supervisor.getHost(), "default-rack"));
            document.put("ports", new TreeSet<>(supervisor.getAllPorts()));
            document.put("scheduler_meta", texts(supervisor.getSchedulerMeta()));
            document.put("resources", resources(supervisor.getTotalResources()));
            documents.add(document);
        }
        return documents;
    }

    private static Map<String, String> texts(Object meta) {
        if (!(meta instanceof Map<?, ?> map)) {
            return null;
        }
        Map<String, String> texts = new TreeMap<>();
        map.forEach((key, value) -> texts.put(String.valueOf(key), String.valueOf(value)));
        return texts;
    }

    private static Map<String, Double> resources(NormalizedResourceOffer offer) {
        return offer == null ? Map.of() : offer.toNormalizedMap();
    }

    static Map<String, Double> resources(NormalizedResourceRequest request) {
        return request == null ? Map.of() : request.toNormalizedMap();
    }

    static Map<String, Object> topology(
            TopologyDetails topology, List<ExecutorDetails> order, Map<String, Object> clusterConf) {
        ComponentDocuments components = new ComponentDocuments(topology, order);
        Map<String, Object> document = new LinkedHashMap<>();
        document.put("id", topology.getId());
        document.put("name", topology.getName());
        document.put("owner", topology.getTopologySubmitter() == null ? "" : topology.getTopologySubmitter());
        document.put("launch_time", topology.getLaunchTime());
        document.put("num_workers", topology.getNumWorkers());
        Map<String, Object> conf = select(ConfigUtils.maskPasswords(topology.getConf()), TOPOLOGY_CONF);
        conf.putAll(select(topology.getConf(), OUR_CONF));
        conf.putAll(HeapOptions.ofTopology(topology.getConf(), clusterConf));
        document.put("conf", conf);
        document.put("components", components.documents());
        document.put("executor_runs", runs(topology, order, components.names()));
        return document;
    }

    private static Map<String, Object> select(Map<String, Object> conf, String prefix) {
        Map<String, Object> selected = new TreeMap<>();
        conf.forEach((key, value) -> {
            if (key.startsWith(prefix)) {
                selected.put(key, value);
            }
        });
        return selected;
    }

    /** Rows of component index, first task, number of executors, tasks of each; expanded they give {@code order}. */
    private static List<int[]> runs(TopologyDetails topology, List<ExecutorDetails> order, List<String> components) {
        List<int[]> runs = new ArrayList<>();
        int[] run = null;
        for (ExecutorDetails executor : order) {
            int component = components.indexOf(topology.getComponentFromExecutor(executor));
            int tasks = executor.getEndTask() - executor.getStartTask() + 1;
            boolean continues = run != null && run[0] == component && run[3] == tasks
                    && executor.getStartTask() == run[1] + run[2] * tasks;
            if (!continues) {
                run = new int[] {component, executor.getStartTask(), 0, tasks};
                runs.add(run);
            }
            run[2]++;
        }
        return runs;
    }

    static Map<String, Object> assignment(SchedulerAssignment assignment, List<ExecutorDetails> order) {
        Map<WorkerSlot, Integer> indexes = new LinkedHashMap<>();
        int[] slotOfExecutor = new int[order.size()];
        for (int i = 0; i < slotOfExecutor.length; i++) {
            WorkerSlot slot = assignment.getExecutorToSlot().get(order.get(i));
            slotOfExecutor[i] = slot == null ? UNASSIGNED : indexes.computeIfAbsent(slot, key -> indexes.size());
        }
        List<Object> slots = new ArrayList<>();
        indexes.keySet().forEach(slot -> slots.add(List.of(slot.getNodeId(), slot.getPort())));
        return Map.of("slots", slots, "slot_of_executor", slotOfExecutor);
    }
}
