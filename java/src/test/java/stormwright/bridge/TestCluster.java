package stormwright.bridge;

import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.storm.Config;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.metric.StormMetricsRegistry;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.INimbus;
import org.apache.storm.scheduler.IScheduler;
import org.apache.storm.scheduler.SchedulerAssignmentImpl;
import org.apache.storm.scheduler.SupervisorDetails;
import org.apache.storm.scheduler.Topologies;
import org.apache.storm.scheduler.TopologyDetails;
import org.apache.storm.scheduler.WorkerSlot;
import org.apache.storm.scheduler.resource.normalization.ResourceMetrics;
import org.apache.storm.testing.TestWordSpout;
import org.apache.storm.topology.BasicOutputCollector;
import org.apache.storm.topology.BoltDeclarer;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.topology.base.BaseBasicBolt;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.utils.Utils;

/** A cluster as Nimbus shows it to a scheduler, made of Storm's own classes. */
public final class TestCluster {
    private static final Map<String, Object> DEFAULTS = Utils.readDefaultConfig();

    private final Map<String, SupervisorDetails> supervisors = new LinkedHashMap<>();
    private final List<TopologyDetails> topologies = new ArrayList<>();
    private final Map<String, SchedulerAssignmentImpl> assignments = new HashMap<>();

    /** Adds a node with some worker slots from port 6700 and the tag a. */
    public TestCluster supervisor(String id, int slots) {
        return supervisor(id, slots, "a");
    }

    /** The same with other tags. */
    public TestCluster supervisor(String id, int slots, String tags) {
        List<Integer> ports = new ArrayList<>();
        for (int i = 0; i < slots; i++) {
            ports.add(6700 + i);
        }
        Map<String, Double> resources = Map.of(
                Config.SUPERVISOR_CPU_CAPACITY, 400.0, Config.SUPERVISOR_MEMORY_CAPACITY_MB, 4096.0);
        supervisors.put(id, new SupervisorDetails(id, "host-" + id, Map.of("tags", tags), ports, resources));
        return this;
    }

    /** Adds a topology of 1 acker, 2 spout, 3 split and 3 count executors; tasks are numbered as Storm does. */
    public TestCluster topology(String id, int workers) {
        return topology(id, workers, Map.of(), null);
    }

    /**
     * The same with more to its configuration.
     *
     * @param own laid over Storm's defaults
     * @param tags of count, or null
     */
    public TestCluster topology(String id, int workers, Map<String, Object> own, Object tags) {
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout("spout", new TestWordSpout(), 2);
        builder.setBolt("split", new Nothing(), 3).shuffleGrouping("spout");
        BoltDeclarer count = builder.setBolt("count", new Nothing(), 3).fieldsGrouping("split", new Fields("word"));
        if (tags != null) {
            count.addConfiguration("tags", tags);
        }
        Map<String, Object> conf = new HashMap<>(DEFAULTS);
        conf.put(Config.TOPOLOGY_NAME, id);
        conf.put(Config.TOPOLOGY_ACKER_EXECUTORS, 1);
        conf.putAll(own);
        Map<ExecutorDetails, String> executors = new HashMap<>();
        String[] components = {"__acker", "count", "count", "count", "split", "split", "split", "spout", "spout"};
        for (int i = 0; i < components.length; i++) {
            executors.put(new ExecutorDetails(i + 1, i + 1), components[i]);
        }
        StormTopology structure = builder.createTopology();
        topologies.add(new TopologyDetails(id, conf, structure, workers, executors, 1000, "user"));
        return this;
    }

    /** Has a topology run: executor i, by first task, in {@code slots[i % slots.length]}. */
    public TestCluster running(String id, WorkerSlot... slots) {
        TopologyDetails topology = topologies.stream().filter(t -> t.getId().equals(id)).findAny().orElseThrow();
        Map<ExecutorDetails, WorkerSlot> placement = new HashMap<>();
        List<ExecutorDetails> order = ExecutorOrder.of(topology);
        for (int i = 0; i < order.size(); i++) {
            placement.put(order.get(i), slots[i % slots.length]);
        }
        assignments.put(id, new SchedulerAssignmentImpl(id, placement, null, null));
        return this;
    }

    /** Has a topology run, wholly or in part, in these slots. */
    public TestCluster running(String id, Map<ExecutorDetails, WorkerSlot> placement) {
        assignments.put(id, new SchedulerAssignmentImpl(id, placement, null, null));
        return this;
    }

    /** Has executors of a running topology be dead. */
    public TestCluster dead(String id, int... firstTasks) {
        Map<ExecutorDetails, WorkerSlot> alive = new HashMap<>(assignments.get(id).getExecutorToSlot());
        for (int task : firstTasks) {
            alive.remove(new ExecutorDetails(task, task));
        }
        assignments.put(id, new SchedulerAssignmentImpl(id, alive, null, null));
        return this;
    }

    /** A new cluster in this state. */
    public Cluster build() {
        return new Cluster(new NoNimbus(), new ResourceMetrics(new StormMetricsRegistry()), supervisors, assignments,
                new Topologies(topologies.toArray(TopologyDetails[]::new)), DEFAULTS);
    }

    /** Where every executor of a cluster is. */
    public static Map<String, Map<ExecutorDetails, WorkerSlot>> placements(Cluster cluster) {
        Map<String, Map<ExecutorDetails, WorkerSlot>> placements = new HashMap<>();
        cluster.getAssignments().forEach((id, assignment) -> {
            if (!assignment.getExecutorToSlot().isEmpty()) {
                placements.put(id, new HashMap<>(assignment.getExecutorToSlot()));
            }
        });
        return placements;
    }

    /** A bolt for the structure's sake. */
    public static final class Nothing extends BaseBasicBolt {
        @Override
        public void execute(Tuple input, BasicOutputCollector collector) {
            // never run
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields("word"));
        }
    }

    private static final class NoNimbus implements INimbus {
        @Override
        public void prepare(Map<String, Object> conf, String schedulerLocalDir) {
            // nothing to prepare
        }

        @Override
        public Collection<WorkerSlot> allSlotsAvailableForScheduling(
                Collection<SupervisorDetails> supervisors, Topologies topologies, Set<String> missing) {
            return List.of();
        }

        @Override
        public void assignSlots(Topologies topologies, Map<String, Collection<WorkerSlot>> newSlotsByTopologyId) {
            // nobody to tell
        }

        @Override
        public String getHostName(Map<String, SupervisorDetails> supervisors, String nodeId) {
            return supervisors.containsKey(nodeId) ? supervisors.get(nodeId).getHost() : null;
        }

        @Override
        public IScheduler getForcedScheduler() {
            return null;
        }
    }
}
