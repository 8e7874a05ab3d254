package stormwright.topologies;

import java.util.HashMap;
import java.util.Map;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.topology.base.BaseRichBolt;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;

/**
 * The reference topology of Aniello, Baldoni and Querzoni (DEBS 2013, section 4): a chain of simple bolts (shuffle)
 * and stateful bolts (fields) in turn, ended by a bolt that acks.
 *
 * <p>{@code stages} counts the bolts before the last, {@code replication} the executors of each component. The key of
 * a tuple is a word of a book, so keys are skewed as words are; the paper's own values are not known to us.
 */
public final class Reference {
    private static final String[] FIELDS = {"key", "payload"};

    private Reference() {
    }

    /** Submits the topology. */
    public static void main(String[] args) {
        Map<String, String> defaults =
                Submission.defaults("reference", "stages", "6", "replication", "2", "payload", "100");
        Submission.run(args, defaults, Reference::build);
    }

    static StormTopology build(Arguments arguments) {
        int replication = arguments.count("replication", 1);
        int stages = arguments.count("stages", 1);
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout("spout", new BookSpout(BookSpout.Unit.WORD, arguments), replication);
        builder.setBolt("simple-1", new Attach(arguments.count("payload", 0)), replication).shuffleGrouping("spout");
        String last = "simple-1";
        for (int stage = 2; stage <= stages; stage++) {
            boolean stateful = stage % 2 == 0;
            String name = (stateful ? "stateful-" : "simple-") + stage;
            if (stateful) {
                builder.setBolt(name, new Stateful(), replication).fieldsGrouping(last, new Fields(FIELDS[0]));
            } else {
                builder.setBolt(name, new Simple(), replication).shuffleGrouping(last);
            }
            last = name;
        }
        builder.setBolt("ack", new Ack(), replication).shuffleGrouping(last);
        return builder.createTopology();
    }

    /** A bolt that passes a tuple on, and acks it where it is anchored to the next. */
    abstract static class Link extends BaseRichBolt {
        private transient OutputCollector collector;

        @Override
        public void prepare(Map<String, Object> conf, TopologyContext context, OutputCollector collector) {
            this.collector = collector;
        }

        @Override
        public void execute(Tuple tuple) {
            collector.emit(tuple, next(tuple));
            collector.ack(tuple);
        }

        abstract Values next(Tuple tuple);

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields(FIELDS));
        }
    }

    /** The first bolt: gives a word its payload. */
    static final class Attach extends Link {
        private final String payload;

        Attach(int characters) {
            payload = "x".repeat(characters);
        }

        @Override
        Values next(Tuple word) {
            return new Values(word.getString(0), payload);
        }
    }

    static final class Simple extends Link {
        @Override
        Values next(Tuple tuple) {
            return new Values(tuple.getString(0), tuple.getString(1));
        }
    }

    /** Counts how often each key came by. */
    static final class Stateful extends Link {
        private transient Map<String, Long> counts;

        @Override
        public void prepare(Map<String, Object> conf, TopologyContext context, OutputCollector collector) {
            super.prepare(conf, context, collector);
            counts = new HashMap<>();
        }

        @Override
        Values next(Tuple tuple) {
            counts.merge(tuple.getString(0), 1L, Long::sum);
            return new Values(tuple.getString(0), tuple.getString(1));
        }
    }

    /** The end of the chain. */
    static final class Ack extends BaseRichBolt {
        private transient OutputCollector collector;

        @Override
        public void prepare(Map<String, Object> conf, TopologyContext context, OutputCollector collector) {
            this.collector = collector;
        }

        @Override
        public void execute(Tuple tuple) {
            collector.ack(tuple);
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            // nothing comes after it
        }
    }
}
