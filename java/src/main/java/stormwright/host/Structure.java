package stormwright.host;

import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.storm.Config;
import org.apache.storm.generated.Bolt;
import org.apache.storm.generated.ComponentCommon;
import org.apache.storm.generated.ComponentObject;
import org.apache.storm.generated.GlobalStreamId;
import org.apache.storm.generated.Grouping;
import org.apache.storm.generated.JavaObject;
import org.apache.storm.generated.NullStruct;
import org.apache.storm.generated.SharedMemory;
import org.apache.storm.generated.SpoutSpec;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.generated.StreamInfo;
import org.apache.storm.scheduler.resource.normalization.NormalizedResourceRequest;
import org.apache.storm.shade.net.minidev.json.JSONValue;

/**
 * The components of a topology as the user submitted them, without code.
 *
 * <p>Storm shows a scheduler no system components in here, and its default resources hold for them; so they are left out
 * unless the problem gives one others than these. Then it is a bolt without inputs, which Storm's classes know to be none
 * of the user's by its name.
 */
final class Structure {
    private final Map<String, Object> conf;
    private final Map<String, SpoutSpec> spouts = new HashMap<>();
    private final Map<String, Bolt> bolts = new HashMap<>();
    private final Map<String, Map<String, StreamInfo>> streams = new HashMap<>();
    private final Map<String, SharedMemory> sharedMemory = new HashMap<>();
    private final Map<String, Set<String>> sharedMemoryOf = new HashMap<>();

    private Structure(Map<String, Object> conf) {
        this.conf = conf;
    }

    /** The topology of {@code components}; {@code tasks} of each by its index. */
    static StormTopology of(List<Fields> components, int[] tasks, Map<String, Object> conf) {
        Structure structure = new Structure(conf);
        Set<String> users = new HashSet<>();
        for (Fields component : components) {
            if (!isSystem(component)) {
                users.add(component.text("id"));
                structure.streams.put(component.text("id"), new HashMap<>(Map.of("default", stream(false))));
            }
        }
        components.forEach(component -> structure.declareStreams(component, users));
        for (int i = 0; i < tasks.length; i++) {
            structure.add(components.get(i), tasks[i], users);
        }
        StormTopology topology = new StormTopology(structure.spouts, structure.bolts, new HashMap<>());
        if (!structure.sharedMemory.isEmpty()) {
            topology.set_shared_memory(structure.sharedMemory);
            topology.set_component_to_shared_memory(structure.sharedMemoryOf);
        }
        return topology;
    }

    private static boolean isSystem(Fields component) {
        return component.text("type").equals("system");
    }

    private static StreamInfo stream(boolean direct) {
        return new StreamInfo(List.of("field"), direct);
    }

    private void declareStreams(Fields component, Set<String> users) {
        for (Fields input : component.objects("inputs")) {
            if (users.contains(input.text("from"))) {
                boolean direct = input.text("grouping").equals("direct");
                streams.get(input.text("from")).putIfAbsent(input.text("stream", "default"), stream(direct));
            }
        }
    }

    private void add(Fields component, int tasks, Set<String> users) {
        String id = component.text("id");
        Map<GlobalStreamId, Grouping> inputs = new HashMap<>();
        if (users.contains(id)) {
            for (Fields input : component.objects("inputs")) {
                if (users.contains(input.text("from"))) {
                    inputs.put(new GlobalStreamId(input.text("from"), input.text("stream", "default")), grouping(input));
                }
            }
        }
        ComponentCommon common = new ComponentCommon(inputs, streams.getOrDefault(id, new HashMap<>()));
        common.set_parallelism_hint(component.integer("parallelism"));
        common.set_json_conf(JSONValue.toJSONString(componentConf(component, tasks)));
        if (!users.contains(id) && !hasResourcesOfItsOwn(component, common)) {
            return;
        }
        if (component.text("type").equals("spout")) {
            spouts.put(id, new SpoutSpec(noCode(), common));
        } else {
            bolts.put(id, new Bolt(noCode(), common));
        }
        for (Fields region : component.objects("shared_memory")) {
            addSharedMemory(id, region);
        }
    }

    private static ComponentObject noCode() {
        return ComponentObject.serialized_java(ByteBuffer.wrap(new byte[0]));
    }

    private static Map<String, Object> componentConf(Fields component, int tasks) {
        Map<String, Object> own = new HashMap<>();
        own.put(Config.TOPOLOGY_TASKS, tasks);
        Map<String, Double> resources = component.amounts("resources");
        if (!resources.isEmpty()) {
            own.put(Config.TOPOLOGY_COMPONENT_RESOURCES_MAP, resources);
        }
        if (!component.list("tags").isEmpty()) {
            own.put("tags", component.texts("tags"));
        }
        return own;
    }

    private boolean hasResourcesOfItsOwn(Fields component, ComponentCommon common) {
        String id = component.text("id");
        Map<String, Double> usual = new NormalizedResourceRequest(conf, id).toNormalizedMap();
        return !usual.equals(new NormalizedResourceRequest(common, conf, id).toNormalizedMap());
    }

    private static Grouping grouping(Fields input) {
        String kind = input.text("grouping");
        return switch (kind) {
            case "shuffle" -> Grouping.shuffle(new NullStruct());
            case "local_or_shuffle" -> Grouping.local_or_shuffle(new NullStruct());
            case "none" -> Grouping.none(new NullStruct());
            case "all" -> Grouping.all(new NullStruct());
            case "direct" -> Grouping.direct(new NullStruct());
            // Storm writes a global grouping as one by no fields, so a fields grouping needs one even if it is not told.
            case "global" -> Grouping.fields(List.of());
            case "fields" -> Grouping.fields(input.list("fields").isEmpty() ? List.of("field") : input.texts("fields"));
            case "custom_object" -> Grouping.custom_object(new JavaObject("unknown", List.of()));
            case "custom", "custom_serialized" -> Grouping.custom_serialized(ByteBuffer.wrap(new byte[0]));
            default -> throw new IllegalArgumentException(input.path() + ".grouping is " + kind + ", which Storm has not");
        };
    }

    private void addSharedMemory(String component, Fields region) {
        String name = region.text("name");
        Map<String, Object> amounts = region.conf();
        SharedMemory shared = new SharedMemory(name);
        shared.set_on_heap(amount(amounts, "on_heap"));
        shared.set_off_heap_worker(amount(amounts, "off_heap_worker"));
        shared.set_off_heap_node(amount(amounts, "off_heap_node"));
        SharedMemory other = sharedMemory.putIfAbsent(name, shared);
        if (other != null && !other.equals(shared)) {
            throw new IllegalArgumentException(region.path() + ": shared memory " + name + " has two sizes");
        }
        sharedMemoryOf.computeIfAbsent(component, key -> new HashSet<>()).add(name);
    }

    private static double amount(Map<String, Object> amounts, String key) {
        return amounts.get(key) instanceof Number number ? number.doubleValue() : 0.0;
    }
}
