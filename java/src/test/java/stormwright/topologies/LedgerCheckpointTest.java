package stormwright.topologies;

import static org.apache.storm.spout.CheckPointState.Action.COMMIT;
import static org.apache.storm.spout.CheckPointState.Action.INITSTATE;
import static org.apache.storm.spout.CheckPointState.Action.PREPARE;
import static org.apache.storm.spout.CheckPointState.Action.ROLLBACK;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.apache.storm.serialization.KryoTupleDeserializer;
import org.apache.storm.serialization.KryoTupleSerializer;
import org.apache.storm.spout.CheckPointState;
import org.apache.storm.topology.IRichBolt;
import org.apache.storm.tuple.Tuple;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The counting bolt as Storm runs it, under its StatefulBoltExecutor, with checkpoints of one upstream task. */
class LedgerCheckpointTest {
    @TempDir
    Path directory;

    private LedgerTopology topology;

    @BeforeEach
    void build() {
        topology = new LedgerTopology(Ledger.Kind.CHECKPOINT, directory, "keys=1", "pass=1", "count=1");
    }

    private final class Running {
        final LedgerTopology.Answers answers = new LedgerTopology.Answers();
        final IRichBolt bolt = topology.bolt("count", answers);

        Running checkpoint(long txid, CheckPointState.Action... actions) {
            for (CheckPointState.Action action : actions) {
                bolt.execute(topology.checkpoint("count", "pass", txid, action));
            }
            return this;
        }

        Running receive(long... numbers) {
            for (long number : numbers) {
                bolt.execute(topology.tuple("count", "pass", new Emission(0, 0, 1, number), 1));
            }
            return this;
        }

        List<Long> acked() {
            return numbers(answers.acked);
        }

        List<Long> failed() {
            return numbers(answers.failed);
        }

        private static List<Long> numbers(List<Tuple> tuples) {
            return tuples.stream().filter(tuple -> tuple.size() == 5).map(tuple -> tuple.getLong(4)).toList();
        }

        long failedCheckpoints() {
            return answers.failed.stream().filter(tuple -> tuple.size() == 2).count();
        }
    }

    private String committed() {
        int task = topology.context("count").getThisTaskId();
        List<String> lines = LedgerFiles.lines(directory.resolve("state").resolve("count-" + task + ".committed"));
        return lines.isEmpty() ? "" : String.join("; ", lines).replace("\t", " ");
    }

    @Test
    void tuplesAreAckedOnceTheirEffectIsCommitted() {
        Running running = new Running().receive(0).checkpoint(0, INITSTATE).receive(1, 2).checkpoint(1, PREPARE);
        running.receive(3);
        assertEquals(List.of(), running.acked());
        assertEquals("", committed());
        running.checkpoint(1, COMMIT);
        assertEquals(List.of(0L, 1L, 2L), running.acked());
        assertEquals("1; 0 text 3 0:3:", committed());
        running.checkpoint(2, PREPARE, COMMIT);
        assertEquals(List.of(0L, 1L, 2L, 3L), running.acked());
        assertEquals("2; 0 text 4 0:4:", committed());
    }

    @Test
    void aRollbackTakesEffectsBackAndFailsTheirTuples() {
        Running running = new Running().checkpoint(0, INITSTATE).receive(0).checkpoint(1, PREPARE, COMMIT);
        running.receive(1).checkpoint(2, PREPARE).receive(2).checkpoint(2, ROLLBACK);
        assertEquals(List.of(1L, 2L), running.failed());
        running.receive(2, 1).checkpoint(2, PREPARE, COMMIT);
        assertEquals("2; 0 text 3 0:3:", committed());
    }

    @Test
    void whatWasOnlyInMemoryIsCountedByTheNextWorker() {
        new Running().checkpoint(0, INITSTATE).receive(0).checkpoint(1, PREPARE, COMMIT).receive(1);
        Running next = new Running().receive(1).checkpoint(2, PREPARE);
        assertEquals(1, next.failedCheckpoints(), "its state is not initialised");
        next.checkpoint(2, ROLLBACK).checkpoint(1, INITSTATE).checkpoint(2, PREPARE, COMMIT);
        assertEquals(List.of(1L), next.acked());
        assertEquals("2; 0 text 2 0:2:", committed());
    }

    @Test
    void aPreparedTransactionIsCommittedByTheNextWorkerAndItsReplaysCountTwice() {
        new Running().checkpoint(0, INITSTATE).receive(0, 1).checkpoint(1, PREPARE);
        Running next = new Running().checkpoint(1, COMMIT, INITSTATE);
        assertEquals("1; 0 text 2 0:2:", committed());
        next.receive(0, 1, 2).checkpoint(2, PREPARE, COMMIT);
        assertEquals("2; 0 text 5 0:3:", committed());
    }

    @Test
    void aRepeatedCommitHasNoEffect() {
        Running running = new Running().checkpoint(0, INITSTATE).receive(0).checkpoint(1, PREPARE, COMMIT, COMMIT);
        assertEquals(0, running.failedCheckpoints());
        assertEquals(List.of(0L), running.acked());
        assertEquals("1; 0 text 1 0:1:", committed());
    }

    @Test
    void anOldInstanceThatStillRunsCommitsNothing() {
        Running old = new Running().checkpoint(0, INITSTATE).receive(0).checkpoint(1, PREPARE, COMMIT).receive(1);
        Running moved = new Running().checkpoint(1, INITSTATE).receive(2);
        old.checkpoint(2, PREPARE);
        assertEquals(1, old.failedCheckpoints());
        moved.checkpoint(2, PREPARE, COMMIT);
        old.checkpoint(2, COMMIT);
        assertEquals(2, old.failedCheckpoints());
        assertEquals(List.of(0L), old.acked());
        assertEquals("2; 0 text 2 0:1:2", committed());
    }

    @Test
    void theCheckpointSpoutsStateIsKept() {
        CheckPointState saved = new CheckPointState(7, CheckPointState.State.COMMITTING);
        FileState state = new FileState(directory, "$checkpointspout-1");
        state.put("__state", saved);
        state.commit();
        assertEquals(saved, new FileState(directory, "$checkpointspout-1").get("__state"));
    }

    @Test
    void aStateObeysStormsContract() {
        FileState state = new FileState(directory, "count-1");
        state.put("a", "1");
        assertThrows(IllegalStateException.class, () -> state.commit(1), "nothing is prepared");
        state.prepareCommit(1);
        state.put("a", "2");
        state.prepareCommit(1);
        assertThrows(IllegalStateException.class, () -> state.prepareCommit(2), "the first is pending");
        assertThrows(IllegalStateException.class, () -> state.commit(2));
        state.commit(1);
        state.put("a", "3");
        state.delete("b");
        state.rollback();
        assertEquals("2", state.get("a"));
        assertThrows(IllegalArgumentException.class, () -> state.put("a", 3), "a reader knows text only");
        assertEquals("2", new FileState(directory, "count-1").get("a"));
        assertEquals("?", state.get("c", "?"));
        assertEquals(false, Files.exists(directory.resolve("count-1.prepared")));
    }

    /** Storm registers no class of its checkpoint tuples: the topology does. */
    @Test
    void checkpointTuplesCanBeSentToOtherWorkers() throws Exception {
        Tuple tuple = topology.checkpoint("count", "pass", 3, ROLLBACK);
        byte[] sent = new KryoTupleSerializer(topology.conf, topology.context("pass")).serialize(tuple);
        Tuple received = new KryoTupleDeserializer(topology.conf, topology.context("count")).deserialize(sent);
        assertEquals(ROLLBACK, received.getValue(1));
    }
}
