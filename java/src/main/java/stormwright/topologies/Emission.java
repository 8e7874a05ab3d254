package stormwright.topologies;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.List;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;

/**
 * One emission of a number by a ledger spout: no two emissions are equal, so a sink that gets one twice has a duplicate.
 *
 * @param task index of the spout task, below 65535
 * @param run how often that task was opened before, see {@link SpoutJournal}
 * @param attempt how often this run has emitted the number, from 1
 */
record Emission(int task, int run, int attempt, long number) {
    /** Fields of a tuple of the ledger. */
    static final Fields FIELDS = new Fields("key", "task", "run", "attempt", "number");

    /** Length of a record of one emission in a file. */
    static final int BYTES = 16;

    /** The tuple of this emission; {@code keys} is the number of keys, and the key is the number modulo that. */
    Values values(int keys) {
        return new Values(number % keys, task, run, attempt, number);
    }

    /** The emission that a tuple is of. */
    static Emission of(Tuple tuple) {
        return new Emission(tuple.getInteger(1), tuple.getInteger(2), tuple.getInteger(3), tuple.getLong(4));
    }

    /** Adds the record: number (8 bytes), attempt (4), task (2), run (2). */
    void put(ByteBuffer buffer) {
        buffer.putLong(number).putInt(attempt).putShort((short) task).putShort((short) run);
    }

    /** The records of emissions, little-endian as all of the ledger's files. */
    static byte[] records(List<Emission> emissions) {
        ByteBuffer buffer = buffer(BYTES * emissions.size());
        emissions.forEach(emission -> emission.put(buffer));
        return buffer.array();
    }

    static ByteBuffer buffer(int bytes) {
        return ByteBuffer.allocate(bytes).order(ByteOrder.LITTLE_ENDIAN);
    }
}
