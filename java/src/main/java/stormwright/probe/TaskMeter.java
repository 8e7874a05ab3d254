package stormwright.probe;

import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** The counters of a task at the end of the last interval and now. */
final class TaskMeter {
    private final TaskCounts counts;
    private final Map<Integer, String> taskToComponent;
    private long[] before;
    private long[] now;

    TaskMeter(TaskCounts counts, Map<Integer, String> taskToComponent) {
        this.counts = counts;
        this.taskToComponent = taskToComponent;
        before = new long[counts.cells()];
        now = new long[counts.cells()];
    }

    int task() {
        return counts.task;
    }

    String component() {
        return counts.component;
    }

    /** Tuples received and emitted since the task began, without {@link #read}. */
    long tuples() {
        return counts.tuples();
    }

    void read() {
        counts.read(now);
    }

    void commit() {
        long[] old = before;
        before = now;
        now = old;
    }

    /** What a cell has grown by in this interval. */
    long grown(int cell) {
        return now[cell] - before[cell];
    }

    /** What a cell has counted since the task began. */
    long total(int cell) {
        return now[cell];
    }

    /** Stream → why its tuples cannot be sent to another worker, of those where that was found. */
    Map<String, String> unserializable() {
        return counts.unserializable();
    }

    void addStreams(Map<Edge, Integer> streams) {
        for (StreamCells stream : counts.streams()) {
            for (Edge edge : stream.edges) {
                streams.putIfAbsent(edge, streams.size());
            }
        }
        for (InputCells input : inputs()) {
            streams.putIfAbsent(input.edge, streams.size());
        }
    }

    /** Streams that its tuples come by, of which it counts each by itself; none where there are no several. */
    InputCells[] inputs() {
        return counts.inputs();
    }

    void writePairs(JsonLine json, Map<Edge, Integer> streams) {
        for (StreamCells stream : counts.streams()) {
            if (grown(stream.emissions) > 0) {
                writePairs(json, stream, streams);
            }
        }
    }

    private void writePairs(JsonLine json, StreamCells stream, Map<Edge, Integer> streams) {
        Map<String, Integer> byTarget = indexByTarget(stream.edges, streams);
        long samples = now[stream.samples];
        double meanBytes = samples == 0 ? 0 : (double) now[stream.sampledBytes] / samples;
        for (int target = stream.firstTarget; target <= stream.lastTarget; target++) {
            long tuples = grown(stream.cellOf(target));
            Integer edge = byTarget.get(taskToComponent.get(target));
            // null: a grouping of the user's has chosen a task that does not subscribe
            if (tuples > 0 && edge != null) {
                json.open('[').value(counts.task).value(target).value(edge)
                        .value(tuples).value(Math.round(tuples * meanBytes)).close(']');
            }
        }
    }

    private static Map<String, Integer> indexByTarget(List<Edge> edges, Map<Edge, Integer> streams) {
        Map<String, Integer> indexes = new HashMap<>();
        edges.forEach(edge -> indexes.put(edge.target(), streams.get(edge)));
        return indexes;
    }
}
