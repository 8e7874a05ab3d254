package stormwright.topologies;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.storm.Config;
import org.apache.storm.shade.net.minidev.json.parser.JSONParser;
import org.apache.storm.shade.net.minidev.json.parser.ParseException;

/**
 * The {@code key=value} arguments of a benchmark topology, laid over its defaults.
 *
 * <p>{@code conf.KEY=JSON} sets any Storm configuration key, {@code probe=false} leaves the probe out and
 * {@code probe.KEY=VALUE} sets {@code stormwright.probe.KEY}. All faults of a command line are reported at once.
 */
final class Arguments {
    private static final String CONF = "conf.";
    private static final String PROBE = "probe.";
    private static final String PROBE_CLASS = "stormwright.ExecutorProbe";

    private final Map<String, String> values;
    private final Map<String, Object> conf = new LinkedHashMap<>();
    private final List<String> faults = new ArrayList<>();

    private Arguments(Map<String, String> defaults) {
        values = new LinkedHashMap<>(defaults);
        values.putIfAbsent("probe", "true");
    }

    /**
     * Reads a command line.
     *
     * @throws IllegalArgumentException naming every argument that is not understood
     */
    static Arguments parse(String[] args, Map<String, String> defaults) {
        Arguments parsed = new Arguments(defaults);
        for (String arg : args) {
            parsed.read(arg);
        }
        parsed.refuseFaults();
        return parsed;
    }

    private void read(String arg) {
        int equals = arg.indexOf('=');
        String key = equals < 0 ? arg : arg.substring(0, equals);
        String value = arg.substring(equals + 1);
        if (equals < 0) {
            faults.add("'" + arg + "' is not key=value");
        } else if (key.startsWith(CONF)) {
            readConf(key.substring(CONF.length()), value);
        } else if (key.startsWith(PROBE)) {
            conf.put("stormwright." + key, value);
        } else if (values.containsKey(key)) {
            values.put(key, value);
        } else {
            String known = String.join(", ", values.keySet());
            faults.add("there is no '" + key + "', only " + known + ", conf.KEY, probe.KEY");
        }
    }

    private void readConf(String key, String json) {
        try {
            conf.put(key, new JSONParser(JSONParser.MODE_RFC4627).parse(json));
        } catch (ParseException e) {
            faults.add("the value of conf." + key + " is not JSON: " + json + " (a text needs its quotes)");
        }
    }

    private void refuseFaults() {
        if (!faults.isEmpty()) {
            throw new IllegalArgumentException(String.join("; ", faults));
        }
    }

    String text(String key) {
        return values.get(key);
    }

    int count(String key, int atLeast) {
        try {
            int count = Integer.parseInt(values.get(key));
            if (count >= atLeast) {
                return count;
            }
        } catch (NumberFormatException e) {
            // said below, in the same words as a number that is too small
        }
        throw new IllegalArgumentException(key + "=" + values.get(key) + " is not a number of at least " + atLeast);
    }

    double rate(String key) {
        try {
            double rate = Double.parseDouble(values.get(key));
            if (rate >= 0 && Double.isFinite(rate)) {
                return rate;
            }
        } catch (NumberFormatException e) {
            // said below
        }
        throw new IllegalArgumentException(key + "=" + values.get(key) + " is not a rate per second (0 = unlimited)");
    }

    /** Sets a configuration key, unless the command line does. */
    void configure(String key, Object value) {
        conf.putIfAbsent(key, value);
    }

    /** The topology's configuration: ours, then whatever {@code conf.KEY} says. */
    Config stormConf() {
        Config result = new Config();
        result.setNumWorkers(count("workers", 1));
        result.setNumAckers(count("ackers", 0));
        result.setMaxSpoutPending(count("pending", 1));
        result.putAll(WAIT_STRATEGIES);
        if (Boolean.parseBoolean(text("probe"))) {
            result.put(Config.TOPOLOGY_AUTO_TASK_HOOKS, List.of(PROBE_CLASS));
        }
        result.putAll(conf);
        return result;
    }

    /**
     * Storm's idle bolts wake up a thousand times without sleeping before they sleep: on a machine with fewer cores
     * than executors that takes CPU time from those that have work. Ours sleep after 25, some 1.5 ms.
     */
    private static final Map<String, Object> WAIT_STRATEGIES = Map.of(
            Config.TOPOLOGY_BOLT_WAIT_PROGRESSIVE_LEVEL1_COUNT, 0,
            Config.TOPOLOGY_BOLT_WAIT_PROGRESSIVE_LEVEL2_COUNT, 25,
            Config.TOPOLOGY_BOLT_WAIT_PROGRESSIVE_LEVEL3_SLEEP_MILLIS, 1,
            Config.TOPOLOGY_BACKPRESSURE_WAIT_PROGRESSIVE_LEVEL1_COUNT, 0,
            Config.TOPOLOGY_BACKPRESSURE_WAIT_PROGRESSIVE_LEVEL2_COUNT, 25,
            Config.TOPOLOGY_BACKPRESSURE_WAIT_PROGRESSIVE_LEVEL3_SLEEP_MILLIS, 1,
            Config.TOPOLOGY_SPOUT_WAIT_PROGRESSIVE_LEVEL1_COUNT, 0,
            Config.TOPOLOGY_SPOUT_WAIT_PROGRESSIVE_LEVEL2_COUNT, 0,
            Config.TOPOLOGY_SPOUT_WAIT_PROGRESSIVE_LEVEL3_SLEEP_MILLIS, 1);
}
