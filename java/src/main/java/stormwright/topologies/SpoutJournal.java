package stormwright.topologies;

import java.io.Closeable;
import java.io.File;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * What a task of {@link LedgerSpout} has emitted and what was acked, on disk before it is emitted.
 *
 * <p>Every time the task is opened, a run begins, with a file {@code spout-TASK-RUN.journal} of its own: where Storm moves
 * a task, the old instance may go on for some seconds beside the new one. A file has a header (8 bytes {@code LEDGER01},
 * then three 8-byte numbers: the first number that it has an entry for, the time of the start in ms, 0) and 2 bytes for
 * each number from there on: how often this run has emitted it, and in the highest bit whether it was acked. An entry
 * lies within a page and is written by one call, so that it is never torn. All numbers before the first are acked.
 */
final class SpoutJournal implements Closeable {
    static final int HEADER_BYTES = 32;
    static final int ACKED = 0x8000;
    private static final byte[] MAGIC = "LEDGER01".getBytes(StandardCharsets.US_ASCII);
    private static final int MOST_RUNS = 1 << 16;

    private final int run;
    private final long first;
    private final RandomAccessFile file;
    private final List<Long> unacked = new ArrayList<>();
    private final Map<Long, Integer> pending = new HashMap<>();
    private final ByteBuffer entry = Emission.buffer(2);
    private long next;

    /** Begins a run of a task, with what all runs before have left. */
    SpoutJournal(Path directory, int task) throws IOException {
        Files.createDirectories(directory);
        List<Entries> before = new ArrayList<>();
        int last = readRuns(directory, task, before);
        long acked = before.stream().mapToLong(Entries::first).max().orElse(0);
        next = before.stream().mapToLong(Entries::end).max().orElse(0);
        next = Math.max(next, acked);
        BitSet done = new BitSet();
        before.forEach(entries -> entries.addAcked(acked, done));
        first = acked + done.nextClearBit(0);
        for (long number = first; number < next; number++) {
            if (!done.get(Math.toIntExact(number - acked))) {
                unacked.add(number);
            }
        }
        run = create(directory, task, last + 1);
        file = new RandomAccessFile(path(directory, task, run), "rw");
        file.write(Emission.buffer(HEADER_BYTES).put(MAGIC).putLong(first).putLong(System.currentTimeMillis())
                .putLong(0).array());
    }

    /** Reads the journals of a task and returns its last run, -1 if there was none. */
    private static int readRuns(Path directory, int task, List<Entries> found) throws IOException {
        Pattern name = Pattern.compile("spout-" + task + "-(\\d+)\\.journal");
        int last = -1;
        try (DirectoryStream<Path> files = Files.newDirectoryStream(directory, "spout-" + task + "-*.journal")) {
            for (Path path : files) {
                Matcher matcher = name.matcher(path.getFileName().toString());
                if (matcher.matches()) {
                    last = Math.max(last, Integer.parseInt(matcher.group(1)));
                    byte[] content = Files.readAllBytes(path);
                    if (content.length >= HEADER_BYTES) { // else its worker was killed before it had written anything
                        found.add(Entries.of(content));
                    }
                }
            }
        }
        return last;
    }

    private static int create(Path directory, int task, int atLeast) throws IOException {
        for (int run = atLeast; run < MOST_RUNS; run++) {
            if (path(directory, task, run).createNewFile()) {
                return run;
            }
        }
        throw new IOException(directory + ": task " + task + " was started " + MOST_RUNS + " times, use a new directory");
    }

    private static File path(Path directory, int task, int run) {
        return directory.resolve("spout-" + task + "-" + run + ".journal").toFile();
    }

    int run() {
        return run;
    }

    /** The first number that no run has emitted; the numbers after it neither. */
    long next() {
        return next;
    }

    /** Numbers that runs before have emitted and none has an ack of, ascending: all of them are to be emitted again. */
    List<Long> unacked() {
        return unacked;
    }

    /** Records an emission that is about to be made, and returns which one of this number and run it is. */
    int emitting(long number) throws IOException {
        int attempt = pending.merge(number, 1, Integer::sum);
        if (attempt >= ACKED) {
            throw new IOException("number " + number + " was emitted " + attempt + " times, more than the journal counts");
        }
        write(number, attempt);
        next = Math.max(next, number + 1);
        return attempt;
    }

    /** Records an ack. */
    void acked(long number) throws IOException {
        Integer attempts = pending.remove(number);
        if (attempts != null) {
            write(number, attempts | ACKED);
        }
    }

    private void write(long number, int value) throws IOException {
        file.seek(HEADER_BYTES + 2 * (number - first));
        file.write(entry.putShort(0, (short) value).array());
    }

    @Override
    public void close() throws IOException {
        file.close();
    }

    /** The entries of one journal. */
    private record Entries(long first, ByteBuffer values) {
        static Entries of(byte[] content) throws IOException {
            ByteBuffer buffer = ByteBuffer.wrap(content).order(ByteOrder.LITTLE_ENDIAN);
            byte[] magic = new byte[MAGIC.length];
            buffer.get(magic);
            if (!new String(magic, StandardCharsets.US_ASCII).equals(new String(MAGIC, StandardCharsets.US_ASCII))) {
                throw new IOException("a journal does not begin with LEDGER01");
            }
            long first = buffer.getLong();
            buffer.position(HEADER_BYTES);
            return new Entries(first, buffer.slice().order(ByteOrder.LITTLE_ENDIAN));
        }

        long end() {
            return first + values.limit() / 2;
        }

        /** Adds the acked numbers, less {@code from}. */
        void addAcked(long from, BitSet acked) {
            for (long number = Math.max(from, first); number < end(); number++) {
                if ((values.getShort((int) (2 * (number - first))) & ACKED) != 0) {
                    acked.set(Math.toIntExact(number - from));
                }
            }
        }
    }
}
