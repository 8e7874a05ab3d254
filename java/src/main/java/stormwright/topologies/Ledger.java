package stormwright.topologies;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.storm.Config;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.topology.base.BaseRichBolt;
import org.apache.storm.topology.base.BaseWindowedBolt;
import org.apache.storm.trident.TridentTopology;
import org.apache.storm.trident.operation.builtin.Count;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;

/**
 * Numbered tuples whose fate is on disk: {@code stormwright_lab.chaos.ledger} reads there whether any was lost.
 *
 * <p>{@code directory} is one that all nodes share. Arguments besides those of other topologies: {@code kind},
 * {@code keys} (the key of number n is n modulo this), {@code numbers} (of each spout task, 0 for no end), {@code window}
 * and {@code slide} (in ms, or in tuples with {@code unit=tuples}), and the executors of each component.
 */
public final class Ledger {
    /** Configuration key of the directory. */
    static final String DIRECTORY = "stormwright.ledger.directory";

    private static final String KIND = "kind=";
    private static final String PROPERTIES = "ledger.properties";
    private static final String ID = "id=";

    private Ledger() {
    }

    /** How numbers are processed. */
    enum Kind {
        /** To a sink, by way of a bolt. */
        DRAIN("500", "spouts", "pass", "sink"),
        /** To a bolt with a state that Storm checkpoints, then to a sink. */
        CHECKPOINT("2000", "spouts", "pass", "count", "sink"),
        /** To windows. */
        WINDOW("5000", "spouts", "pass", "windows"),
        /** In batches of Trident, to counts. Pending are batches. */
        BATCH("3", "spouts", "count");

        private final String pending;
        private final List<String> components;

        Kind(String pending, String... components) {
            this.pending = pending;
            this.components = List.of(components);
        }

        /** As arguments name it. */
        String text() {
            return name().toLowerCase(Locale.ROOT);
        }
    }

    /** Submits the topology. */
    public static void main(String[] args) {
        String text = Arrays.stream(args).filter(arg -> arg.startsWith(KIND)).reduce((first, last) -> last)
                .map(arg -> arg.substring(KIND.length())).orElse("");
        Kind kind = Arrays.stream(Kind.values()).filter(each -> each.text().equals(text)).findFirst()
                .orElse(Kind.DRAIN);
        Submission.run(args, defaults(kind), arguments -> build(kind, arguments));
    }

    static Map<String, String> defaults(Kind kind) {
        Map<String, String> defaults = Submission.defaults("ledger", "kind", kind.text(), "directory", "",
                "pending", kind.pending, "rate", "1000", "keys", "64", "numbers", "0");
        defaults.remove("text");
        if (kind == Kind.WINDOW) {
            defaults.putAll(Map.of("window", "2000", "slide", "1000", "unit", "ms"));
        }
        kind.components.forEach(component -> defaults.put(component, "2"));
        return defaults;
    }

    static StormTopology build(Kind kind, Arguments arguments) {
        if (!arguments.text("kind").equals(kind.text())) {
            String known = Arrays.stream(Kind.values()).map(Kind::text).collect(Collectors.joining(", "));
            throw new IllegalArgumentException("kind=" + arguments.text("kind") + " is none of " + known);
        }
        Path directory = Path.of(arguments.text("directory"));
        if (!directory.isAbsolute()) {
            throw new IllegalArgumentException("directory=" + directory + " is not an absolute path of all nodes");
        }
        arguments.configure(DIRECTORY, directory.toString());
        List<String> facts = facts(kind, arguments);
        List<String> there = LedgerFiles.lines(directory.resolve(PROPERTIES));
        String id = there.isEmpty() ? UUID.randomUUID().toString() : idOf(there, facts, directory);
        StormTopology topology = kind == Kind.BATCH ? batches(arguments, id) : stream(kind, arguments);
        if (there.isEmpty()) {
            facts.add(ID + id);
            LedgerFiles.replace(directory.resolve(PROPERTIES), facts);
        }
        return topology;
    }

