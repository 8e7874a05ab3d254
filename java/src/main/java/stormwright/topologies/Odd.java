package stormwright.topologies;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Collectors;
import org.apache.storm.Config;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.ShellBolt;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.BoltDeclarer;
import org.apache.storm.topology.IRichBolt;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.topology.WindowedBoltExecutor;
import org.apache.storm.topology.base.BaseRichBolt;
import org.apache.storm.topology.base.BaseWindowedBolt;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;
import org.apache.storm.windowing.TupleWindow;

/**
 * Topologies with one oddity each, as others run them: {@code source} to {@code step} to {@code sink}. {@code kind} names
 * the oddity.
 */
public final class Odd {
    private static final String KIND = "kind=";
    private static final int KEYS = 1000;

    /** What is odd. */
    enum Kind {
        /** Tuples hold objects of a class that is not registered with Kryo: they cannot leave their worker. */
        UNREGISTERED,
        /** The sink acks nothing: every tree times out. */
        NEVER_ACKING,
        /** The sink fails each twentieth tuple. */
        FAILING,
        /** The step waits for something else, 5 ms for each tuple, and uses no CPU meanwhile. */
        BLOCKING,
        /** Nine of ten tuples have the same key, by which they are grouped. */
        SKEWED,
        /** All tuples of four seconds come in the first of them. */
        BURSTS,
        /** Payloads of 20,000 bytes. */
        LARGE,
        /** The step emits the counts of a sliding window, once a second, and anchors them to nothing. */
        WINDOW,
        /** Two sources, whose tuples the step joins by key. */
        JOIN,
        /** The step is a process of another language. */
        MULTILANG,
        /** The step needs something that only the node has on which it ran first; the file {@code home} names that. */
        BOUND;

        String text() {
            return name().toLowerCase(Locale.ROOT).replace('_', '-');
        }
    }

    private Odd() {
    }

    /** Submits the topology. */
    public static void main(String[] args) {
        Submission.run(args, defaults(args), Odd::build);
    }

    static Map<String, String> defaults(String... args) {
        String named = Arrays.stream(args).filter(arg -> arg.startsWith(KIND)).reduce((first, last) -> last)
                .map(arg -> arg.substring(KIND.length())).orElse(Kind.UNREGISTERED.text());
        Map<String, String> defaults = Submission.defaults("odd-" + named, "kind", named, "source", "1", "step", "3",
                "sink", "2", "work_us", "20");
        defaults.remove("text");
        defaults.put("home", "");
        if (Set.of(Kind.UNREGISTERED.text(), Kind.BOUND.text()).contains(named)) {
            defaults.put("workers", "1");
        }
        return defaults;
    }

    static StormTopology build(Arguments arguments) {
        String named = arguments.text("kind");
        Kind kind = Arrays.stream(Kind.values()).filter(each -> each.text().equals(named)).findFirst()
                .orElseThrow(() -> new IllegalArgumentException("kind=" + named + " is none of "
                        + Arrays.stream(Kind.values()).map(Kind::text).collect(Collectors.joining(", "))));
        double rate = arguments.rate("rate");
        int workUs = arguments.count("work_us", 0);
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout("source", new Source(kind, rate), arguments.count("source", 1));
        if (kind == Kind.JOIN) {
            builder.setSpout("other", new Source(kind, rate), arguments.count("source", 1));
        }
        BoltDeclarer step = builder.setBolt("step", stepOf(kind, workUs, arguments.text("home")), arguments.count("step", 1));
        if (kind == Kind.SKEWED || kind == Kind.WINDOW || kind == Kind.JOIN) {
            step.fieldsGrouping("source", new Fields("key"));
        } else {
            step.shuffleGrouping("source");
        }
        if (kind == Kind.JOIN) {
            step.fieldsGrouping("other", new Fields("key"));
        }
        builder.setBolt("sink", new Sink(kind), arguments.count("sink", 1)).shuffleGrouping("step");
        return builder.createTopology();
    }

    private static IRichBolt stepOf(Kind kind, int workUs, String home) {
        return switch (kind) {
            case WINDOW -> new WindowedBoltExecutor(new Counts()
                    .withWindow(BaseWindowedBolt.Duration.seconds(5), BaseWindowedBolt.Duration.seconds(1)));
            case MULTILANG -> new Process();
            default -> new Step(kind, workUs, home);
        };
    }

    /** Tuples with a key and a payload, of the kind. */
    static final class Source extends PacedSpout {
        private static final long PERIOD_NS = 4_000_000_000L;

        private final Kind kind;
        private final byte[] payload;

