package stormwright.topologies;

import java.io.FileOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.storm.Config;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.FailedException;
import org.apache.storm.trident.operation.TridentCollector;
import org.apache.storm.trident.spout.ITridentSpout;
import org.apache.storm.trident.topology.TransactionAttempt;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Values;

/**
 * The numbers 0, 1, 2, … of each task in batches of Trident; a batch that is emitted again has the same numbers.
 *
 * <p>The size of a batch depends on the time since the one before: what makes it replayable is only the metadata that
 * Trident keeps in ZooKeeper, which is {@code [transaction, from, to]} (without to), for every task. Before each emission
 * a line {@code TRANSACTION ATTEMPT FROM TO} is appended to {@code batch-TASK-MILLISECONDS.log}.
 *
 * <p>With several batches pending, Trident initialises a transaction before the one that precedes it if the worker that
 * had that one was killed. Such a batch fails here, and is initialised in its turn. With Storm's own
 * {@code PartitionedTridentSpoutExecutor}, since Storm 2.7.0 (STORM-4076), the later and the earlier batch then have the same
 * numbers: a partitioned transactional spout counts twice unless one batch only is pending.
 */
final class LedgerBatches implements ITridentSpout<List<Number>> {
    private static final double LONGEST_S = 2;

    private final String directory;
    private final double rate;
    private final long numbers;
    private final int keys;
    private final int tasks;

    /**
     * Makes a spout.
     *
     * @param rate tuples/s of all tasks together
     * @param numbers numbers of each task, 0 for no end
     */
    LedgerBatches(String directory, double rate, long numbers, int keys, int tasks) {
        this.directory = directory;
        this.rate = rate;
        this.numbers = numbers > 0 ? numbers : Long.MAX_VALUE;
        this.keys = keys;
        this.tasks = tasks;
    }

    @Override
    public BatchCoordinator<List<Number>> getCoordinator(
            String txStateId, Map<String, Object> conf, TopologyContext context) {
        Number interval = (Number) conf.get(Config.TOPOLOGY_TRIDENT_BATCH_EMIT_INTERVAL_MILLIS);
        return new Ranges(interval.longValue() / 1e3);
    }

    @Override
    public Emitter<List<Number>> getEmitter(String txStateId, Map<String, Object> conf, TopologyContext context) {
        return new Batches(LedgerFiles.append(Path.of(directory), "batch-" + context.getThisTaskIndex()));
    }

    @Override
    public Map<String, Object> getComponentConfiguration() {
        return null;
    }

    @Override
    public Fields getOutputFields() {
        return new Fields("key", "number");
    }

    private final class Ranges implements BatchCoordinator<List<Number>> {
        private final double intervalS;
        private long lastNs = System.nanoTime();

        private Ranges(double intervalS) {
            this.intervalS = intervalS;
        }

        @Override
        public List<Number> initializeTransaction(long txid, List<Number> before, List<Number> known) {
            if (known != null) {
                return new ArrayList<>(known); // Storm registers no class of parsed JSON for other workers
            }
            if (before == null ? txid != 1 : before.get(0).longValue() != txid - 1) {
                throw new FailedException("transaction " + txid + " comes before the one that precedes it");
            }
            long now = System.nanoTime();
            double seconds = Math.min(Math.max((now - lastNs) / 1e9, intervalS), LONGEST_S);
            lastNs = now;
            long from = before == null ? 0 : before.get(2).longValue();
            long to = Math.min(numbers, from + Math.max(1, Math.round(seconds * rate / tasks)));
            return new ArrayList<>(List.of(txid, from, Math.max(from, to)));
        }

        @Override
        public void success(long txid) {
            // nothing to forget
        }

        @Override
        public boolean isReady(long txid) {
            return true;
        }

        @Override
        public void close() {
            // nothing is open
        }
    }

    private final class Batches implements Emitter<List<Number>> {
        private final FileOutputStream log;

        private Batches(FileOutputStream log) {
            this.log = log;
        }

        @Override
        public void emitBatch(TransactionAttempt tx, List<Number> range, TridentCollector collector) {
            long from = range.get(1).longValue();
            long to = range.get(2).longValue();
            String line = tx.getTransactionId() + " " + tx.getAttemptId() + " " + from + " " + to + "\n";
            try {
                log.write(line.getBytes(StandardCharsets.US_ASCII));
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
            for (long number = from; number < to; number++) {
                collector.emit(new Values(number % keys, number));
            }
        }

        @Override
        public void success(TransactionAttempt tx) {
            // nothing to forget
        }

        @Override
        public void close() {
            try {
                log.close();
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
    }
}