    private static StormTopology stream(Kind kind, Arguments arguments) {
        String directory = arguments.text("directory");
        int keys = arguments.count("keys", 1);
        Fields key = new Fields("key");
        TopologyBuilder builder = new TopologyBuilder();
        LedgerSpout spout =
                new LedgerSpout(directory, arguments.rate("rate"), arguments.count("numbers", 0), keys);
        builder.setSpout("spout", spout, arguments.count("spouts", 1));
        builder.setBolt("pass", new Pass(), arguments.count("pass", 1)).shuffleGrouping("spout");
        String last = "pass";
        if (kind == Kind.CHECKPOINT) {
            arguments.configure(Config.TOPOLOGY_STATE_PROVIDER, FileStateProvider.class.getName());
            // Storm does not register what its own checkpoint tuples hold, and does not fall back on Java serialization.
            arguments.configure(Config.TOPOLOGY_KRYO_REGISTER, List.of("org.apache.storm.spout.CheckPointState$Action"));
            builder.setBolt("count", new LedgerCount(keys), arguments.count("count", 1)).fieldsGrouping(last, key);
            last = "count";
        }
        if (kind == Kind.WINDOW) {
            builder.setBolt("window", window(arguments), arguments.count("windows", 1)).fieldsGrouping(last, key);
        } else {
            builder.setBolt("sink", new LedgerSink(directory), arguments.count("sink", 1)).fieldsGrouping(last, key);
        }
        return builder.createTopology();
    }

    private static BaseWindowedBolt window(Arguments arguments) {
        int length = arguments.count("window", 1);
        int slide = arguments.count("slide", 1);
        BaseWindowedBolt bolt = new LedgerWindow(arguments.text("directory"));
        return switch (arguments.text("unit")) {
            case "ms" -> bolt.withWindow(new BaseWindowedBolt.Duration(length, TimeUnit.MILLISECONDS),
                    new BaseWindowedBolt.Duration(slide, TimeUnit.MILLISECONDS));
            case "tuples" -> bolt.withWindow(new BaseWindowedBolt.Count(length), new BaseWindowedBolt.Count(slide));
            default -> throw new IllegalArgumentException("unit=" + arguments.text("unit") + " is none of ms, tuples");
        };
    }

    /** Trident keeps its transactions in ZooKeeper by the id: another ledger begins with the first one. */
    private static StormTopology batches(Arguments arguments, String id) {
        String directory = arguments.text("directory");
        int spouts = arguments.count("spouts", 1);
        LedgerBatches spout = new LedgerBatches(directory, arguments.rate("rate"), arguments.count("numbers", 0),
                arguments.count("keys", 1), spouts);
        TridentTopology topology = new TridentTopology();
        topology.newStream("ledger-" + id, spout).parallelismHint(spouts)
                .groupBy(new Fields("key"))
                .persistentAggregate(FileCounts.factory(directory), new Count(), new Fields("count"))
                .parallelismHint(arguments.count("count", 1));
        return topology.build();
    }

    /** The lines that a reader needs. */
    private static List<String> facts(Kind kind, Arguments arguments) {
        List<String> names = new ArrayList<>(List.of("kind", "keys", "spouts"));
        if (kind == Kind.WINDOW) {
            names.addAll(List.of("window", "slide", "unit"));
        }
        if (kind.components.contains("count")) {
            names.add("count");
        }
        return names.stream().map(name -> name + "=" + arguments.text(name)).collect(Collectors.toCollection(ArrayList::new));
    }

    private static String idOf(List<String> there, List<String> facts, Path directory) {
        if (!there.subList(0, there.size() - 1).equals(facts)) {
            throw new IllegalArgumentException("directory=" + directory + " holds another ledger ("
                    + String.join(", ", there) + "); name an empty directory to begin a new one");
        }
        return there.get(there.size() - 1).substring(ID.length());
    }

    /** Passes tuples on, with so much work for each. */
    static final class Pass extends BaseRichBolt {
        private final long workNs;
        private transient OutputCollector collector;

        Pass() {
            this(0);
        }

        Pass(long workNs) {
            this.workNs = workNs;
        }

        @Override
        public void prepare(Map<String, Object> conf, TopologyContext context, OutputCollector collector) {
            this.collector = collector;
        }

        @Override
        public void execute(Tuple tuple) {
            Work.burn(workNs);
            collector.emit(tuple, new Values(tuple.getValues().toArray()));
            collector.ack(tuple);
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(Emission.FIELDS);
        }
    }
}
