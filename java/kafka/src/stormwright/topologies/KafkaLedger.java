package stormwright.topologies;

import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.kafka.spout.KafkaSpout;
import org.apache.storm.kafka.spout.KafkaSpoutConfig;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.tuple.Fields;

/**
 * The {@link Ledger} whose numbers come from a topic of Kafka, by Storm's own spout with its defaults.
 *
 * <p>Further arguments: {@code broker} (HOST:PORT). The topic and the consumer group have the name of the topology, and
 * the topic has {@code spouts} partitions; {@link KafkaSource} produces the numbers. {@code work} is the CPU time of each
 * number in the bolt between, in µs.
 */
public final class KafkaLedger {
    private KafkaLedger() {
    }

    /** Submits the topology. */
    public static void main(String[] args) {
        Submission.run(args, defaults(), KafkaLedger::build);
    }

    static Map<String, String> defaults() {
        Map<String, String> defaults = Ledger.defaults(Ledger.Kind.DRAIN);
        defaults.put("broker", "");
        defaults.put("work", "0");
        return defaults;
    }

    static StormTopology build(Arguments arguments) {
        String directory = arguments.text("directory");
        int keys = arguments.count("keys", 1);
        int spouts = arguments.count("spouts", 1);
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout("spout", spout(arguments, directory, keys), spouts);
        builder.setBolt("pass", new Ledger.Pass(1_000L * arguments.count("work", 0)), arguments.count("pass", 1)).shuffleGrouping("spout");
        builder.setBolt("sink", new LedgerSink(directory), arguments.count("sink", 1))
                .fieldsGrouping("pass", new Fields("key"));
        LedgerFiles.replace(Path.of(directory, "ledger.properties"),
                List.of("kind=drain", "keys=" + keys, "spouts=" + spouts));
        return builder.createTopology();
    }

    private static KafkaSpout<String, String> spout(Arguments arguments, String directory, int keys) {
        String name = arguments.text("name");
        return new KafkaSpout<>(KafkaSpoutConfig.builder(arguments.text("broker"), name)
                .setGroupId(name)
                .setProcessingGuarantee(KafkaSpoutConfig.ProcessingGuarantee.AT_LEAST_ONCE)
                .setRecordTranslator(new KafkaEmissions(directory, keys))
                .build());
    }
}
