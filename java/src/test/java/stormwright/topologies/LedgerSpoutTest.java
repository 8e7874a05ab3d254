package stormwright.topologies;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;
import java.util.stream.LongStream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class LedgerSpoutTest {
    @TempDir
    Path directory;

    private LedgerTopology topology;

    @BeforeEach
    void build() {
        topology = new LedgerTopology(Ledger.Kind.DRAIN, directory, "rate=0", "keys=8");
    }

    /** A task that was just started; nothing ends it in order, as nothing ends one whose worker is killed. */
    private final class Running {
        private final LedgerTopology.Emissions emissions = new LedgerTopology.Emissions();
        private final LedgerSpout spout;

        Running(long numbers) {
            spout = new LedgerSpout(directory.toString(), 0, numbers, 8);
            spout.open(topology.conf, topology.context("spout"), emissions.collector());
        }

        List<Long> emit(int times) {
            int before = emissions.emitted.size();
            IntStream.range(0, times).forEach(i -> spout.nextTuple());
            return emissions.numbers().subList(before, emissions.emitted.size());
        }
    }

    private List<Integer> entries(int run) throws IOException {
        ByteBuffer content = ByteBuffer.wrap(Files.readAllBytes(directory.resolve("spout-0-" + run + ".journal")))
                .order(ByteOrder.LITTLE_ENDIAN).position(SpoutJournal.HEADER_BYTES);
        List<Integer> found = new ArrayList<>();
        while (content.hasRemaining()) {
            found.add(Short.toUnsignedInt(content.getShort()));
        }
        return found;
    }

    @Test
    void numbersAreMessageIdsAndFailedOnesAreEmittedAgain() throws IOException {
        Running running = new Running(0);
        assertEquals(List.of(0L, 1L, 2L), running.emit(3));
        assertEquals(List.of(0L, 1L, 2L), running.emissions.ids);
        running.spout.ack(0L);
        running.spout.fail(1L);
        assertEquals(List.of(1L, 3L), running.emit(2));
        assertEquals(new Emission(0, 0, 2, 1), running.emissions.emitted.get(3));
        running.spout.ack(1L);
        assertEquals(List.of(SpoutJournal.ACKED | 1, SpoutJournal.ACKED | 2, 1, 1), entries(0));
    }

    @Test
    void aNewRunBeginsWithWhatHasNoAck() throws IOException {
        Running killed = new Running(0);
        killed.emit(6);
        LongStream.of(0, 1, 3).forEach(killed.spout::ack);
        Running running = new Running(0);
        assertEquals(List.of(2L, 4L, 5L, 6L), running.emit(4));
        assertEquals(new Emission(0, 1, 1, 2), running.emissions.emitted.get(0));
        assertEquals(List.of(1, 0, 1, 1, 1), entries(1), "from number 2 on");
    }

    @Test
    void acksOfAllRunsCount() {
        Running first = new Running(0);
        first.emit(6);
        LongStream.of(0, 3).forEach(first.spout::ack);
        Running second = new Running(0);
        second.emit(2);
        LongStream.of(1, 2).forEach(second.spout::ack);
        assertEquals(List.of(4L, 5L, 6L), new Running(0).emit(3));
    }

    @Test
    void anOldInstanceThatStillRunsHasAJournalOfItsOwn() throws IOException {
        Running old = new Running(0);
        old.emit(2);
        Running moved = new Running(0);
        assertEquals(List.of(2L), old.emit(1));
        assertEquals(List.of(0L, 1L, 2L), moved.emit(3));
        assertEquals(List.of(1, 1, 1), entries(0));
        assertEquals(List.of(1, 1, 1), entries(1));
    }

    @Test
    void aRunThatWasKilledBeforeItsHeaderIsPassedOver() throws IOException {
        new Running(0).emit(2);
        Files.write(directory.resolve("spout-0-1.journal"), new byte[5]);
        Running running = new Running(0);
        running.emit(1);
        assertEquals(new Emission(0, 2, 1, 0), running.emissions.emitted.get(0));
    }

    @Test
    void theLastNumberIsTheLast() {
        Running running = new Running(2);
        assertEquals(List.of(0L, 1L), running.emit(5));
        running.spout.fail(1L);
        assertEquals(List.of(1L), running.emit(5));
        running.spout.ack(0L);
        running.spout.ack(1L);
        assertEquals(List.of(), new Running(2).emit(5));
    }

    @Test
    void aFileThatIsNoJournalIsAnError() throws IOException {
        Files.write(directory.resolve("spout-0-0.journal"), new byte[100]);
        assertThrows(IOException.class, () -> new SpoutJournal(directory, 0));
    }
}
