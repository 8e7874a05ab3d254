package stormwright;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.storm.Config;
import org.apache.storm.daemon.StormCommon;
import org.apache.storm.flux.FluxBuilder;
import org.apache.storm.flux.model.ExecutionContext;
import org.apache.storm.flux.model.TopologyDef;
import org.apache.storm.flux.parser.FluxParser;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.shade.net.minidev.json.JSONValue;
import org.apache.storm.utils.Utils;
import org.apache.storm.validation.ConfigValidation;

/** What Flux and Storm make of each Flux file on standard input: a topology as a line of JSON, or where they fail. */
public final class FluxAnswers {
    private static final String NAME = "^[^/.:\\\\]+$"; // Nimbus.validateTopologyName

    private FluxAnswers() {
    }

    public static void main(String[] args) throws IOException {
        PrintStream out = System.out;
        System.setOut(System.err); // Flux prints there
        BufferedReader files = new BufferedReader(new InputStreamReader(System.in));
        for (String file = files.readLine(); file != null; file = files.readLine()) {
            Map<String, Object> answer = new LinkedHashMap<>();
            try {
                answer.put("topology", topology(file));
            } catch (Throwable e) { // also OutOfMemoryError, of as many executors as an integer can say
                answer.put("error", e.toString().lines().findFirst().orElse(""));
            }
            out.println(JSONValue.toJSONString(answer));
        }
        out.flush();
    }

    private static Object topology(String file) throws Exception {
        TopologyDef read = FluxParser.parseFile(file, false, true, null, false);
        Config conf = FluxBuilder.buildConfig(read);
        StormTopology topology = FluxBuilder.buildTopology(new ExecutionContext(read, conf));
        if (read.getName() == null || !read.getName().matches(NAME)) {
            throw new IllegalArgumentException("name");
        }
        Map<String, Object> submitted = new HashMap<>(conf);
        if (!Utils.isValidConf(submitted)) {
            throw new IllegalArgumentException("configuration is not JSON");
        }
        ConfigValidation.validateTopoConf(submitted);
        StormCommon.validateBasic(topology);
        submitted.put(Config.TOPOLOGY_NAME, read.getName());
        submitted.put(Config.STORM_ID, read.getName() + "-1-0");
        Path code = Files.createTempFile("code", ".ser");
        Path stored = Files.createTempFile("conf", ".ser");
        Files.write(code, Utils.serialize(topology));
        Files.write(stored, Utils.toCompressedJsonConf(submitted));
        Map<String, Object> answer = TopologyReader.read(code.toString(), stored.toString());
        Files.delete(code);
        Files.delete(stored);
        if (!((List<?>) answer.get("faults")).isEmpty()) {
            throw new IllegalArgumentException(answer.get("faults").toString());
        }
        return ((List<?>) answer.get("topologies")).get(0);
    }
}
