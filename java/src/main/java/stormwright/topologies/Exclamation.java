package stormwright.topologies;

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

/** Appends exclamation marks to words, twice or three times: the words of a book, shuffled all the way. */
public final class Exclamation {
    private Exclamation() {
    }

    /** Submits the topology. */
    public static void main(String[] args) {
        Map<String, String> defaults =
                Submission.defaults("exclamation", "spouts", "10", "exclaim1", "3", "exclaim2", "2", "exclaim3", "0");
        Submission.run(args, defaults, Exclamation::build);
    }

    static StormTopology build(Arguments arguments) {
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout("word", new BookSpout(BookSpout.Unit.WORD, arguments), arguments.count("spouts", 1));
        builder.setBolt("exclaim1", new Exclaim(), arguments.count("exclaim1", 1)).shuffleGrouping("word");
        builder.setBolt("exclaim2", new Exclaim(), arguments.count("exclaim2", 1)).shuffleGrouping("exclaim1");
        int third = arguments.count("exclaim3", 0);
        if (third > 0) {
            builder.setBolt("exclaim3", new Exclaim(), third).shuffleGrouping("exclaim2");
        }
        return builder.createTopology();
    }

    static final class Exclaim extends BaseRichBolt {
        private transient OutputCollector collector;

        @Override
        public void prepare(Map<String, Object> conf, TopologyContext context, OutputCollector collector) {
            this.collector = collector;
        }

        @Override
        public void execute(Tuple word) {
            collector.emit(word, new Values(word.getString(0) + "!!!"));
            collector.ack(word);
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields("word"));
        }
    }
}
