package stormwright.probe;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.apache.storm.daemon.StormCommon;
import org.apache.storm.generated.Bolt;
import org.apache.storm.generated.ComponentCommon;
import org.apache.storm.generated.GlobalStreamId;
import org.apache.storm.generated.Grouping;
import org.apache.storm.generated.InvalidTopologyException;
import org.apache.storm.generated.SpoutSpec;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.task.TopologyContext;

/** A stream of a component and one component that subscribes to it. */
record Edge(String source, String stream, String target, String grouping) {
    /** The edges of a topology by source component, those of ackers and other system components too. */
    static Map<String, List<Edge>> bySource(Map<String, Object> conf, TopologyContext context)
            throws InvalidTopologyException {
        // A hook gets the topology as it was submitted; this adds what Storm adds before it runs it.
        StormTopology topology = StormCommon.systemTopology(conf, context.getRawTopology());
        Map<String, List<Edge>> edges = new HashMap<>();
        for (Map.Entry<String, Bolt> bolt : topology.get_bolts().entrySet()) {
            addInputs(bolt.getKey(), bolt.getValue().get_common(), context, edges);
        }
        for (Map.Entry<String, SpoutSpec> spout : topology.get_spouts().entrySet()) {
            addInputs(spout.getKey(), spout.getValue().get_common(), context, edges);
        }
        edges.values().forEach(list -> list.sort(Comparator.comparing(Edge::stream).thenComparing(Edge::target)));
        return edges;
    }

    private static void addInputs(
            String target, ComponentCommon common, TopologyContext context, Map<String, List<Edge>> edges) {
        if (tasksOf(target, context).isEmpty() || common.get_inputs() == null) {
            return;
        }
        for (Map.Entry<GlobalStreamId, Grouping> input : common.get_inputs().entrySet()) {
            String source = input.getKey().get_componentId();
            edges.computeIfAbsent(source, key -> new ArrayList<>())
                    .add(new Edge(source, input.getKey().get_streamId(), target, nameOf(input.getValue())));
        }
    }

    /** The tasks of a component: none of a component that was left without executors, as ackers can be. */
    static Collection<Integer> tasksOf(String component, TopologyContext context) {
        List<Integer> tasks = context.getComponentTasks(component);
        return tasks == null ? Collections.emptyList() : tasks;
    }

    private static String nameOf(Grouping grouping) {
        boolean global = grouping.is_set_fields() && grouping.get_fields().isEmpty();
        return global ? "global" : grouping.getSetField().name().toLowerCase(Locale.ROOT);
    }
}
