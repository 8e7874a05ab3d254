package stormwright.topologies;

import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.stream.Collectors;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.BoltDeclarer;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.topology.base.BaseRichBolt;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;

/**
 * A topology of a given {@link Shape}: every tuple has a key and {@code bytes} of payload, and costs every bolt
 * {@code work_us} of CPU. The executors of each component are an argument of its name.
 */
public final class Shaped {
    private static final String SHAPE = "shape=";

    private Shaped() {
    }

    /** Submits the topology. */
    public static void main(String[] args) {
        Shape shape = Arrays.stream(args).filter(arg -> arg.startsWith(SHAPE)).reduce((first, last) -> last)
                .flatMap(arg -> Shape.named(arg.substring(SHAPE.length()))).orElse(Shape.LINEAR);
        Submission.run(args, defaults(shape), arguments -> build(shape, arguments));
    }

    static Map<String, String> defaults(Shape shape) {
        Map<String, String> defaults = Submission.defaults(
                shape.text(), "shape", shape.text(), "bytes", "100", "work_us", "0");
        defaults.remove("text");
        shape.components.forEach(
                component -> defaults.put(component.name(), String.valueOf(component.executors())));
        return defaults;
    }

    static StormTopology build(Shape shape, Arguments arguments) {
        if (!arguments.text("shape").equals(shape.text())) {
            String known = Arrays.stream(Shape.values()).map(Shape::text).collect(Collectors.joining(", "));
            throw new IllegalArgumentException("shape=" + arguments.text("shape") + " is none of " + known);
        }
        double rate = arguments.rate("rate") / shape.components.stream().filter(Shape.Component::isSpout).count();
        int bytes = arguments.count("bytes", 0);
        int workUs = arguments.count("work_us", 0);
        TopologyBuilder builder = new TopologyBuilder();
        for (Shape.Component component : shape.components) {
            int executors = arguments.count(component.name(), 1);
            if (component.isSpout()) {
                builder.setSpout(component.name(), new KeySpout(rate, component.keys(), bytes), executors);
                continue;
            }
            BoltDeclarer bolt = builder.setBolt(component.name(), new Step(component, shape, workUs), executors);
            for (String input : component.inputs()) {
                if (component.counts()) {
                    bolt.fieldsGrouping(input, new Fields("key"));
                } else {
                    bolt.shuffleGrouping(input);
                }
            }
        }
        return builder.createTopology();
    }

    /** Tuples with keys that are drawn evenly; the same number has the same key whenever it is emitted. */
    static final class KeySpout extends PacedSpout {
        private final int keys;
        private final byte[] payload;

        KeySpout(double rate, int keys, int bytes) {
            super(rate);
            this.keys = keys;
            payload = new byte[bytes];
        }

        @Override
        Values tuple(long number) {
            return new Values(new SplittableRandom(number).nextInt(keys), payload);
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields("key", "payload"));
        }
    }

    /** A bolt: works, counts keys if it gets tuples by key, and passes on as many as its component does. */
    static final class Step extends BaseRichBolt {
        private final double passing;
        private final int keys;
        private final boolean counts;
        private final long workNs;
        private transient OutputCollector collector;
        private transient Map<Integer, Long> counted;
        private transient double due;

        Step(Shape.Component component, Shape shape, int workUs) {
            passing = shape.feeds(component) ? component.passing() : 0;
            keys = component.keys();
            counts = component.counts();
            workNs = workUs * 1000L;
        }

        @Override
        public void prepare(Map<String, Object> conf, TopologyContext context, OutputCollector collector) {
            this.collector = collector;
            counted = new HashMap<>();
        }

        @Override
        public void execute(Tuple tuple) {
            Work.burn(workNs);
            int key = tuple.getInteger(0);
            if (counts) {
                counted.merge(key, 1L, Long::sum);
            }
            for (due += passing; due >= 1; due--) {
                collector.emit(tuple, new Values(key % keys, tuple.getBinary(1)));
            }
            collector.ack(tuple);
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields("key", "payload"));
        }
    }
}
