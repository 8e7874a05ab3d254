package stormwright.topologies;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
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

/** Counts the words of a book: sentences, shuffled to splitters, their words by field to counters. */
public final class WordCount {
    private WordCount() {
    }

    /** Submits the topology. */
    public static void main(String[] args) {
        Map<String, String> defaults = Submission.defaults("word-count", "spouts", "2", "split", "4", "count", "4");
        Submission.run(args, defaults, WordCount::build);
    }

    static StormTopology build(Arguments arguments) {
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout("spout", new BookSpout(BookSpout.Unit.SENTENCE, arguments), arguments.count("spouts", 1));
        builder.setBolt("split", new Split(), arguments.count("split", 1)).shuffleGrouping("spout");
        builder.setBolt("count", new Count(), arguments.count("count", 1)).fieldsGrouping("split", new Fields("word"));
        return builder.createTopology();
    }

    static final class Split extends BaseRichBolt {
        private transient OutputCollector collector;
        private transient List<String> words;

        @Override
        public void prepare(Map<String, Object> conf, TopologyContext context, OutputCollector collector) {
            this.collector = collector;
            words = new ArrayList<>();
        }

        @Override
        public void execute(Tuple sentence) {
            words.clear();
            Book.addWords(sentence.getString(0), words);
            for (String word : words) {
                collector.emit(sentence, new Values(word));
            }
            collector.ack(sentence);
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields("word"));
        }
    }

    static final class Count extends BaseRichBolt {
        private transient OutputCollector collector;
        private transient Map<String, Long> counts;

        @Override
        public void prepare(Map<String, Object> conf, TopologyContext context, OutputCollector collector) {
            this.collector = collector;
            counts = new HashMap<>();
        }

        @Override
        public void execute(Tuple word) {
            counts.merge(word.getString(0), 1L, Long::sum);
            collector.ack(word);
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            // the end of the line
        }
    }
}
