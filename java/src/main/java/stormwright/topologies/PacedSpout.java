package stormwright.topologies;

import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.Map;
import org.apache.storm.spout.SpoutOutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.base.BaseRichSpout;
import org.apache.storm.tuple.Values;

/** Begins tuple trees at a rate, that of all tasks together, or as fast as it can; what fails is emitted again. */
abstract class PacedSpout extends BaseRichSpout {
    /** Names a file, there on every node, with the rate of all spouts of the topology together: it wins. */
    static final String RATE_FILE = "stormwright.rate.file";

    private final double rate;
    private transient SpoutOutputCollector collector;
    private transient ArrayDeque<Long> failed;
    private transient long next;
    private transient Pace pace;

    PacedSpout(double rate) {
        this.rate = rate;
    }

    @Override
    public void open(Map<String, Object> conf, TopologyContext context, SpoutOutputCollector collector) {
        this.collector = collector;
        int tasks = context.getComponentTasks(context.getThisComponentId()).size();
        failed = new ArrayDeque<>();
        next = first(context.getThisTaskIndex(), tasks);
        pace = pace(rate, conf, context);
    }

    /** The pace of a spout's task at a rate of all its tasks, or at that of the {@value #RATE_FILE}. */
    static Pace pace(double rate, Map<String, Object> conf, TopologyContext context) {
        int tasks = context.getComponentTasks(context.getThisComponentId()).size();
        Object file = conf.get(RATE_FILE);
        return file == null
                ? Pace.of(rate, tasks, System.nanoTime())
                : Pace.from(Path.of(file.toString()), spoutTasks(context), System.nanoTime());
    }

    private static int spoutTasks(TopologyContext context) {
        return context.getRawTopology().get_spouts().keySet().stream()
                .mapToInt(spout -> context.getComponentTasks(spout).size()).sum();
    }

    /** Number of a task's first tuple; the others are counted from there. By default no two tasks have the same. */
    long first(int task, int tasks) {
        return Long.MAX_VALUE / tasks * task;
    }

    /** The tuple of that number. */
    abstract Values tuple(long number);

    /** Returns without a tuple before one is due: Storm's wait strategy then puts the thread to sleep. */
    @Override
    public void nextTuple() {
        if (!pace.due(System.nanoTime())) {
            return;
        }
        Long again = failed.poll();
        long number = again != null ? again : next++;
        collector.emit(tuple(number), number);
    }

    @Override
    public void fail(Object number) {
        failed.add((Long) number);
    }
}
