package stormwright.topologies;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.Map;
import org.apache.storm.spout.SpoutOutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.base.BaseRichSpout;

/**
 * Emits the numbers 0, 1, 2, … of each task at a pace, each again until it is acked, and records all of it in a
 * {@link SpoutJournal}: a task that is started again emits first what was not acked.
 */
final class LedgerSpout extends BaseRichSpout {
    private final String directory;
    private final double rate;
    private final long numbers;
    private final int keys;
    private transient SpoutOutputCollector collector;
    private transient Pace pace;
    private transient SpoutJournal journal;
    private transient ArrayDeque<Long> replays;
    private transient int task;

    /**
     * Makes a spout.
     *
     * @param rate tuples/s of all tasks together, 0 for as many as can be
     * @param numbers numbers of each task, 0 for no end
     */
    LedgerSpout(String directory, double rate, long numbers, int keys) {
        this.directory = directory;
        this.rate = rate;
        this.numbers = numbers > 0 ? numbers : Long.MAX_VALUE;
        this.keys = keys;
    }

    @Override
    public void open(Map<String, Object> conf, TopologyContext context, SpoutOutputCollector collector) {
        this.collector = collector;
        task = context.getThisTaskIndex();
        pace = PacedSpout.pace(rate, conf, context);
        try {
            journal = new SpoutJournal(Path.of(directory), task);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        replays = new ArrayDeque<>(journal.unacked());
    }

    @Override
    public void nextTuple() {
        if (replays.isEmpty() && journal.next() >= numbers || !pace.due(System.nanoTime())) {
            return;
        }
        Long replay = replays.poll();
        long number = replay != null ? replay : journal.next();
        try {
            Emission emission = new Emission(task, journal.run(), journal.emitting(number), number);
            collector.emit(emission.values(keys), number);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @Override
    public void ack(Object number) {
        try {
            journal.acked((Long) number);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @Override
    public void fail(Object number) {
        replays.add((Long) number);
    }

    @Override
    public void close() {
        try {
            journal.close();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        declarer.declare(Emission.FIELDS);
    }
}
