package stormwright.topologies;

import java.util.ArrayDeque;
import java.util.Map;
import org.apache.storm.spout.SpoutOutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.base.BaseRichSpout;
import org.apache.storm.tuple.Values;

/** Begins tuple trees at a rate, that of all tasks together, or as fast as it can; what fails is emitted again. */
abstract class PacedSpout extends BaseRichSpout {
    /** After a pause at most this much of what was missed is made up for. */
    private static final long LONGEST_BACKLOG_NS = 100_000_000L;

    private final double rate;
    private transient SpoutOutputCollector collector;
    private transient ArrayDeque<Long> failed;
    private transient long next;
    private transient long intervalNs;
    private transient long dueNs;

    PacedSpout(double rate) {
        this.rate = rate;
    }

    @Override
    public void open(Map<String, Object> conf, TopologyContext context, SpoutOutputCollector collector) {
        this.collector = collector;
        int tasks = context.getComponentTasks(context.getThisComponentId()).size();
        failed = new ArrayDeque<>();
        next = first(context.getThisTaskIndex(), tasks);
        intervalNs = rate > 0 ? (long) (1e9 * tasks / rate) : 0;
        dueNs = System.nanoTime();
    }

    /** Number of a task's first tuple; the others are counted from there. */
    abstract long first(int task, int tasks);

    /** The tuple of that number. */
    abstract Values tuple(long number);

    /** Returns without a tuple before one is due: Storm's wait strategy then puts the thread to sleep. */
    @Override
    public void nextTuple() {
        if (intervalNs > 0) {
            long now = System.nanoTime();
            if (now < dueNs) {
                return;
            }
            dueNs = Math.max(dueNs + intervalNs, now - LONGEST_BACKLOG_NS);
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
