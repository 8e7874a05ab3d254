package stormwright.probe;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.storm.hooks.info.BoltExecuteInfo;
import org.apache.storm.hooks.info.EmitInfo;
import org.apache.storm.hooks.info.SpoutAckInfo;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.utils.Utils;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** What one task has done since its worker started. */
public final class TaskCounts {
    private static final Logger LOG = LoggerFactory.getLogger(TaskCounts.class);

    static final int RECEIVED = 0;
    /** While counting, only of streams that nobody subscribes to; {@link #read} adds the others. */
    static final int EMITTED = 1;
    /** Not counted: {@link #read} finds it from the streams. */
    static final int TREES = 2;
    static final int ACKED = 3;
    static final int FAILED = 4;
    static final int EXECUTED_SAMPLED_MS = 5;
    static final int LATENCY = 6;
    private static final int FIRST_STREAM = LATENCY + LatencyHistogram.BUCKETS;

    /** So many tuples of each stream are sized after every {@link #read}: by time, so that fast streams pay no more. */
    private static final int SAMPLES = 4;

    final int task;
    final String component;
    private final StreamCells[] streams;
    private final InputCells[] inputs;
    private final Counters counters;
    private final PayloadSampler sampler;
    private final boolean systemComponent;
    private final boolean tracksTrees;
    private final AtomicLong uncounted = new AtomicLong();

    /**
     * Makes those of a task.
     *
     * @param edges streams of its component, with all that subscribe to them
     * @param inputs streams that its component subscribes to
     */
    TaskCounts(int task, String component, List<Edge> edges, List<Edge> inputs, TopologyContext context,
            PayloadSampler sampler) {
        this.task = task;
        this.component = component;
        this.sampler = sampler;
        this.systemComponent = Utils.isSystemId(component);
        this.streams = layOut(edges, context);
        this.tracksTrees = Arrays.stream(streams).anyMatch(stream -> stream.beginsTrees);
        int next = streams.length == 0 ? FIRST_STREAM : streams[streams.length - 1].endCell();
        // Ackers do next to the same for all, and are told of every tuple.
        this.inputs = systemComponent ? InputCells.NONE : InputCells.layOut(inputs, next);
        this.counters = new Counters(
                this.inputs.length == 0 ? next : this.inputs[this.inputs.length - 1].endCell());
    }

    private static StreamCells[] layOut(List<Edge> edges, TopologyContext context) {
        Map<String, List<Edge>> byStream = new TreeMap<>();
        edges.forEach(edge -> byStream.computeIfAbsent(edge.stream(), key -> new ArrayList<>()).add(edge));
        List<StreamCells> streams = new ArrayList<>();
        int next = FIRST_STREAM;
        for (Map.Entry<String, List<Edge>> stream : byStream.entrySet()) {
            int first = Integer.MAX_VALUE;
            int last = Integer.MIN_VALUE;
            for (Edge edge : stream.getValue()) {
                for (int target : Edge.tasksOf(edge.target(), context)) {
                    first = Math.min(first, target);
                    last = Math.max(last, target);
                }
            }
            StreamCells cells = new StreamCells(stream.getKey().intern(), stream.getValue(), first, last, next);
            streams.add(cells);
            next = cells.endCell();
        }
        return streams.toArray(StreamCells[]::new);
    }

    /** Counts an emission, and a tuple for each task that it goes to. */
    public void emitted(EmitInfo info) {
        try {
            boolean owned = counters.ownedByCaller();
            StreamCells stream = find(info.stream);
            if (stream == null) { // nobody subscribes to it
                counters.add(owned, EMITTED, 1);
                return;
            }
            // Only the owner may use the serializer.
            if (owned && stream.samplesDue > 0) {
                sample(stream, info.values);
            }
            counters.add(owned, stream.emissions, 1);
            countTargets(owned, stream, info.outTasks);
        } catch (Throwable e) {
            complain(e);
        }
    }

    private void countTargets(boolean owned, StreamCells stream, Collection<Integer> targets) {
        // A class and not List: tests for an interface contend for one field of the class between all threads.
        if (targets instanceof ArrayList<Integer> list) {
            for (int i = 0; i < list.size(); i++) {
                countTarget(owned, stream, list.get(i));
            }
        } else {
            for (Integer target : targets) {
                countTarget(owned, stream, target);
            }
        }
    }

    private void countTarget(boolean owned, StreamCells stream, Integer target) {
        // null: a tuple sent directly to a task that does not subscribe to the stream; Storm drops it
        if (target != null && target >= stream.firstTarget && target <= stream.lastTarget) {
            counters.add(owned, stream.cellOf(target), 1);
        }
    }

