package stormwright.gateway;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.storm.generated.AuthorizationException;
import org.apache.storm.generated.ClusterSummary;
import org.apache.storm.generated.ErrorInfo;
import org.apache.storm.generated.ExecutorSummary;
import org.apache.storm.generated.GetInfoOptions;
import org.apache.storm.generated.KeyNotFoundException;
import org.apache.storm.generated.KillOptions;
import org.apache.storm.generated.Nimbus;
import org.apache.storm.generated.NotAliveException;
import org.apache.storm.generated.NumErrorsChoice;
import org.apache.storm.generated.ReadableBlobMeta;
import org.apache.storm.generated.RebalanceOptions;
import org.apache.storm.generated.SpoutStats;
import org.apache.storm.generated.SupervisorAssignments;
import org.apache.storm.generated.SupervisorSummary;
import org.apache.storm.generated.TopologyInfo;
import org.apache.storm.generated.TopologySummary;
import org.apache.storm.shade.net.minidev.json.JSONValue;
import org.apache.storm.thrift.TException;
import org.apache.storm.utils.ConfigUtils;
import stormwright.access.ConfDigest;

/** The calls of the gateway, each one of Nimbus; results are JSON documents. */
final class NimbusCalls {
    private static final String ALL_TIME = ":all-time";

    /** Tells a supervisor what it should run, as Nimbus does; without a port at the one in storm.yaml. */
    interface SupervisorPush {
        void send(String host, Integer thriftPort, SupervisorAssignments assignments) throws TException;
    }

    /** Nimbus does not know a topology yet that there is. */
    static final class NotReadyException extends RuntimeException {
        private static final long serialVersionUID = 1L;

        NotReadyException(String name) {
            super("it has just started, and does not know " + name + " yet");
        }
    }

    private NimbusCalls() {
    }

    static Object call(Nimbus.Iface nimbus, SupervisorPush push, String call, Map<?, ?> args) throws TException {
        try {
            return made(nimbus, push, call, args);
        } catch (NotAliveException e) {
            // Nimbus answers calls before it has read names from ZooKeeper, for which it waits until it leads
            // (LeaderListenerCallback, StormClusterStateImpl.syncRemoteIds), but lists topologies from there.
            for (TopologySummary topology : nimbus.getClusterInfo().get_topologies()) {
                if (topology.get_name().equals(args.get("name"))) {
                    throw new NotReadyException(topology.get_name());
                }
            }
            throw e;
        }
    }

    private static Object made(Nimbus.Iface nimbus, SupervisorPush push, String call, Map<?, ?> args) throws TException {
        switch (call) {
            case "cluster":
                return cluster(nimbus.getClusterInfo());
            case "topology":
                return topology(nimbus, text(args, "id"));
            case "problem":
                return NimbusProblem.of(nimbus);
            case "activate":
                nimbus.activate(text(args, "name"));
                return null;
            case "deactivate":
                nimbus.deactivate(text(args, "name"));
                return null;
            case "rebalance":
                RebalanceOptions rebalance = new RebalanceOptions();
                rebalance.set_wait_secs(number(args, "wait_s"));
                if (args.containsKey("num_workers")) {
                    rebalance.set_num_workers(number(args, "num_workers"));
                }
                if (args.containsKey("executors")) {
                    rebalance.set_num_executors(numbers(args, "executors"));
                }
                if (args.containsKey("conf")) {
                    rebalance.set_topology_conf_overrides(JSONValue.toJSONString(object(args.get("conf"))));
                }
                nimbus.rebalance(text(args, "name"), rebalance);
                return null;
            case "configuration":
                return configuration(nimbus, text(args, "id"));
            case "release":
                return release(nimbus, push, args);
            case "kill":
                KillOptions kill = new KillOptions();
                kill.set_wait_secs(number(args, "wait_s"));
                nimbus.killTopologyWithOpts(text(args, "name"), kill);
                return null;
            default:
                throw new IllegalArgumentException("there is no call '" + call + "'");
        }
    }

    /** The digest of what is stored, and its version: a supervisor may still have the same of an earlier change. */
    private static String configuration(Nimbus.Iface nimbus, String id) throws TException {
        String digest = ConfDigest.of(conf(nimbus, id));
        try {
            ReadableBlobMeta stored = nimbus.getBlobMeta(ConfigUtils.masterStormConfKey(id));
            return stored == null ? digest : digest + "." + stored.get_version();
        } catch (AuthorizationException | KeyNotFoundException e) {
            return digest;
        }
    }

    private static Map<?, ?> conf(Nimbus.Iface nimbus, String id) throws TException {
        return object(JSONValue.parse(nimbus.getTopologyConf(id)));
    }

    private static Map<?, ?> object(Object value) {
        if (value instanceof Map<?, ?> map) {
            return map;
        }
        throw new IllegalArgumentException("a configuration should be an object");
    }

    private static String text(Map<?, ?> args, String key) {
        if (args.get(key) instanceof String text) {
            return text;
        }
        throw new IllegalArgumentException("args." + key + " should be a text");
    }

