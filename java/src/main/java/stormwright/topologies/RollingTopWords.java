package stormwright.topologies;

import java.util.ArrayDeque;
import java.util.Comparator;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.storm.Config;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.topology.base.BaseRichBolt;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;
import org.apache.storm.utils.TupleUtils;

/**
 * The most frequent words of a sliding window: words by field to rolling counters, counts by field to rankers, their
 * rankings to one that merges them.
 */
public final class RollingTopWords {
    private static final int COUNT_EVERY_S = 3;
    private static final int RANK_EVERY_S = 2;

    private RollingTopWords() {
    }

    /** Submits the topology. */
    public static void main(String[] args) {
        Map<String, String> defaults = Submission.defaults("rolling-top-words",
                "spouts", "5", "count", "4", "rank", "4", "window", "9", "top", "10");
        Submission.run(args, defaults, RollingTopWords::build);
    }

    static StormTopology build(Arguments arguments) {
        int slots = Math.max(1, arguments.count("window", COUNT_EVERY_S) / COUNT_EVERY_S);
        int top = arguments.count("top", 1);
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout("word", new BookSpout(BookSpout.Unit.WORD, arguments), arguments.count("spouts", 1));
        builder.setBolt("count", new RollingCount(slots), arguments.count("count", 1))
                .fieldsGrouping("word", new Fields("word"));
        builder.setBolt("rank", new Rank(top), arguments.count("rank", 1)).fieldsGrouping("count", new Fields("word"));
        builder.setBolt("total", new Rank(top), 1).globalGrouping("rank");
        return builder.createTopology();
    }

    /** Counts words over the last slots of {@value #COUNT_EVERY_S} s; at each tick it emits the counts of all. */
    static final class RollingCount extends BaseRichBolt {
        private final int slots;
        private transient OutputCollector collector;
        private transient Deque<Map<String, Long>> window;

        RollingCount(int slots) {
            this.slots = slots;
        }

        @Override
        public void prepare(Map<String, Object> conf, TopologyContext context, OutputCollector collector) {
            this.collector = collector;
            window = new ArrayDeque<>();
            window.add(new HashMap<>());
        }

        @Override
        public void execute(Tuple tuple) {
            if (TupleUtils.isTick(tuple)) {
                emitCounts();
                window.addLast(new HashMap<>());
                if (window.size() > slots) {
                    window.removeFirst();
                }
            } else {
                window.getLast().merge(tuple.getString(0), 1L, Long::sum);
            }
            collector.ack(tuple);
        }

        private void emitCounts() {
            Map<String, Long> counts = new HashMap<>();
            window.forEach(slot -> slot.forEach((word, count) -> counts.merge(word, count, Long::sum)));
            counts.forEach((word, count) -> collector.emit(new Values(word, count)));
        }

        @Override
        public Map<String, Object> getComponentConfiguration() {
            return Map.of(Config.TOPOLOGY_TICK_TUPLE_FREQ_SECS, COUNT_EVERY_S);
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields("word", "count"));
        }
    }

    /** Keeps the latest count of each word; at each tick it emits the words at the top and forgets the others. */
    static final class Rank extends BaseRichBolt {
        private final int top;
        private transient OutputCollector collector;
        private transient Map<String, Long> counts;

        Rank(int top) {
            this.top = top;
        }

        @Override
        public void prepare(Map<String, Object> conf, TopologyContext context, OutputCollector collector) {
            this.collector = collector;
            counts = new HashMap<>();
        }

        @Override
        public void execute(Tuple tuple) {
            if (TupleUtils.isTick(tuple)) {
                List<Map.Entry<String, Long>> ranking = counts.entrySet().stream()
                        .sorted(Map.Entry.<String, Long>comparingByValue(Comparator.reverseOrder())
                                .thenComparing(Map.Entry.comparingByKey()))
                        .limit(top).map(Map.Entry::copyOf).toList();
                counts.clear();
                ranking.forEach(entry -> counts.put(entry.getKey(), entry.getValue()));
                counts.forEach((word, count) -> collector.emit(new Values(word, count)));
            } else {
                counts.put(tuple.getString(0), tuple.getLong(1));
            }
            collector.ack(tuple);
        }

        @Override
        public Map<String, Object> getComponentConfiguration() {
            return Map.of(Config.TOPOLOGY_TICK_TUPLE_FREQ_SECS, RANK_EVERY_S);
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields("word", "count"));
        }
    }
}
