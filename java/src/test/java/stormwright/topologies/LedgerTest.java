package stormwright.topologies;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.storm.daemon.StormCommon;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.topology.FailedException;
import org.apache.storm.topology.IRichBolt;
import org.apache.storm.trident.operation.builtin.Count;
import org.apache.storm.trident.state.CombinerValueUpdater;
import org.apache.storm.trident.state.ValueUpdater;
import org.apache.storm.trident.state.map.MapState;
import org.apache.storm.tuple.Values;
import org.apache.storm.utils.Utils;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

class LedgerTest {
    @TempDir
    Path directory;

    private StormTopology build(Ledger.Kind kind, String... args) {
        List<String> all = new ArrayList<>(List.of(args));
        all.add("directory=" + directory);
        return Ledger.build(kind, Arguments.parse(all.toArray(String[]::new), Ledger.defaults(kind)));
    }

    @ParameterizedTest
    @EnumSource
    void everyKindIsATopology(Ledger.Kind kind) throws Exception {
        StormTopology topology = build(kind);
        StormCommon.validateBasic(topology);
        StormCommon.systemTopology(Utils.readDefaultConfig(), topology);
    }

    @Test
    void aDirectoryHoldsOneLedger() {
        build(Ledger.Kind.DRAIN, "keys=8");
        build(Ledger.Kind.DRAIN, "keys=8", "rate=7");
        String message = assertThrows(IllegalArgumentException.class, () -> build(Ledger.Kind.DRAIN)).getMessage();
        assertTrue(message.contains("holds another ledger (kind=drain, keys=8, spouts=2, id="), message);
    }

    @Test
    void wrongArgumentsLeaveTheDirectoryEmpty() throws IOException {
        assertThrows(IllegalArgumentException.class, () -> build(Ledger.Kind.DRAIN, "sink=0"));
        assertThrows(IllegalArgumentException.class, () -> build(Ledger.Kind.WINDOW, "unit=hours"));
        assertThrows(IllegalArgumentException.class, () -> build(Ledger.Kind.DRAIN, "kind=sieve"));
        try (var files = Files.list(directory)) {
            assertEquals(0, files.count());
        }
        Arguments relative = Arguments.parse(new String[] {"directory=ledger"}, Ledger.defaults(Ledger.Kind.DRAIN));
        assertThrows(IllegalArgumentException.class, () -> Ledger.build(Ledger.Kind.DRAIN, relative));
    }

    private List<Emission> records(String prefix) throws IOException {
        try (var files = Files.list(directory)) {
            Path file = files.filter(each -> each.getFileName().toString().startsWith(prefix)).findFirst().orElseThrow();
            ByteBuffer content = ByteBuffer.wrap(Files.readAllBytes(file)).order(ByteOrder.LITTLE_ENDIAN);
            List<Emission> found = new ArrayList<>();
            while (content.hasRemaining()) {
                long number = content.getLong();
                int attempt = content.getInt();
                int task = Short.toUnsignedInt(content.getShort());
                found.add(new Emission(task, Short.toUnsignedInt(content.getShort()), attempt, number));
            }
            return found;
        }
    }

    @Test
    void theSinkWritesBeforeItAcks() throws IOException {
        LedgerTopology topology = new LedgerTopology(Ledger.Kind.DRAIN, directory);
        LedgerTopology.Answers answers = new LedgerTopology.Answers();
        IRichBolt sink = topology.bolt("sink", answers);
        List<Emission> emissions = List.of(new Emission(1, 2, 3, 4), new Emission(0xFFFE, 0xFFFF, 0x7FFF, 1L << 40));
        for (Emission emission : emissions) {
            sink.execute(topology.tuple("sink", "pass", emission, 64));
        }
        assertEquals(emissions, records("sink-0-"));
        assertEquals(2, answers.acked.size());
    }

    @Test
    void everyTupleIsInAWindowBeforeItIsAcked() throws IOException {
        LedgerTopology topology =
                new LedgerTopology(Ledger.Kind.WINDOW, directory, "unit=tuples", "window=4", "slide=2");
        LedgerTopology.Answers answers = new LedgerTopology.Answers();
        IRichBolt window = topology.bolt("window", answers);
        for (int number = 0; number < 9; number++) {
            window.execute(topology.tuple("window", "pass", new Emission(0, 0, 1, number), 64));
        }
        List<Long> numbers = records("window-0-").stream().map(Emission::number).toList();
        assertEquals(List.of(2L, 0L, 1L, 4L, 0L, 1L, 2L, 3L, 4L, 2L, 3L, 4L, 5L, 4L, 4L, 5L, 6L, 7L), numbers);
        assertEquals(List.of(0L, 1L, 2L, 3L), answers.acked.stream().map(each -> each.getLong(4)).toList());
        window.cleanup();
    }

