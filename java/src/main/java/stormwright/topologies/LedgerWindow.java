package stormwright.topologies;

import java.io.FileOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.base.BaseWindowedBolt;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.windowing.TupleWindow;

/**
 * Appends the content of every window to {@code window-TASK-MILLISECONDS.log}: a header as long as a record, whose
 * number is the count of records that follow, whose attempt is the number of the window and whose task is 65535.
 *
 * <p>Storm acks a tuple when it has left the window. Windows by count are exact. Windows by time lose tuples, acked and in
 * no window, if they slide by their whole length and the thread that triggers them is late:
 * {@link org.apache.storm.windowing.WindowManager} evicts by the age of a tuple, also before the first trigger, and
 * takes the time of a tuple before it is in the queue. The difference of length and sliding interval is the delay that is
 * tolerated.
 */
final class LedgerWindow extends BaseWindowedBolt {
    /** The task of a header, which no spout has. */
    static final int HEADER = 0xFFFF;

    private final String directory;
    private transient FileOutputStream log;
    private transient int windows;

    LedgerWindow(String directory) {
        this.directory = directory;
    }

    @Override
    public void prepare(Map<String, Object> conf, TopologyContext context, OutputCollector collector) {
        log = LedgerFiles.append(Path.of(directory), "window-" + context.getThisTaskIndex());
    }

    @Override
    public void execute(TupleWindow window) {
        List<Tuple> tuples = window.get();
        ByteBuffer block = Emission.buffer(Emission.BYTES * (1 + tuples.size()));
        new Emission(HEADER, 0, windows++, tuples.size()).put(block);
        tuples.forEach(tuple -> Emission.of(tuple).put(block));
        try {
            log.write(block.array());
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @Override
    public void cleanup() {
        try {
            log.close();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
