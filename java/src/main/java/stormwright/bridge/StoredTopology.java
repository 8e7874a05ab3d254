package stormwright.bridge;

import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.storm.Config;
import org.apache.storm.Thrift;
import org.apache.storm.daemon.StormCommon;
import org.apache.storm.generated.ComponentCommon;
import org.apache.storm.generated.InvalidTopologyException;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.SchedulerAssignmentImpl;
import org.apache.storm.scheduler.TopologyDetails;
import org.apache.storm.scheduler.WorkerSlot;
import org.apache.storm.shade.net.minidev.json.JSONValue;
import org.apache.storm.utils.ObjectReader;
import org.apache.storm.utils.ServerUtils;
import org.apache.storm.utils.Utils;

/** A topology as Nimbus stores it, with the executors that it runs as. */
public final class StoredTopology {
    private final TopologyDetails details;
    private final List<ExecutorDetails> order;

    private StoredTopology(TopologyDetails details) {
        this.details = details;
        this.order = ExecutorOrder.of(details);
    }

    /**
     * Finds out executors as Nimbus does.
     *
     * @param conf    as stored; what it lacks is Storm's default
     * @param running executors that are known to run, which a rebalance may have made more or fewer than were submitted
     * @param workers a number of workers that the topology is known to have
     */
    public static StoredTopology of(String id, Map<String, Object> conf, StormTopology topology, String owner,
            Collection<ExecutorDetails> running, int workers) throws InvalidTopologyException {
        Map<String, Object> merged = Utils.merge(Utils.readDefaultConfig(), conf);
        StormTopology normal = withTasks(merged, topology);
        int wanted = Math.max(1, ObjectReader.getInt(merged.get(Config.TOPOLOGY_WORKERS), 1));
        return new StoredTopology(new TopologyDetails(id, merged, normal, Math.max(workers, wanted),
                executors(merged, normal, running), launchTime(id), owner));
    }

    /** The topology of a {@code stormwright-problem/1}. */
    public Map<String, Object> document() {
        return Snapshot.topology(details, order, Utils.readDefaultConfig());
    }

    /** Where its executors are, for the {@code assignments} of a {@code stormwright-problem/1}. */
    public Map<String, Object> assignment(Map<ExecutorDetails, WorkerSlot> slots) {
        return Snapshot.assignment(new SchedulerAssignmentImpl(details.getId(), slots, null, null), order);
    }

    /** Nimbus writes the number of tasks into each component when it stores a topology; one from elsewhere lacks it. */
    private static StormTopology withTasks(Map<String, Object> conf, StormTopology topology)
            throws InvalidTopologyException {
        StormTopology copy = topology.deepCopy();
        for (Object component : StormCommon.allComponents(copy).values()) {
            Map<String, Object> own = StormCommon.componentConf(component);
            own.put(Config.TOPOLOGY_TASKS, ServerUtils.getComponentParallelism(conf, component));
            StormCommon.getComponentCommon(component).set_json_conf(JSONValue.toJSONString(own));
        }
        return copy;
    }

    /** Executor → component: those that run, and those that Nimbus would make of the tasks that are in none of them. */
    private static Map<ExecutorDetails, String> executors(
            Map<String, Object> conf, StormTopology topology, Collection<ExecutorDetails> running)
            throws InvalidTopologyException {
        Map<Integer, String> componentOfTask = StormCommon.stormTaskInfo(topology, conf);
        Map<String, Object> components = StormCommon.allComponents(StormCommon.systemTopology(conf, topology));
        Map<ExecutorDetails, String> executors = new HashMap<>();
        Map<Integer, ExecutorDetails> executorOfTask = new HashMap<>();
        for (ExecutorDetails executor : running) {
            if (componentOfTask.containsKey(executor.getStartTask())) {
                executors.put(executor, componentOfTask.get(executor.getStartTask()));
                for (int task = executor.getStartTask(); task <= executor.getEndTask(); task++) {
                    executorOfTask.put(task, executor);
                }
            }
        }
        Utils.reverseMap(componentOfTask).forEach((component, tasks) -> {
            ComponentCommon common = StormCommon.getComponentCommon(components.get(component));
            tasks.sort(null);
            for (List<Integer> free : runs(tasks, executorOfTask)) {
                // All tasks are free unless some run: then this is the number that was submitted.
                long share = (long) Thrift.getParallelismHint(common) * free.size();
                int number = (int) ((share + tasks.size() - 1) / tasks.size());
                for (List<Integer> chunk : Utils.partitionFixed(number, free)) {
                    executors.put(new ExecutorDetails(chunk.get(0), chunk.get(chunk.size() - 1)), component);
                }
            }
        });
        return executors;
    }

    /** Each longest run of tasks that are in no executor. */
    private static List<List<Integer>> runs(List<Integer> tasks, Map<Integer, ExecutorDetails> executorOfTask) {
        List<List<Integer>> runs = new ArrayList<>();
        List<Integer> run = null;
        for (Integer task : tasks) {
            if (executorOfTask.containsKey(task)) {
                run = null;
            } else {
                if (run == null) {
                    run = new ArrayList<>();
                    runs.add(run);
                }
                run.add(task);
            }
        }
        return runs;
    }

    /** Nimbus ends an id with the second in which the topology was submitted. */
    private static int launchTime(String id) {
        String end = id.substring(id.lastIndexOf('-') + 1);
        return end.matches("\\d{1,9}|1\\d{9}|20\\d{8}") ? Integer.parseInt(end) : 0;
    }
}