    private static int number(Map<?, ?> args, String key) {
        if (args.get(key) instanceof Integer number && number >= 0) {
            return number;
        }
        throw new IllegalArgumentException("args." + key + " should be a number of at least 0");
    }

    private static Map<String, Integer> numbers(Map<?, ?> args, String key) {
        if (!(args.get(key) instanceof Map<?, ?> given)) {
            throw new IllegalArgumentException("args." + key + " should be an object");
        }
        Map<String, Integer> numbers = new LinkedHashMap<>();
        for (Object name : given.keySet()) {
            numbers.put((String) name, number(given, (String) name));
        }
        return numbers;
    }

    /**
     * Tells a supervisor that a topology has left it, and whether it has, according to Nimbus.
     *
     * <p>After a rebalance Nimbus sends the new assignment only to the supervisors in it. One that has lost its last
     * worker of the topology finds out when it next asks by itself, every 10 seconds; until then its worker lives, and
     * would emit again when the topology is activated.
     */
    private static boolean release(Nimbus.Iface nimbus, SupervisorPush push, Map<?, ?> args) throws TException {
        SupervisorAssignments assignments = nimbus.getSupervisorAssignments(text(args, "supervisor"));
        if (assignments == null || assignments.get_storm_assignment().containsKey(text(args, "id"))) {
            return false;
        }
        Integer thriftPort = args.get("thrift_port") == null ? null : number(args, "thrift_port");
        push.send(text(args, "host"), thriftPort, assignments);
        return true;
    }

    private static Map<String, Object> cluster(ClusterSummary summary) {
        List<Object> supervisors = new ArrayList<>();
        for (SupervisorSummary supervisor : summary.get_supervisors()) {
            Map<String, Object> document = new LinkedHashMap<>();
            document.put("id", supervisor.get_supervisor_id());
            document.put("host", supervisor.get_host());
            document.put("uptime_s", supervisor.get_uptime_secs());
            document.put("num_workers", supervisor.get_num_workers());
            document.put("used_workers", supervisor.get_num_used_workers());
            supervisors.add(document);
        }
        List<Object> topologies = new ArrayList<>();
        for (TopologySummary topology : summary.get_topologies()) {
            Map<String, Object> document = new LinkedHashMap<>();
            document.put("id", topology.get_id());
            document.put("name", topology.get_name());
            document.put("status", topology.get_status());
            document.put("uptime_s", topology.get_uptime_secs());
            document.put("num_workers", topology.get_num_workers());
            document.put("num_executors", topology.get_num_executors());
            document.put("sched_status", topology.get_sched_status());
            document.put("owner", topology.get_owner());
            topologies.add(document);
        }
        return Map.of("supervisors", supervisors, "topologies", topologies);
    }

    private static Map<String, Object> topology(Nimbus.Iface nimbus, String id) throws TException {
        GetInfoOptions options = new GetInfoOptions();
        options.set_num_err_choice(NumErrorsChoice.ONE);
        TopologyInfo info = nimbus.getTopologyInfoWithOpts(id, options);
        List<Object> executors = new ArrayList<>();
        for (ExecutorSummary executor : info.get_executors()) {
            Map<String, Object> document = new LinkedHashMap<>();
            document.put("first_task", executor.get_executor_info().get_task_start());
            document.put("last_task", executor.get_executor_info().get_task_end());
            document.put("component", executor.get_component_id());
            document.put("host", executor.get_host());
            document.put("port", executor.get_port());
            document.put("uptime_s", executor.get_uptime_secs());
            document.put("acked_trees", ackedTrees(executor));
            executors.add(document);
        }
        Map<String, Object> document = new LinkedHashMap<>();
        document.put("id", info.get_id());
        document.put("name", info.get_name());
        document.put("status", info.get_status());
        document.put("sched_status", info.get_sched_status());
        document.put("executors", executors);
        document.put("errors", errors(info));
        return document;
    }

    /** Tuple trees of a spout that were acked since its executor started, as last reported; 0 for a bolt. */
    private static long ackedTrees(ExecutorSummary executor) {
        if (!executor.is_set_stats() || !executor.get_stats().get_specific().is_set_spout()) {
            return 0;
        }
        SpoutStats stats = executor.get_stats().get_specific().get_spout();
        return stats.get_acked().getOrDefault(ALL_TIME, Map.of()).values().stream().mapToLong(Long::longValue).sum();
    }

    private static Map<String, Object> errors(TopologyInfo info) {
        Map<String, Object> errors = new TreeMap<>();
        info.get_errors().forEach((component, list) -> {
            List<Object> documents = new ArrayList<>();
            for (ErrorInfo error : list) {
                Map<String, Object> document = new LinkedHashMap<>();
                document.put("error", error.get_error().lines().findFirst().orElse(""));
                document.put("time_s", error.get_error_time_secs());
                document.put("host", error.get_host());
                document.put("port", error.get_port());
                documents.add(document);
            }
            if (!documents.isEmpty()) {
                errors.put(component, documents);
            }
        });
        return errors;
    }
}
