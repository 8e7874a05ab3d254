package stormwright.topologies;

import java.io.FileOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.IntStream;
import org.apache.storm.Config;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.trident.operation.TridentCollector;
import org.apache.storm.trident.spout.IPartitionedTridentSpout;
import org.apache.storm.trident.spout.ISpoutPartition;
import org.apache.storm.trident.topology.TransactionAttempt;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Values;

/**
 * The numbers 0, 1, 2, … of each partition in batches of Trident; a batch that is emitted again has the same numbers.
 *
 * <p>The size of a batch depends on the time since the one before: what makes it replayable is only the range that Trident
 * keeps in ZooKeeper. Before each emission a line {@code TRANSACTION ATTEMPT FROM TO} (without TO) is appended to
 * {@code batch-PARTITION-MILLISECONDS.log}.
 */
final class LedgerBatches implements IPartitionedTridentSpout<Object, LedgerBatches.Partition, List<Number>> {
    private static final double LONGEST_S = 2;

    private final String directory;
    private final double rate;
    private final long numbers;
    private final int keys;
    private final int partitions;

    /**
     * Makes a spout.
     *
     * @param rate tuples/s of all partitions together
     * @param numbers numbers of each partition, 0 for no end
     */
    LedgerBatches(String directory, double rate, long numbers, int keys, int partitions) {
        this.directory = directory;
        this.rate = rate;
        this.numbers = numbers > 0 ? numbers : Long.MAX_VALUE;
        this.keys = keys;
        this.partitions = partitions;
    }

    @Override
    public Coordinator<Object> getCoordinator(Map<String, Object> conf, TopologyContext context) {
        return new Coordinator<>() {
            @Override
            public Object getPartitionsForBatch() {
                return partitions;
            }

            @Override
            public boolean isReady(long txid) {
                return true;
            }

            @Override
            public void close() {
                // nothing is open
            }
        };
    }

    @Override
    public Emitter<Object, Partition, List<Number>> getEmitter(Map<String, Object> conf, TopologyContext context) {
        Number interval = (Number) conf.get(Config.TOPOLOGY_TRIDENT_BATCH_EMIT_INTERVAL_MILLIS);
        return new Batches(interval.longValue() / 1e3);
    }

    @Override
    public Map<String, Object> getComponentConfiguration() {
        return null;
    }

    @Override
    public Fields getOutputFields() {
        return new Fields("key", "number");
    }

    /** A partition; Trident keeps its ranges below its id in ZooKeeper. */
    record Partition(int index) implements ISpoutPartition {
        @Override
        public String getId() {
            return "partition-" + index;
        }
    }

    private final class Batches implements Emitter<Object, Partition, List<Number>> {
        private final double intervalS;
        private final Map<Partition, FileOutputStream> logs = new HashMap<>();
        private long lastNs;

        private Batches(double intervalS) {
            this.intervalS = intervalS;
            lastNs = System.nanoTime();
        }

        @Override
        public List<Partition> getOrderedPartitions(Object count) {
            return IntStream.range(0, ((Number) count).intValue()).mapToObj(Partition::new).toList();
        }

        @Override
        public void refreshPartitions(List<Partition> mine) {
            mine.forEach(partition -> logs.computeIfAbsent(
                    partition, key -> LedgerFiles.append(Path.of(directory), "batch-" + key.index())));
        }

        @Override
        public Map<Partition, List<Number>> emitBatchNew(TransactionAttempt tx, TridentCollector collector,
                Set<Partition> mine, Map<Partition, List<Number>> before) {
            long now = System.nanoTime();
            double seconds = Math.min(Math.max((now - lastNs) / 1e9, intervalS), LONGEST_S);
            lastNs = now;
            long size = Math.max(1, Math.round(seconds * rate / partitions));
            Map<Partition, List<Number>> ranges = new HashMap<>();
            for (Partition partition : mine) {
                List<Number> last = before.get(partition);
                long from = last == null ? 0 : last.get(1).longValue();
                List<Number> range = List.of(from, Math.max(from, Math.min(numbers, from + size)));
                emit(tx, collector, partition, range);
                ranges.put(partition, range);
            }
            return ranges;
        }

        @Override
        public void reEmitPartitionBatch(
                TransactionAttempt tx, TridentCollector collector, Partition partition, List<Number> range) {
            emit(tx, collector, partition, range);
        }

        private void emit(TransactionAttempt tx, TridentCollector collector, Partition partition, List<Number> range) {
            long from = range.get(0).longValue();
            long to = range.get(1).longValue();
            String line = tx.getTransactionId() + " " + tx.getAttemptId() + " " + from + " " + to + "\n";
            try {
                logs.get(partition).write(line.getBytes(StandardCharsets.US_ASCII));
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
            for (long number = from; number < to; number++) {
                collector.emit(new Values(number % keys, number));
            }
        }

        @Override
        public void close() {
            for (FileOutputStream log : logs.values()) {
                try {
                    log.close();
                } catch (IOException e) {
                    throw new UncheckedIOException(e);
                }
            }
        }
    }
}
