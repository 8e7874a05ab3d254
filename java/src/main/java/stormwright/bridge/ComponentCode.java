package stormwright.bridge;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.storm.Config;
import org.apache.storm.daemon.StormCommon;
import org.apache.storm.generated.Bolt;
import org.apache.storm.generated.ComponentObject;
import org.apache.storm.generated.SpoutSpec;
import org.apache.storm.spout.ShellSpout;
import org.apache.storm.task.ShellBolt;

/**
 * The classes of a spout or bolt, and the keys of its configuration, that decide how its topology can be moved.
 *
 * <p>Components are serialized Java objects whose classes Nimbus does not have, so nothing is deserialized: names are
 * read from the class descriptors of the stream.
 */
public final class ComponentCode {
    /** Nimbus reads this in each scheduling round, and the objects that matter come first. */
    static final int MOST_BYTES = 1 << 16;
    static final int MOST_CLASSES = 16;

    private static final List<String> CONF =
            List.of("topology.bolts.", Config.TOPOLOGY_MAX_SPOUT_PENDING, Config.TOPOLOGY_STATE_PROVIDER);
    private static final String STORM = "org.apache.storm.";
    private static final String KAFKA_SPOUT = "org.apache.storm.kafka.spout.KafkaSpout";
    private static final Set<String> SHELLS = Set.of(ShellBolt.class.getName(), ShellSpout.class.getName());
    private static final String WINDOWS = "org.apache.storm.topology.WindowedBoltExecutor";
    private static final List<String> GUARANTEES = List.of("AT_MOST_ONCE", "NO_GUARANTEE", "AT_LEAST_ONCE");
    private static final int CLASS_DESCRIPTOR = 0x72;
    private static final int REFERENCE = 0x71;
    private static final int FIRST_HANDLE = 0x7E;
    private static final int SERIAL_VERSION_BYTES = 8;

    private ComponentCode() {
    }

    /** Whether executors of a part of a topology's structure run a process of another language each. */
    public static boolean isShell(Object component) {
        return of(component).get("classes") instanceof List<?> classes && classes.stream().anyMatch(SHELLS::contains);
    }

    /** The classes of a part of a topology's structure; empty if it is none of Java, or of Storm itself. */
    static Map<String, Object> of(Object component) {
        ComponentObject object = component instanceof SpoutSpec spout ? spout.get_spout_object()
                : component instanceof Bolt bolt ? bolt.get_bolt_object() : null;
        if (object != null && object.is_set_shell()) { // a worker makes one of these for it
            Class<?> shell = component instanceof SpoutSpec ? ShellSpout.class : ShellBolt.class;
            return Map.of("classes", List.of(shell.getName()));
        }
        if (object == null || !object.is_set_serialized_java()) {
            return Map.of();
        }
        byte[] stream = object.get_serialized_java();
        Set<String> names = classes(stream);
        if (names.isEmpty()) {
            return Map.of();
        }
        String outermost = names.iterator().next();
        List<String> listed = new ArrayList<>();
        names.stream().filter(name -> name.equals(outermost) || name.startsWith(STORM)).limit(MOST_CLASSES)
                .forEach(listed::add);
        Map<String, Object> code = new LinkedHashMap<>();
        code.put("classes", listed);
        if (names.contains(WINDOWS) && endsWithReference(stream)) {
            code.put("event_time", true);
        }
        if (names.contains(KAFKA_SPOUT)) { // a class of its own may extend it
            String text = new String(stream, StandardCharsets.ISO_8859_1);
            GUARANTEES.stream().filter(text::contains).findFirst().ifPresent(each -> code.put("guarantee", each));
        }
        return code;
    }

    /** The keys of its own configuration that matter for moves. */
    static Map<String, Object> conf(Object component) {
        Map<String, Object> selected = new TreeMap<>();
        if (component != null) {
            StormCommon.componentConf(component).forEach((key, value) -> {
                if (value != null && CONF.stream().anyMatch(key::startsWith)) {
                    selected.put(key, value);
                }
            });
        }
        return selected;
    }

    /** Names in class descriptors: {@code 0x72}, length, name, serial version, flags; in the order of the stream. */
    private static Set<String> classes(byte[] stream) {
        Set<String> found = new LinkedHashSet<>();
        int end = Math.min(stream.length, MOST_BYTES) - 2;
        for (int at = 0; at < end; at++) {
            if (stream[at] != CLASS_DESCRIPTOR) {
                continue;
            }
            int length = ByteBuffer.wrap(stream, at + 1, 2).getShort() & 0xFFFF;
            int after = at + 3 + length + SERIAL_VERSION_BYTES;
            if (length < 2 || after >= stream.length || (stream[after] & ~0x1F) != 0 || (stream[after] & 0x06) == 0
                    || !isName(stream, at + 3, length)) {
                continue;
            }
            found.add(new String(stream, at + 3, length, StandardCharsets.UTF_8));
            at = after;
        }
        return found;
    }

    private static boolean isName(byte[] stream, int from, int length) {
        if (!Character.isJavaIdentifierStart(stream[from])) {
            return false;
        }
        boolean qualified = false;
        for (int at = from; at < from + length; at++) {
            if (stream[at] == '.') {
                qualified = true;
            } else if (!Character.isJavaIdentifierPart(stream[at] & 0xFF)) {
                return false;
            }
        }
        return qualified;
    }

    /**
     * Whether a windowed bolt has an extractor of timestamps.
     *
     * <p>It is the last field of the executor, and the bolt before it has the same object: so it is a reference there,
     * or null.
     */
    private static boolean endsWithReference(byte[] stream) {
        int at = stream.length - 5;
        return at >= 0 && stream[at] == REFERENCE && stream[at + 1] == 0 && stream[at + 2] == FIRST_HANDLE;
    }
}
