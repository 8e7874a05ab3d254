package stormwright;

import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.storm.Config;
import org.apache.storm.generated.InvalidTopologyException;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.shade.net.minidev.json.JSONValue;
import org.apache.storm.utils.Utils;
import stormwright.bridge.StoredTopology;

/**
 * Reads topologies as Nimbus and supervisors keep them, {@code stormcode.ser} and {@code stormconf.ser}, and prints them as
 * one JSON object: {@code topologies} of a {@code stormwright-problem/1}, and {@code faults}, each with its {@code file},
 * {@code path} and {@code message}.
 *
 * <p>Files are read with Storm's own classes and the {@code storm.meta.serialization.delegate} of its storm.yaml. None of
 * the topology's classes is needed: their objects stay bytes.
 */
public final class TopologyReader {
    private final List<Object> topologies = new ArrayList<>();
    private final List<Object> faults = new ArrayList<>();

    private TopologyReader() {
    }

    /** Arguments: code file, conf file, code file, conf file, and so on. */
    public static void main(String[] args) {
        PrintStream out = RequestLoop.takeStandardOutput();
        out.println(JSONValue.toJSONString(read(args)));
    }

    static Map<String, Object> read(String... files) {
        TopologyReader reader = new TopologyReader();
        for (int i = 0; i + 1 < files.length; i += 2) {
            reader.add(files[i], files[i + 1]);
        }
        return Map.of("topologies", reader.topologies, "faults", reader.faults);
    }

    private void add(String codeFile, String confFile) {
        StormTopology code = parse(codeFile, "a serialized topology",
                bytes -> Utils.deserialize(bytes, StormTopology.class));
        Map<String, Object> conf = parse(confFile, "a serialized configuration (an object in gzipped JSON)", bytes ->
                new LinkedHashMap<>(Utils.fromCompressedJsonConf(bytes)));
        if (conf == null) {
            return;
        }
        if (!(conf.get(Config.TOPOLOGY_NAME) instanceof String name)) {
            fault(confFile, "$[\"" + Config.TOPOLOGY_NAME + "\"]", "required field missing");
            return;
        }
        if (code == null) {
            return;
        }
        String id = conf.get(Config.STORM_ID) instanceof String given ? given : name + "-1-0";
        String owner = conf.get(Config.TOPOLOGY_SUBMITTER_USER) instanceof String user ? user : "";
        try {
            topologies.add(StoredTopology.of(id, conf, code, owner, List.of(), 0).document());
        } catch (InvalidTopologyException e) {
            fault(codeFile, "$", "is no valid topology: " + e.get_msg());
        } catch (RuntimeException e) {
            // Storm's readers of configuration throw what they come across; a value of another type, as a rule.
            fault(confFile, "$", "does not fit the topology: " + reason(e));
        }
    }

    /** What Storm makes of the bytes of a file. */
    private interface Parser<T> {
        T parse(byte[] bytes);
    }

    private <T> T parse(String file, String kind, Parser<T> parser) {
        byte[] bytes;
        try {
            bytes = Files.readAllBytes(Path.of(file));
        } catch (NoSuchFileException e) {
            fault(file, "$", "cannot be read: No such file or directory");
            return null;
        } catch (IOException e) {
            fault(file, "$", "cannot be read: " + e.getMessage());
            return null;
        }
        try {
            return parser.parse(bytes);
        } catch (RuntimeException | OutOfMemoryError e) { // a length in damaged Thrift data may be any number
            fault(file, "$", "is not " + kind + ": " + reason(e));
            return null;
        }
    }

    /** The message of the first cause, which Storm wraps. */
    private static String reason(Throwable e) {
        Throwable cause = e;
        while (cause.getCause() != null) {
            cause = cause.getCause();
        }
        String message = cause.getMessage();
        return message == null ? cause.getClass().getSimpleName() : message.lines().findFirst().orElse(message);
    }

    private void fault(String file, String path, String message) {
        Map<String, Object> fault = new LinkedHashMap<>();
        fault.put("file", file);
        fault.put("path", path);
        fault.put("message", message);
        faults.add(fault);
    }
}
