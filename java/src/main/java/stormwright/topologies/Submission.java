package stormwright.topologies;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.Function;
import org.apache.storm.StormSubmitter;
import org.apache.storm.generated.StormTopology;

/** What the mains of the benchmark topologies share: read the arguments, build, submit. */
final class Submission {
    private Submission() {
    }

    /** Defaults that every benchmark topology has, and then its own. */
    static Map<String, String> defaults(String name, String... own) {
        Map<String, String> defaults = new LinkedHashMap<>();
        defaults.put("name", name);
        defaults.put("workers", "3");
        defaults.put("ackers", "2");
        defaults.put("pending", "200");
        defaults.put("rate", "0");
        defaults.put("text", "");
        for (int i = 0; i < own.length; i += 2) {
            defaults.put(own[i], own[i + 1]);
        }
        return defaults;
    }

    /** Submits a topology; ends the JVM with code 2 and a sentence if the arguments are wrong or Nimbus refuses. */
    static void run(String[] args, Map<String, String> defaults, Function<Arguments, StormTopology> build) {
        try {
            Arguments arguments = Arguments.parse(args, defaults);
            StormTopology topology = build.apply(arguments);
            StormSubmitter.submitTopology(arguments.text("name"), arguments.stormConf(), topology);
        } catch (Exception e) {
            System.err.println(e.getMessage() == null ? e.toString() : e.getMessage());
            System.exit(2);
        }
    }
}
