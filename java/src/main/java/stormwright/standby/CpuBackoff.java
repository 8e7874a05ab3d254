package stormwright.standby;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;

/**
 * Leaves the CPU of a busy node to its workers: a thread that had to wait for a core longer than it had one sleeps for a
 * multiple of what it has used. On a node of a quarter of a core, loading at full speed took half of a topology's
 * throughput for more than a minute. A node with CPU to spare is used as before.
 */
final class CpuBackoff {
    /** CPU time after which it is looked at again: shorter stretches say little. */
    private static final long STRETCH_NS = 10_000_000;

    /** How many times the CPU time of a stretch the thread sleeps if cores are short: it uses a sixteenth of one at most. */
    private static final int REST = 15;

    /** Calls between two looks, which take some 20 µs each. */
    private static final int CALLS = 16;

    private static final Path STATISTICS = Path.of("/proc/thread-self/schedstat");

    private long ranNs;
    private long waitedNs;
    private boolean known;
    private int calls;

    CpuBackoff() {
        known = true;
        read();
    }

    /** Sleeps if the calling thread has waited for a core more than it has run, since the last look. */
    void pause() {
        if (!known || ++calls % CALLS > 0) {
            return;
        }
        long ranBefore = ranNs;
        long waitedBefore = waitedNs;
        read();
        long ran = ranNs - ranBefore;
        if (ran < STRETCH_NS) {
            ranNs = ranBefore;
            waitedNs = waitedBefore;
        } else if (waitedNs - waitedBefore > ran) {
            sleep(REST * ran);
        }
    }

    private void read() {
        try {
            String[] numbers = Files.readString(STATISTICS).strip().split(" ");
            ranNs = Long.parseLong(numbers[0]);
            waitedNs = Long.parseLong(numbers[1]);
        } catch (IOException | RuntimeException e) { // not Linux, or without these statistics
            known = false;
        }
    }

    private static void sleep(long ns) {
        try {
            TimeUnit.NANOSECONDS.sleep(ns);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
