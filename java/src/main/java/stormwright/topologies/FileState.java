package stormwright.topologies;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import org.apache.storm.spout.CheckPointState;
import org.apache.storm.state.KeyValueState;

/**
 * A state of Storm's checkpoints in files of a directory that all nodes share: {@code NAMESPACE.committed} and, between
 * prepare and commit, {@code NAMESPACE.prepared}, each replaced as a whole.
 *
 * <p>Values are text, and what the checkpoint spout stores. A prepared transaction survives its worker: it is committed
 * or rolled back by the next one. Storm repeats a commit on recovery, which then has no effect. The instance that was made
 * last owns the state, as {@code NAMESPACE.owner} states: where Storm moves a task, the instance in the old worker may
 * live on for some seconds, and would overwrite what the new one goes on from. Prepare, commit and rollback of that old
 * instance fail, so that its tuples are emitted again.
 */
final class FileState implements KeyValueState<String, Object> {
    private static final long NONE = Long.MIN_VALUE;
    private static final String TEXT = "text";
    private static final String CHECKPOINT = "checkpoint";

    private final String namespace;
    private final Path committedFile;
    private final Path preparedFile;
    private final Path ownerFile;
    private final String owner = UUID.randomUUID().toString();
    private Snapshot committed;
    private Snapshot prepared;
    private boolean isRecovered;
    private Map<String, Object> current;

    FileState(Path directory, String namespace) {
        this.namespace = namespace;
        committedFile = directory.resolve(namespace + ".committed");
        preparedFile = directory.resolve(namespace + ".prepared");
        ownerFile = directory.resolve(namespace + ".owner");
        LedgerFiles.replace(ownerFile, List.of(owner));
        committed = Snapshot.read(committedFile);
        prepared = Snapshot.read(preparedFile);
        if (prepared.txid == NONE) {
            prepared = null;
        }
        isRecovered = prepared != null;
        current = new TreeMap<>(committed.entries);
    }

    @Override
    public void put(String key, Object value) {
        encode(value); // a value that cannot be stored is an error of this call
        current.put(key, value);
    }

    @Override
    public Object get(String key) {
        return current.get(key);
    }

    @Override
    public Object get(String key, Object defaultValue) {
        return current.getOrDefault(key, defaultValue);
    }

    @Override
    public Object delete(String key) {
        return current.remove(key);
    }

    @Override
    public Iterator<Map.Entry<String, Object>> iterator() {
        return Collections.unmodifiableMap(current).entrySet().iterator();
    }

    @Override
    public void prepareCommit(long txid) {
        requireOwner();
        if (prepared != null && prepared.txid != txid) {
            throw new IllegalStateException(
                    namespace + ": cannot prepare " + txid + " before " + prepared.txid + " is committed or rolled back");
        }
        Snapshot snapshot = new Snapshot(txid, new TreeMap<>(current));
        snapshot.write(preparedFile);
        prepared = snapshot;
        isRecovered = false;
    }

    @Override
    public void commit(long txid) {
        requireOwner();
        if (prepared == null && committed.txid == txid) {
            return;
        }
        if (prepared == null || prepared.txid != txid) {
            String there = prepared == null ? "nothing is" : prepared.txid + " is";
            throw new IllegalStateException(namespace + ": cannot commit " + txid + ": " + there + " prepared");
        }
        LedgerFiles.move(preparedFile, committedFile);
        committed = prepared;
        prepared = null;
        if (isRecovered) { // what the worker before has prepared is where this one begins
            current = new TreeMap<>(committed.entries);
            isRecovered = false;
        }
    }

    @Override
    public void commit() {
        requireOwner();
        Snapshot snapshot = new Snapshot(committed.txid, new TreeMap<>(current));
        snapshot.write(committedFile);
        committed = snapshot;
    }

    @Override
    public void rollback() {
        requireOwner();
        try {
            Files.deleteIfExists(preparedFile);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        prepared = null;
        isRecovered = false;
        current = new TreeMap<>(committed.entries);
    }

    private void requireOwner() {
        if (!LedgerFiles.lines(ownerFile).equals(List.of(owner))) {
            throw new IllegalStateException(namespace + ": another worker has taken over this state");
        }
    }

    private static String encode(Object value) {
        if (value instanceof CheckPointState state) {
            return CHECKPOINT + "\t" + state.getTxid() + "\t" + state.getState();
        }
        if (value instanceof String text && text.indexOf('\n') < 0 && text.indexOf('\t') < 0) {
            return TEXT + "\t" + text;
        }
        throw new IllegalArgumentException("a state file has no place for " + value);
    }

    private static Object decode(String[] fields) {
        return fields[1].equals(CHECKPOINT)
                ? new CheckPointState(Long.parseLong(fields[2]), CheckPointState.State.valueOf(fields[3]))
                : fields[2];
    }

    /** A state as it was saved: a line with the transaction, then for each key a line of fields between tabs. */
    private record Snapshot(long txid, Map<String, Object> entries) {
        static Snapshot read(Path file) {
            long txid = NONE;
            Map<String, Object> entries = new TreeMap<>();
            for (String line : LedgerFiles.lines(file)) {
                String[] fields = line.split("\t", -1);
                if (fields.length == 1) {
                    txid = Long.parseLong(line);
                } else {
                    entries.put(fields[0], decode(fields));
                }
            }
            return new Snapshot(txid, entries);
        }

        void write(Path file) {
            List<String> lines = new ArrayList<>(List.of(String.valueOf(txid)));
            entries.forEach((key, value) -> lines.add(key + "\t" + encode(value)));
            LedgerFiles.replace(file, lines);
        }
    }
}
