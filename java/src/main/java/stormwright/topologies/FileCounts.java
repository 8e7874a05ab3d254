package stormwright.topologies;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.storm.topology.FailedException;
import org.apache.storm.trident.state.StateFactory;
import org.apache.storm.trident.state.TransactionalValue;
import org.apache.storm.trident.state.map.IBackingMap;
import org.apache.storm.trident.state.map.TransactionalMap;

/**
 * Counts of Trident with the transaction that has changed them last, in {@code counts-PARTITION.txt}: lines of key, count
 * and transaction between tabs, replaced as a whole.
 *
 * <p>The file is read for every batch: what another worker has written for this partition is not overlooked. A batch that
 * is older than what the file holds fails: {@link TransactionalMap} would count it again.
 */
@SuppressWarnings("rawtypes")
final class FileCounts implements IBackingMap<TransactionalValue> {
    private final Path file;

    FileCounts(Path file) {
        this.file = file;
    }

    /** Makes the state of each partition, which counts every batch once. */
    static StateFactory factory(String directory) {
        return (conf, metrics, partition, partitions) ->
                TransactionalMap.build(new FileCounts(Path.of(directory, "counts-" + partition + ".txt")));
    }

    @Override
    public List<TransactionalValue> multiGet(List<List<Object>> keys) {
        Map<Long, TransactionalValue> counts = read();
        List<TransactionalValue> found = new ArrayList<>();
        keys.forEach(key -> found.add(counts.get(key(key))));
        return found;
    }

    @Override
    public void multiPut(List<List<Object>> keys, List<TransactionalValue> values) {
        Map<Long, TransactionalValue> counts = read();
        for (int i = 0; i < keys.size(); i++) {
            TransactionalValue value = values.get(i);
            TransactionalValue before = counts.put(key(keys.get(i)), value);
            if (before != null && before.getTxid() > value.getTxid()) {
                throw new FailedException(
                        file + " holds transaction " + before.getTxid() + ", later than " + value.getTxid());
            }
        }
        List<String> lines = new ArrayList<>();
        counts.forEach((key, value) -> lines.add(key + "\t" + value.getVal() + "\t" + value.getTxid()));
        LedgerFiles.replace(file, lines);
    }

    private static Long key(List<Object> key) {
        return ((Number) key.get(0)).longValue();
    }

    private Map<Long, TransactionalValue> read() {
        Map<Long, TransactionalValue> counts = new TreeMap<>();
        for (String line : LedgerFiles.lines(file)) {
            String[] fields = line.split("\t");
            counts.put(Long.parseLong(fields[0]),
                    new TransactionalValue<>(Long.parseLong(fields[2]), Long.parseLong(fields[1])));
        }
        return counts;
    }
}
