package stormwright.probe;

import java.util.List;
import org.apache.storm.daemon.Acker;
import org.apache.storm.utils.Utils;

/** Where the counters of one output stream of a task lie: three of the stream, then one for each target task. */
final class StreamCells {
    /** Enough for a fair mean from the first record on. */
    private static final int FIRST_SAMPLES = 16;

    final String name;
    final List<Edge> edges;
    final boolean system;
    final boolean beginsTrees;
    final int emissions;
    final int samples;
    final int sampledBytes;
    final int firstTarget;
    final int lastTarget;
    private final int targets;

    /** Tuples still to be sized; set by the thread that reads the counters, counted down by the task's. */
    volatile int samplesDue = FIRST_SAMPLES;

    /** Why a sampled tuple could not be serialized; null if none failed. */
    volatile String unserializable;

    /**
     * Lays a stream out.
     *
     * @param name interned, so that the stream of a tuple is mostly found without comparing characters
     * @param firstCell where its cells begin
     */
    StreamCells(String name, List<Edge> edges, int firstTarget, int lastTarget, int firstCell) {
        this.name = name;
        this.edges = edges;
        this.system = Utils.isSystemId(name);
        this.beginsTrees = name.equals(Acker.ACKER_INIT_STREAM_ID);
        this.firstTarget = firstTarget;
        this.lastTarget = lastTarget;
        this.emissions = firstCell;
        this.samples = firstCell + 1;
        this.sampledBytes = firstCell + 2;
        this.targets = firstCell + 3;
    }

    int cellOf(int target) {
        return targets + target - firstTarget;
    }

    int endCell() {
        return cellOf(lastTarget + 1);
    }
}
