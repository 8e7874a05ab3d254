package stormwright.gateway;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.storm.DaemonConfig;
import org.apache.storm.generated.ClusterSummary;
import org.apache.storm.generated.ExecutorSummary;
import org.apache.storm.generated.GetInfoOptions;
import org.apache.storm.generated.Nimbus;
import org.apache.storm.generated.NotAliveException;
import org.apache.storm.generated.NumErrorsChoice;
import org.apache.storm.generated.SupervisorSummary;
import org.apache.storm.generated.TopologySummary;
import org.apache.storm.generated.WorkerSummary;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.WorkerSlot;
import org.apache.storm.scheduler.resource.normalization.NormalizedResources;
import org.apache.storm.shade.net.minidev.json.JSONValue;
import org.apache.storm.thrift.TException;
import org.apache.storm.utils.ConfigUtils;
import org.apache.storm.utils.Utils;
import stormwright.bridge.StoredTopology;

/**
 * What Nimbus tells any client of its cluster, as a {@code stormwright-problem/1}.
 *
 * <p>Thrift does not give: a supervisor's {@code scheduler_meta} and rack; the ports of slots without a worker, only how
 * many slots there are (the ports of Nimbus' own storm.yaml are taken); how many workers a topology asks for after a
 * rebalance changed it (those it was submitted with are taken, or those it has, if more); how many executors a rebalance
 * made of a component that does not run; any load. Nimbus' own scheduler plugin sees all but the load.
 */
final class NimbusProblem {
    /** What the schedulers, Storm's and ours, read of a cluster's configuration. */
    private static final List<String> CLUSTER_KEYS = List.of("isolation.scheduler.", "multitenant.scheduler.",
            "resource.aware.scheduler.", "storm.scheduler", "storm.worker.min.cpu.pcore.percent", "stormwright.",
            "topology.");
    private static final String ALL_TIME = ":all-time";

    private final Nimbus.Iface nimbus;
    private final Map<String, TreeSet<Integer>> usedPorts = new HashMap<>();
    private final List<Object> topologies = new ArrayList<>();
    private final Map<String, Object> assignments = new LinkedHashMap<>();

    private NimbusProblem(Nimbus.Iface nimbus) {
        this.nimbus = nimbus;
    }

    static Map<String, Object> of(Nimbus.Iface nimbus) throws TException {
        return new NimbusProblem(nimbus).problem();
    }

    private Map<String, Object> problem() throws TException {
        Map<String, Object> conf = object(nimbus.getNimbusConf());
        ClusterSummary cluster = nimbus.getClusterInfo();
        List<TopologySummary> summaries = new ArrayList<>(cluster.get_topologies());
        summaries.sort(Comparator.comparing(TopologySummary::get_id));
        for (TopologySummary summary : summaries) {
            try {
                addTopology(summary);
            } catch (NotAliveException e) {
                continue; // killed since the cluster was looked at
            }
        }
        Map<String, Object> problem = new LinkedHashMap<>();
        problem.put("schema", "stormwright-problem/1");
        problem.put("name", "nimbus");
        problem.put("conf", ofSchedulers(conf));
        problem.put("supervisors", supervisors(cluster, ports(conf)));
        TreeSet<String> blacklisted = new TreeSet<>();
        for (SupervisorSummary supervisor : cluster.get_supervisors()) {
            if (supervisor.is_blacklisted()) {
                blacklisted.add(supervisor.get_host());
            }
        }
        problem.put("blacklisted_hosts", blacklisted);
        problem.put("topologies", topologies);
        problem.put("assignments", assignments);
        return problem;
    }

