package stormwright.topologies;

import java.util.ArrayDeque;
import java.util.Map;
import org.apache.storm.spout.SpoutOutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.base.BaseRichSpout;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Values;

/**
 * Emits the sentences or the words of a book over and over; what fails is emitted again.
 *
 * <p>Each task starts at its own place in the book. The rate is that of all tasks together.
 */
class BookSpout extends BaseRichSpout {
    /** What one tuple holds. */
    enum Unit { SENTENCE, WORD }

    /** After a pause at most this much of what was missed is made up for. */
    private static final long LONGEST_BACKLOG_NS = 100_000_000L;

    private final Unit unit;
    private final String text;
    private final double rate;
    private transient String[] tuples;
    private transient SpoutOutputCollector collector;
    private transient ArrayDeque<Long> failed;
    private transient long next;
    private transient long intervalNs;
    private transient long dueNs;

    BookSpout(Unit unit, Arguments arguments) {
        this.unit = unit;
        this.text = arguments.text("text");
        this.rate = arguments.rate("rate");
    }

    @Override
    public void open(Map<String, Object> conf, TopologyContext context, SpoutOutputCollector collector) {
        this.collector = collector;
        int tasks = context.getComponentTasks(context.getThisComponentId()).size();
        tuples = unit == Unit.SENTENCE ? Book.sentences(text) : Book.words(text);
        failed = new ArrayDeque<>();
        next = (long) tuples.length * context.getThisTaskIndex() / tasks;
        intervalNs = rate > 0 ? (long) (1e9 * tasks / rate) : 0;
        dueNs = System.nanoTime();
    }

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
        long id = again != null ? again : next++;
        collector.emit(new Values(tuples[(int) (id % tuples.length)]), id);
    }

    @Override
    public void fail(Object id) {
        failed.add((Long) id);
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        declarer.declare(new Fields(unit == Unit.SENTENCE ? "sentence" : "word"));
    }
}
