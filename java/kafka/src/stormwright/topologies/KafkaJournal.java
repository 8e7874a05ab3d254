package stormwright.topologies;

import java.io.Closeable;
import java.io.File;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * A journal of a partition in the format of {@link SpoutJournal}, from number 0 on: the oracle of ledgers reads it.
 *
 * <p>Run 0 has the numbers that were produced, acked where the committed offset is beyond them, and no emissions. Each
 * later run has the emissions of one instance of a spout.
 */
final class KafkaJournal implements Closeable {
    private static final byte[] MAGIC = "LEDGER01".getBytes(StandardCharsets.US_ASCII);
    private static final int MOST_RUNS = 1 << 16;

    private final int run;
    private final RandomAccessFile file;

    /** Begins the first run from {@code atLeast} on that there is no journal of. */
    KafkaJournal(Path directory, int partition, int atLeast) throws IOException {
        Files.createDirectories(directory);
        int free = atLeast;
        while (!path(directory, partition, free).createNewFile()) {
            free++;
            if (free == MOST_RUNS) {
                throw new IOException(directory + ": partition " + partition + " has " + MOST_RUNS + " journals");
            }
        }
        run = free;
        file = new RandomAccessFile(path(directory, partition, run), "rw");
        file.write(ByteBuffer.allocate(SpoutJournal.HEADER_BYTES).order(ByteOrder.LITTLE_ENDIAN).put(MAGIC).putLong(0)
                .putLong(System.currentTimeMillis()).putLong(0).array());
    }

    private static File path(Path directory, int partition, int run) {
        return directory.resolve("spout-" + partition + "-" + run + ".journal").toFile();
    }

    int run() {
        return run;
    }

    /** Counts an emission that is about to be made, and returns which one of this number and run it is. */
    int emitting(long number) throws IOException {
        long at = position(number);
        int before = 0;
        if (at < file.length()) {
            file.seek(at);
            before = Short.toUnsignedInt(Short.reverseBytes(file.readShort()));
        }
        write(number, before + 1);
        return before + 1;
    }

    /** Records a number that is about to be produced. */
    void produced(long number) throws IOException {
        write(number, 0);
    }

    /** Records a number that is below the committed offset. */
    void committed(long number) throws IOException {
        write(number, SpoutJournal.ACKED);
    }

    private void write(long number, int value) throws IOException {
        file.seek(position(number));
        file.writeShort(Short.reverseBytes((short) value));
    }

    private static long position(long number) {
        return SpoutJournal.HEADER_BYTES + 2 * number;
    }

    @Override
    public void close() throws IOException {
        file.close();
    }
}