    private void addTopology(TopologySummary summary) throws TException {
        String id = summary.get_id();
        GetInfoOptions options = new GetInfoOptions();
        options.set_num_err_choice(NumErrorsChoice.NONE);
        List<ExecutorSummary> running = nimbus.getTopologyInfoWithOpts(id, options).get_executors();
        // An executor has a host, which several supervisors may share; a worker has its supervisor.
        List<WorkerSummary> workers = nimbus.getTopologyPageInfo(id, ALL_TIME, true).get_workers();
        Map<String, WorkerSlot> slotAt = new HashMap<>();
        for (WorkerSummary worker : workers == null ? List.<WorkerSummary>of() : workers) {
            WorkerSlot slot = new WorkerSlot(worker.get_supervisor_id(), worker.get_port());
            slotAt.put(place(worker.get_host(), worker.get_port()), slot);
            usedPorts.computeIfAbsent(slot.getNodeId(), key -> new TreeSet<>()).add(slot.getPort());
        }
        List<ExecutorDetails> executors = new ArrayList<>();
        Map<ExecutorDetails, WorkerSlot> slots = new HashMap<>();
        for (ExecutorSummary executor : running) {
            ExecutorDetails details = new ExecutorDetails(
                    executor.get_executor_info().get_task_start(), executor.get_executor_info().get_task_end());
            executors.add(details);
            WorkerSlot slot = slotAt.get(place(executor.get_host(), executor.get_port()));
            if (slot != null) {
                slots.put(details, slot);
            }
        }
        StoredTopology topology = StoredTopology.of(id, object(nimbus.getTopologyConf(id)), nimbus.getUserTopology(id),
                summary.get_owner(), executors, slotAt.size());
        topologies.add(topology.document());
        if (!slots.isEmpty()) {
            assignments.put(id, topology.assignment(slots));
        }
    }

    private static String place(String host, int port) {
        return host + ":" + port;
    }

    private List<Object> supervisors(ClusterSummary cluster, List<Integer> usualPorts) {
        List<SupervisorSummary> summaries = new ArrayList<>(cluster.get_supervisors());
        summaries.sort(Comparator.comparing(SupervisorSummary::get_supervisor_id));
        List<Object> documents = new ArrayList<>();
        for (SupervisorSummary supervisor : summaries) {
            String id = supervisor.get_supervisor_id();
            Map<String, Object> document = new LinkedHashMap<>();
            document.put("id", id);
            document.put("host", supervisor.get_host());
            document.put("ports", slots(usedPorts.getOrDefault(id, new TreeSet<>()), usualPorts,
                    supervisor.get_num_workers()));
            document.put("scheduler_meta", null);
            document.put("resources", NormalizedResources.RESOURCE_NAME_NORMALIZER.normalizedResourceMap(
                    supervisor.get_total_resources()));
            documents.add(document);
        }
        return documents;
    }

    /** As many ports as there are slots: those in use, then the usual ones, then those that follow. */
    private static TreeSet<Integer> slots(TreeSet<Integer> used, List<Integer> usual, int number) {
        TreeSet<Integer> ports = new TreeSet<>(used);
        for (int port : usual) {
            if (ports.size() < number) {
                ports.add(port);
            }
        }
        while (ports.size() < number) {
            ports.add(ports.isEmpty() ? 6700 : ports.last() + 1);
        }
        return ports;
    }

    private static List<Integer> ports(Map<String, Object> conf) {
        List<Integer> ports = new ArrayList<>();
        if (conf.get(DaemonConfig.SUPERVISOR_SLOTS_PORTS) instanceof List<?> list) {
            list.forEach(port -> ports.add(((Number) port).intValue()));
        }
        return ports;
    }

    /** What the operator has set of it, not what Storm has by default. */
    private static Map<String, Object> ofSchedulers(Map<String, Object> conf) {
        Map<String, Object> defaults = Utils.readDefaultConfig();
        Map<String, Object> selected = new TreeMap<>();
        ConfigUtils.maskPasswords(conf).forEach((key, value) -> {
            if (CLUSTER_KEYS.stream().anyMatch(key::startsWith) && !same(value, defaults.get(key))) {
                selected.put(key, value);
            }
        });
        return selected;
    }

    /** Whether two values are written alike: what comes as JSON has other Java types than what comes as YAML. */
    private static boolean same(Object value, Object other) {
        return Objects.equals(value, other) || JSONValue.toJSONString(value).equals(JSONValue.toJSONString(other));
    }

    private static Map<String, Object> object(String json) {
        Map<String, Object> object = new HashMap<>();
        if (JSONValue.parse(json) instanceof Map<?, ?> map) {
            map.forEach((key, value) -> object.put(String.valueOf(key), value));
        }
        return object;
    }
}
