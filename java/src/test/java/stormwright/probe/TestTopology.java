package stormwright.probe;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.storm.Config;
import org.apache.storm.Constants;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.hooks.info.BoltExecuteInfo;
import org.apache.storm.hooks.info.EmitInfo;
import org.apache.storm.metrics2.StormMetricRegistry;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.testing.TestWordSpout;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.TupleImpl;
import org.apache.storm.tuple.Values;
import org.apache.storm.utils.Utils;
import stormwright.bridge.TestCluster;

/** Contexts as Storm hands them to hooks, of a topology with tasks 1 acker, 2 and 3 count, 4 and 5 split, 6 spout. */
public final class TestTopology {
    public static final String ID = "wc-1-1600000000";
    public static final int PORT = 6700;

    private final StormTopology topology;
    private final Map<Integer, String> taskToComponent = new TreeMap<>();
    private final Map<String, List<Integer>> componentToTasks = new HashMap<>();
    public final Map<String, Object> conf = new HashMap<>(Utils.readDefaultConfig());

    public TestTopology(Path spool) {
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout("spout", new TestWordSpout(), 1);
        builder.setBolt("split", new TestCluster.Nothing(), 2).shuffleGrouping("spout");
        builder.setBolt("count", new TestCluster.Nothing(), 2).fieldsGrouping("split", new Fields("word"))
                .allGrouping("spout");
        topology = builder.createTopology();
        String[] components = {"__acker", "count", "count", "split", "split", "spout"};
        for (int i = 0; i < components.length; i++) {
            taskToComponent.put(i + 1, components[i]);
            componentToTasks.computeIfAbsent(components[i], key -> new ArrayList<>()).add(i + 1);
        }
        conf.put(Config.TOPOLOGY_ACKER_EXECUTORS, 1);
        conf.put(Config.TOPOLOGY_WORKERS, 1);
        conf.put(Config.STORM_ID, ID);
        conf.put("stormwright.probe.spool.dir", spool.toString());
        conf.put("stormwright.probe.interval.ms", "3600000");
    }

    public TopologyContext context(int task) {
        Map<String, Map<String, Fields>> streams = new HashMap<>();
        taskToComponent.values().forEach(component -> streams.put(component, Map.of("default", new Fields("word"))));
        return new TopologyContext(topology, conf, taskToComponent, componentToTasks, streams, Map.of(), ID, null, null,
                task, PORT, List.copyOf(taskToComponent.keySet()), Map.of(), Map.of(), Map.of(), Map.of(),
                new AtomicBoolean(), new StormMetricRegistry());
    }

    /** A tuple that a bolt has executed. */
    public BoltExecuteInfo executed(int source, int task, long sampledMs) {
        String component = taskToComponent.getOrDefault(source, Constants.SYSTEM_COMPONENT_ID);
        return new BoltExecuteInfo(
                new TupleImpl(context(task), new Values("word"), component, source, "default"), task, sampledMs);
    }

    public static EmitInfo emit(String stream, int task, Object value, Integer... targets) {
        return new EmitInfo(new Values(value), stream, task, new ArrayList<>(Arrays.asList(targets)));
    }
}