    @SuppressWarnings("unchecked")
    private MapState<Long> counts() {
        return (MapState<Long>) FileCounts.factory(directory.toString()).makeState(Map.of(), null, 0, 1);
    }

    private static void count(MapState<Long> state, long txid, Map<Long, Long> batch) {
        List<List<Object>> keys = new ArrayList<>();
        List<ValueUpdater<?>> updaters = new ArrayList<>();
        batch.forEach((key, count) -> {
            keys.add(new Values(key));
            updaters.add(new CombinerValueUpdater(new Count(), count));
        });
        state.beginCommit(txid);
        @SuppressWarnings({"unchecked", "rawtypes"})
        List<ValueUpdater> raw = (List<ValueUpdater>) (List) updaters;
        state.multiUpdate(keys, raw);
        state.commit(txid);
    }

    @Test
    void aBatchIsCountedOnceByWhoeverCountsItAgain() {
        count(counts(), 1, Map.of(3L, 10L));
        MapState<Long> old = counts();
        count(old, 2, Map.of(3L, 10L, 4L, 7L));
        count(counts(), 2, Map.of(3L, 10L, 4L, 7L));
        count(old, 2, Map.of(3L, 10L, 4L, 7L));
        assertEquals(List.of("3\t20\t2", "4\t7\t2"), LedgerFiles.lines(directory.resolve("counts-0.txt")));
        count(counts(), 3, Map.of(3L, 1L));
        assertThrows(FailedException.class, () -> count(old, 2, Map.of(3L, 10L, 4L, 7L)));
        assertEquals(List.of("3\t21\t3", "4\t7\t2"), LedgerFiles.lines(directory.resolve("counts-0.txt")));
    }

    @Test
    void aBatchKeepsItsNumbersAndBeginsWhereTheOneBeforeEnds() throws IOException {
        LedgerTopology topology = new LedgerTopology(Ledger.Kind.BATCH, directory);
        LedgerBatches spout = new LedgerBatches(directory.toString(), 1000, 700, 64, 2);
        var coordinator = spout.getCoordinator("ledger", topology.conf, null);
        List<Number> first = coordinator.initializeTransaction(1, null, null);
        assertEquals(List.of(1L, 0L, 250L), first, "of half a second, the interval of batches");
        List<Number> second = coordinator.initializeTransaction(2, first, null);
        assertEquals(250L, second.get(1));
        assertEquals(second, coordinator.initializeTransaction(2, first, List.copyOf(second)));
        assertThrows(FailedException.class, () -> coordinator.initializeTransaction(4, second, null));
        assertThrows(FailedException.class, () -> coordinator.initializeTransaction(2, null, null));
        assertEquals(List.of(3L, 600L, 700L), coordinator.initializeTransaction(3, List.of(2L, 300L, 600L), null));
    }

    @Test
    void aTallyKnowsWhichNumbersItHas() {
        Tally tally = new Tally();
        for (long rank : new long[] {0, 1, 4, 3, 1, 6}) {
            tally.add(0, rank);
        }
        tally.add(3, 1);
        assertEquals("7 0:2:3,4,6 3:0:1", tally.toString());
        Tally read = Tally.parse(tally.toString());
        read.add(0, 2);
        read.add(3, 0);
        assertEquals("9 0:5:6 3:2:", read.toString());
        assertEquals("0", Tally.parse("0").toString());
    }

    @Test
    void aPassedTupleIsTheSame() {
        LedgerTopology topology = new LedgerTopology(Ledger.Kind.DRAIN, directory);
        LedgerTopology.Answers answers = new LedgerTopology.Answers();
        IRichBolt pass = new Ledger.Pass();
        pass.prepare(topology.conf, topology.context("pass"), new OutputCollector(answers));
        Emission emission = new Emission(1, 2, 3, 70);
        pass.execute(topology.tuple("pass", "spout", emission, 64));
        assertEquals(List.of(emission.values(64)), answers.emitted);
        assertEquals(6L, answers.emitted.get(0).get(0));
    }
}