        Source(Kind kind, double rate) {
            super(kind == Kind.BURSTS ? 4 * rate : rate);
            this.kind = kind;
            payload = new byte[kind == Kind.LARGE ? 20_000 : 100];
        }

        @Override
        public void nextTuple() {
            if (kind != Kind.BURSTS || System.nanoTime() % PERIOD_NS < PERIOD_NS / 4) {
                super.nextTuple();
            }
        }

        @Override
        Values tuple(long number) {
            SplittableRandom random = new SplittableRandom(number);
            boolean usual = kind == Kind.SKEWED && random.nextInt(10) > 0;
            Object value = switch (kind) {
                case UNREGISTERED -> new AtomicLong(number);
                case MULTILANG -> "a text, as JSON knows no bytes";
                default -> payload;
            };
            return new Values(usual ? 0 : random.nextInt(KEYS), value);
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields("key", "payload"));
        }
    }

    /** Works or waits, and passes on; a join passes on a tuple once the key has come by both inputs. */
    static final class Step extends BaseRichBolt {
        private final Kind kind;
        private final long workNs;
        private final String home;
        private transient OutputCollector collector;
        private transient Map<Integer, String> waiting;

        Step(Kind kind, int workUs, String home) {
            this.kind = kind;
            this.home = home;
            workNs = 1000L * workUs;
        }

        @Override
        public void prepare(Map<String, Object> conf, TopologyContext context, OutputCollector collector) {
            this.collector = collector;
            waiting = new HashMap<>();
            if (kind == Kind.BOUND) {
                requireHome(String.valueOf(conf.get(Config.STORM_LOCAL_HOSTNAME)));
            }
        }

        private void requireHome(String here) {
            Path file = home.isEmpty() ? Path.of(System.getProperty("java.io.tmpdir"), "odd-bound") : Path.of(home);
            try {
                if (!Files.exists(file)) { // at once as a whole: other tasks look at it, too
                    Path own = Files.createTempFile(file.toAbsolutePath().getParent(), "odd", null);
                    Files.writeString(own, here);
                    Files.move(own, file, StandardCopyOption.ATOMIC_MOVE);
                }
                String first = Files.readString(file);
                if (!first.equals(here)) {
                    throw new IllegalStateException("there is no such thing on " + here + ", only on " + first);
                }
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }

        @Override
        public void execute(Tuple tuple) {
            if (kind == Kind.BLOCKING) {
                sleep();
            } else {
                Work.burn(workNs);
            }
            if (kind != Kind.JOIN || isSecond(tuple)) {
                collector.emit(tuple, new Values(tuple.getValue(0), tuple.getValue(1)));
            }
            collector.ack(tuple);
        }

        private boolean isSecond(Tuple tuple) {
            String first = waiting.putIfAbsent(tuple.getInteger(0), tuple.getSourceComponent());
            boolean second = first != null && !first.equals(tuple.getSourceComponent());
            if (second) {
                waiting.remove(tuple.getInteger(0));
            }
            return second;
        }

        private static void sleep() {
            try {
                Thread.sleep(5);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields("key", "payload"));
        }
    }

    /** Counts keys in a window, and emits the counts. */
    static final class Counts extends BaseWindowedBolt {
        private transient OutputCollector collector;

        @Override
        public void prepare(Map<String, Object> conf, TopologyContext context, OutputCollector collector) {
            this.collector = collector;
        }

        @Override
        public void execute(TupleWindow window) {
            Map<Integer, Long> counts = new HashMap<>();
            window.get().forEach(tuple -> counts.merge(tuple.getInteger(0), 1L, Long::sum));
            counts.forEach((key, count) -> collector.emit(new Values(key, new byte[0])));
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields("key", "payload"));
        }
    }

    /** A process that emits the key of each tuple, anchored, and acks it. */
    static final class Process extends ShellBolt implements IRichBolt {
        Process() {
            super("python3", "echo_bolt.py");
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields("key", "payload"));
        }

        @Override
        public Map<String, Object> getComponentConfiguration() {
            return null;
        }
    }

    /** Ends the trees, or does not. */
    static final class Sink extends BaseRichBolt {
        private final Kind kind;
        private transient OutputCollector collector;
        private transient long tuples;

        Sink(Kind kind) {
            this.kind = kind;
        }

        @Override
        public void prepare(Map<String, Object> conf, TopologyContext context, OutputCollector collector) {
            this.collector = collector;
        }

        @Override
        public void execute(Tuple tuple) {
            if (kind == Kind.FAILING && ++tuples % 20 == 0) {
                collector.fail(tuple);
            } else if (kind != Kind.NEVER_ACKING) {
                collector.ack(tuple);
            }
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            // it emits nothing
        }
    }
}