    private void sample(StreamCells stream, List<Object> values) {
        stream.samplesDue--;
        if (!sampler.works() || stream.unserializable != null) { // no reason to try each again
            return;
        }
        try {
            int bytes = sampler.sizeOf(values);
            counters.add(true, stream.samples, 1);
            counters.add(true, stream.sampledBytes, bytes);
        } catch (PayloadSampler.UnserializableException e) {
            stream.unserializable = e.getMessage();
            LOG.warn("{} sends tuples on stream {} that cannot leave this worker: {}", component, stream.name, e.getMessage());
        }
    }

    /** Stream → why its tuples cannot be sent to another worker, of those where that was found. */
    Map<String, String> unserializable() {
        Map<String, String> found = new TreeMap<>();
        for (StreamCells stream : streams) {
            String why = stream.unserializable;
            if (why != null && !stream.system) {
                found.put(stream.name, why);
            }
        }
        return found;
    }

    @SuppressWarnings("StringEquality")
    private StreamCells find(String name) {
        for (StreamCells stream : streams) {
            if (stream.name == name) {
                return stream;
            }
        }
        for (StreamCells stream : streams) {
            if (stream.name.equals(name)) {
                return stream;
            }
        }
        return null;
    }

    /** Counts a tuple that a bolt has executed; ticks are not from any task and do not count. */
    public void executed(BoltExecuteInfo info) {
        try {
            boolean owned = counters.ownedByCaller();
            InputCells input = null;
            if (info.tuple.getSourceTask() >= 0) {
                counters.add(owned, RECEIVED, 1);
                input = inputs.length == 0 ? null : InputCells.find(inputs, info.tuple);
            }
            if (input != null) {
                counters.add(owned, input.tuples, 1);
            }
            // Whole ms, but of a clock that does not know when a tuple begins: right on average.
            if (info.executeLatencyMs != null && info.executeLatencyMs > 0) {
                counters.add(owned, EXECUTED_SAMPLED_MS, info.executeLatencyMs);
                if (input != null) {
                    counters.add(owned, input.sampledMs, info.executeLatencyMs);
                }
            }
        } catch (Throwable e) {
            complain(e);
        }
    }

    /** Counts a tuple that a bolt has acked. */
    public void acked() {
        add(ACKED);
    }

    /** Counts a tuple or a tree that has failed. */
    public void failed() {
        add(FAILED);
    }

    private void add(int cell) {
        try {
            counters.add(counters.ownedByCaller(), cell, 1);
        } catch (Throwable e) {
            complain(e);
        }
    }

    /** Counts a tree that is complete. */
    public void completed(SpoutAckInfo info) {
        try {
            boolean owned = counters.ownedByCaller();
            counters.add(owned, ACKED, 1);
            counters.add(owned, RECEIVED, 1);
            // Without ackers Storm calls every tuple complete at once, in 0 ms.
            if (info.completeLatencyMs != null && tracksTrees) {
                counters.add(owned, LATENCY + LatencyHistogram.bucketOf(info.completeLatencyMs), 1);
            }
        } catch (Throwable e) {
            complain(e);
        }
    }

    /** Nothing leaves a callback: whoever called it is the topology. */
    private void complain(Throwable e) {
        try {
            if (uncounted.getAndIncrement() == 0) {
                LOG.error("counts of task {} may be wrong", task, e);
            }
        } catch (Throwable again) {
            // Where a stack or the heap has no room, a logger finds none either; it is counted.
        }
    }

    /** Calls that were not counted, or not wholly, because something was thrown. */
    public long uncounted() {
        return uncounted.get();
    }

    StreamCells[] streams() {
        return streams;
    }

    InputCells[] inputs() {
        return inputs;
    }

    int cells() {
        return counters.size();
    }

    /** Tuples received and emitted since the task began; cheap. */
    long tuples() {
        long found = counters.get(RECEIVED) + counters.get(EMITTED);
        for (StreamCells stream : streams) {
            found += counters.get(stream.emissions);
        }
        return found;
    }

    void read(long[] into) {
        counters.read(into);
        for (StreamCells stream : streams) {
            stream.samplesDue = SAMPLES;
            long emissions = into[stream.emissions];
            if (!stream.system || systemComponent) {
                into[EMITTED] += emissions;
            }
            if (stream.beginsTrees) {
                into[TREES] += emissions;
            }
        }
    }
}
