package stormwright.bridge;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.storm.daemon.Acker;
import org.apache.storm.daemon.StormCommon;
import org.apache.storm.generated.ComponentCommon;
import org.apache.storm.generated.GlobalStreamId;
import org.apache.storm.generated.Grouping;
import org.apache.storm.generated.SharedMemory;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.TopologyDetails;
import org.apache.storm.utils.Utils;

/** The components of a topology as {@code stormwright-problem/1} has them. */
final class ComponentDocuments {
    private final TopologyDetails topology;
    private final Map<String, Object> declared;
    private final Map<String, List<ExecutorDetails>> executors = new TreeMap<>();

    ComponentDocuments(TopologyDetails topology, List<ExecutorDetails> order) {
        this.topology = topology;
        StormTopology structure = topology.getTopology();
        this.declared = structure == null ? Map.of() : StormCommon.allComponents(structure);
        for (ExecutorDetails executor : order) {
            String component = topology.getComponentFromExecutor(executor);
            executors.computeIfAbsent(component, key -> new ArrayList<>()).add(executor);
        }
    }

    /** The names of all components that have executors, in the order of {@link #documents}. */
    List<String> names() {
        return List.copyOf(executors.keySet());
    }

    List<Map<String, Object>> documents() {
        List<Map<String, Object>> documents = new ArrayList<>();
        executors.forEach((name, own) -> {
            Map<String, Object> document = new LinkedHashMap<>();
            document.put("id", name);
            document.put("type", typeOf(name));
            document.put("parallelism", own.size());
            document.put("inputs", inputsOf(name));
            document.put("resources", Snapshot.resources(topology.getTotalResources(own.get(0))));
            List<Map<String, Object>> shared = sharedMemoryOf(own);
            if (!shared.isEmpty()) {
                document.put("shared_memory", shared);
            }
            List<String> tags = List.copyOf(Tags.ofComponent(declared.get(name)));
            if (!tags.isEmpty()) {
                document.put("tags", tags);
            }
            Map<String, Object> conf = ComponentCode.conf(declared.get(name));
            if (!conf.isEmpty()) {
                document.put("conf", conf);
            }
            Map<String, Object> code = ComponentCode.of(declared.get(name));
            if (!code.isEmpty()) {
                document.put("code", code);
            }
            documents.add(document);
        });
        return documents;
    }

    /** Regions that executors of a worker or node have together, by name; amounts in MB. */
    private List<Map<String, Object>> sharedMemoryOf(List<ExecutorDetails> own) {
        List<SharedMemory> regions = new ArrayList<>(topology.getSharedMemoryRequests(own));
        regions.sort(Comparator.comparing(SharedMemory::get_name));
        List<Map<String, Object>> documents = new ArrayList<>();
        for (SharedMemory region : regions) {
            Map<String, Object> document = new LinkedHashMap<>();
            document.put("name", region.get_name());
            if (region.is_set_on_heap()) {
                document.put("on_heap", region.get_on_heap());
            }
            if (region.is_set_off_heap_worker()) {
                document.put("off_heap_worker", region.get_off_heap_worker());
            }
            if (region.is_set_off_heap_node()) {
                document.put("off_heap_node", region.get_off_heap_node());
            }
            documents.add(document);
        }
        return documents;
    }

    private String typeOf(String name) {
        if (Utils.isSystemId(name)) {
            return "system";
        }
        StormTopology structure = topology.getTopology();
        return structure != null && structure.get_spouts().containsKey(name) ? "spout" : "bolt";
    }

    private List<Map<String, Object>> inputsOf(String name) {
        if (name.equals(Acker.ACKER_COMPONENT_ID)) {
            return ackerInputs();
        }
        List<Map<String, Object>> inputs = new ArrayList<>();
        ComponentCommon common = StormCommon.getComponentCommon(declared.get(name));
        Map<GlobalStreamId, Grouping> subscriptions =
                common == null || common.get_inputs() == null ? Map.of() : new TreeMap<>(common.get_inputs());
        subscriptions.forEach((stream, grouping) -> {
            if (executors.containsKey(stream.get_componentId())) {
                inputs.add(input(stream.get_componentId(), stream.get_streamId(), grouping));
            }
        });
        return inputs;
    }

    /** An acker hears of every tree and of every ack; its other inputs are silent in the ordinary run. */
    private List<Map<String, Object>> ackerInputs() {
        Set<String> spouts = topology.getTopology() == null ? Set.of() : topology.getTopology().get_spouts().keySet();
        List<Map<String, Object>> inputs = new ArrayList<>();
        for (String source : executors.keySet()) {
            if (!Utils.isSystemId(source)) {
                String stream = spouts.contains(source) ? Acker.ACKER_INIT_STREAM_ID : Acker.ACKER_ACK_STREAM_ID;
                inputs.add(input(source, stream, Grouping.fields(List.of("id"))));
            }
        }
        return inputs;
    }

    private static Map<String, Object> input(String source, String stream, Grouping grouping) {
        Map<String, Object> document = new LinkedHashMap<>();
        document.put("from", source);
        document.put("stream", stream);
        if (grouping.is_set_fields() && !grouping.get_fields().isEmpty()) {
            document.put("grouping", "fields");
            document.put("fields", grouping.get_fields());
        } else {
            // Storm writes a global grouping as one by no fields.
            document.put("grouping",
                    grouping.is_set_fields() ? "global" : grouping.getSetField().name().toLowerCase(Locale.ROOT));
        }
        return document;
    }
}
