package stormwright.topologies;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** Says when a task's next tree is due. The rate may be read from a file, again and again: it changes as the file does. */
final class Pace {
    /** After a pause at most this much of what was missed is made up for. */
    private static final long LONGEST_BACKLOG_NS = 100_000_000L;

    private static final long READ_EVERY_NS = 500_000_000L;

    private final Path file;
    private final int tasks;
    private long intervalNs;
    private long dueNs;
    private long readNs;

    private Pace(double rate, int tasks, Path file, long nowNs) {
        this.file = file;
        this.tasks = tasks;
        dueNs = nowNs;
        readNs = nowNs;
        change(rate);
    }

    /** So many trees a second of all tasks together, 0 for as many as can be. */
    static Pace of(double rate, int tasks, long nowNs) {
        return new Pace(rate, tasks, null, nowNs);
    }

    /** What the file says, in the same way; as many as can be until it can be read. */
    static Pace from(Path file, int tasks, long nowNs) {
        Pace pace = new Pace(0, tasks, file, nowNs);
        pace.read();
        return pace;
    }

    /** Whether a tree is due, which then counts as begun. */
    boolean due(long nowNs) {
        if (file != null && nowNs - readNs >= READ_EVERY_NS) {
            readNs = nowNs;
            read();
        }
        if (intervalNs > 0) {
            if (nowNs < dueNs) {
                return false;
            }
            dueNs = Math.max(dueNs + intervalNs, nowNs - LONGEST_BACKLOG_NS);
        }
        return true;
    }

    private void read() {
        try {
            change(Double.parseDouble(Files.readString(file).trim()));
        } catch (IOException | NumberFormatException e) {
            // It is being written: what it said before holds.
        }
    }

    private void change(double rate) {
        long before = intervalNs;
        intervalNs = rate > 0 ? (long) (1e9 * tasks / rate) : 0;
        dueNs = Math.min(dueNs, dueNs - before + intervalNs);
    }
}
