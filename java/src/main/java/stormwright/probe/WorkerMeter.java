package stormwright.probe;

import com.codahale.metrics.Gauge;
import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Objects;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Collectors;
import stormwright.probe.ExecutorThreads.ExecutorThread;
import stormwright.probe.system.ChildProcesses;
import stormwright.probe.system.Connections;
import stormwright.probe.system.Scheduling;
import stormwright.probe.system.SystemMeter;
import stormwright.standby.Takeover;

/** Turns the counters of a worker's tasks into records, one per interval; for one thread at a time. */
final class WorkerMeter {
    private static final int VERSION = 1;

    /** Age until which a worker reports the connections to it; the kernel lists those of all processes. */
    private static final long CONNECTING_MS = 60_000;

    /** How often the queues of an idle worker are read for a record, and the time between, which no flush divides. */
    private static final int QUEUE_READS = 20;
    private static final long QUEUE_PAUSE_NS = 700_000;

    private final WorkerIdentity identity;
    private final Set<String> spouts;
    private final Set<String> shells;
    private final int executionsPerSample;
    private final ThreadMXBean threads = ManagementFactory.getThreadMXBean();
    private final OperatingSystemMXBean system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    private final NavigableMap<Integer, TaskMeter> tasks = new TreeMap<>();
    private final SystemMeter machine = new SystemMeter();
    private final ChildProcesses children = new ChildProcesses();
    private final KafkaBacklog backlog;
    private List<ExecutorMeter> executors = List.of();
    private boolean complete;
    private long seq;
    private long startMs;
    private long startNs;
    private long startCpuNs;
    private long endMs;
    private long endNs;
    private long endCpuNs;
    private long childrenNs;

    /**
     * Makes one.
     *
     * @param spouts, shells components that are spouts, and whose executors run a process of another language each
     * @param executionsPerSample how many tuples a sampled execute time stands for
     */
    WorkerMeter(WorkerIdentity identity, Set<String> spouts, Set<String> shells, int executionsPerSample) {
        this.identity = identity;
        this.spouts = spouts;
        this.shells = shells;
        this.executionsPerSample = executionsPerSample;
        backlog = new KafkaBacklog(identity.topology(), identity.port());
        // Once more: the first reading loads classes, which takes CPU before the process is read.
        machine.read();
        machine.commit();
        startMs = System.currentTimeMillis();
        startNs = System.nanoTime();
        startCpuNs = system.getProcessCpuTime();
    }

    void add(TaskMeter task) {
        tasks.put(task.task(), task);
        complete = false;
        if (spouts.contains(task.component())) {
            backlog.start();
        }
    }

    /** Measures nothing more in the background. */
    void end() {
        backlog.stop();
    }

    /**
     * The record of the time since the last {@link #commit}, as a line of JSON.
     *
     * @param last whether the tasks have ended
     */
    byte[] record(boolean last) {
        // First: a thread of an executor that it counts is then found as one, and so not counted among the others too.
        machine.read();
        if (!complete) {
            findExecutors();
        }
        endMs = System.currentTimeMillis();
        endNs = System.nanoTime();
        endCpuNs = system.getProcessCpuTime();
        executors.forEach(executor -> executor.read(threads));
        tasks.values().forEach(TaskMeter::read);
        readChildren();
        readQueues();
        return write(last);
    }

    /**
     * Where tuples are sent in batches, Storm puts a tuple into each queue every millisecond that flushes them
     * ({@code topology.batch.flush.interval.millis}). So the queues of an idle topology are empty at different moments.
     */
    private void readQueues() {
        executors.forEach(ExecutorMeter::readQueue);
        for (int i = 0; i < QUEUE_READS && !isActive(); i++) {
            int waiting = 0;
            for (ExecutorMeter executor : executors) {
                waiting += executor.isQueueEmptyAgain() ? 0 : 1;
            }
            if (waiting == 0) {
                return;
            }
            LockSupport.parkNanos(QUEUE_PAUSE_NS);
        }
    }

    /**
     * The processes of executors in other languages. Which of them is whose is known to Storm alone: the CPU time of all
     * is divided by the tuples that the executors have received and emitted.
     */
    private void readChildren() {
        List<ExecutorMeter> own = executors.stream().filter(each -> shells.contains(each.component())).toList();
        if (own.isEmpty()) {
            return;
        }
        children.read();
        double tuples = own.stream().mapToLong(ExecutorMeter::tuples).sum();
        childrenNs = 0;
        for (ExecutorMeter each : own) {
            double part = tuples > 0 ? each.tuples() / tuples : 1.0 / own.size();
            // A record with more than two cores in one thread would be refused.
            long cpuNs = Math.min((long) (part * children.cpuNs()), endNs - startNs);
            each.setChildren(cpuNs);
            childrenNs += cpuNs;
        }
    }

    /** Tuples that the tasks have received and emitted since they began, until now. */
    long tuples() {
        return tasks.values().stream().mapToLong(TaskMeter::tuples).sum();
    }

    /** Whether a task has emitted or received a tuple since the last {@link #commit}, until the last {@link #record}. */
    boolean isActive() {
        return tasks.values().stream()
                .anyMatch(task -> task.grown(TaskCounts.EMITTED) > 0 || task.grown(TaskCounts.RECEIVED) > 0);
    }

    /** The last record is kept: the next one begins where it ends. */
    void commit() {
        executors.forEach(ExecutorMeter::commit);
        tasks.values().forEach(TaskMeter::commit);
        machine.commit();
        children.commit();
        startMs = endMs;
        startNs = endNs;
        startCpuNs = endCpuNs;
        seq++;
    }

    /** Executor threads start after their tasks are prepared, so at first some may be missing. */
    private void findExecutors() {
        NavigableMap<Integer, ExecutorThread> found = ExecutorThreads.find();
        Map<Integer, Gauge<?>> queues = QueueGauges.byTask(identity.topology());
        Map<Integer, List<TaskMeter>> members = new TreeMap<>();
        for (TaskMeter task : tasks.values()) {
            ExecutorThread thread = threadOf(task, found);
            int first = thread == null ? task.task() : thread.firstTask();
            members.computeIfAbsent(first, key -> new ArrayList<>()).add(task);
        }
        Map<Integer, ExecutorMeter> previous = new TreeMap<>();
        executors.forEach(executor -> previous.put(executor.firstTask(), executor));
        List<ExecutorMeter> current = new ArrayList<>();
        members.forEach((first, own) -> {
            ExecutorThread thread = threadOf(own.get(0), found);
            current.add(new ExecutorMeter(
                    first,
                    own,
                    spouts.contains(own.get(0).component()),
                    thread,
                    queues.get(first),
                    previous.get(first)));
        });
        executors = current;
        complete = executors.stream().allMatch(ExecutorMeter::hasThread);
    }

    private static ExecutorThread threadOf(TaskMeter task, NavigableMap<Integer, ExecutorThread> threads) {
        Map.Entry<Integer, ExecutorThread> entry = threads.floorEntry(task.task());
        return entry != null && entry.getValue().lastTask() >= task.task()
                && entry.getValue().component().equals(task.component()) ? entry.getValue() : null;
    }

    private byte[] write(boolean last) {
        Map<Edge, Integer> streams = new LinkedHashMap<>();
        tasks.values().forEach(task -> task.addStreams(streams));
        JsonLine json = new JsonLine().open('{').name("version").value(VERSION);
        writeIdentity(json.name("worker"), last);
        json.name("seq").value(seq)
                .name("start_ms").value(startMs)
                .name("length_ns").value(Math.max(1, endNs - startNs))
                .name("written_ms").value(System.currentTimeMillis())
                .name("process_cpu_ns").value(Math.max(0, endCpuNs - startCpuNs) + childrenNs)
                .name("heap_bytes").value(Runtime.getRuntime().totalMemory() - Runtime.getRuntime().freeMemory())
                .name("heap_limit_bytes").value(Long.getLong(Takeover.HEAP_PROPERTY, Runtime.getRuntime().maxMemory()));
        json.name("executors").open('[');
        Set<String> names = executors.stream().map(ExecutorMeter::threadName).filter(Objects::nonNull)
                .collect(Collectors.toSet());
        Map<String, Scheduling> scheduling = machine.scheduling(names);
        executors.forEach(each -> each.write(json, streams, executionsPerSample, scheduling.get(each.threadName())));
        json.close(']').name("streams").open('[');
        // All that there are, not only those with traffic: what is listed tells, for example, that trees are tracked.
        streams.keySet().forEach(edge -> json.open('[')
                .value(edge.source()).value(edge.stream()).value(edge.target()).value(edge.grouping()).close(']'));
        json.close(']').name("pairs").open('[');
        tasks.values().forEach(task -> task.writePairs(json, streams));
        writeLatency(json.close(']').name("complete_latency"));
        writeUnserializable(json);
        Long waiting = backlog.waiting();
        if (waiting != null) {
            json.name("backlog").value(waiting.longValue());
        }
        writeKnown(json, "threads", machine.threads(names));
        writeKnown(json, "gc", machine.gc());
        writeKnown(json, "node", machine.node());
        return json.close('}').end();
    }

    private void writeUnserializable(JsonLine json) {
        Map<List<String>, String> found = new TreeMap<>(Comparator.comparing(List::toString));
        tasks.values().forEach(task -> task.unserializable()
                .forEach((stream, why) -> found.put(List.of(task.component(), stream), why)));
        if (!found.isEmpty()) {
            json.name("unserializable").open('[');
            found.forEach((of, why) -> json.open('[').value(of.get(0)).value(of.get(1)).value(why).close(']'));
            json.close(']');
        }
    }

    private static void writeKnown(JsonLine json, String name, Map<String, Long> numbers) {
        if (!numbers.isEmpty()) {
            json.name(name).value(numbers);
        }
    }

    private void writeIdentity(JsonLine json, boolean last) {
        json.open('{').name("topology").value(identity.topology())
                .name("supervisor").value(identity.supervisor())
                .name("host").value(identity.host())
                .name("port").value(identity.port())
                .name("pid").value(identity.pid())
                .name("start_ms").value(identity.startMs())
                .name("last").value(last ? 1 : 0);
        if (identity.configuration() != null) {
            json.name("configuration").value(identity.configuration());
        }
        if (endMs - identity.startMs() < CONNECTING_MS) {
            json.name("connections").value(Connections.established(identity.port()));
        }
        json.close('}');
    }

    private void writeLatency(JsonLine json) {
        long[] counts = new long[LatencyHistogram.BUCKETS];
        int used = 0;
        for (int bucket = 0; bucket < counts.length; bucket++) {
            for (TaskMeter task : tasks.values()) {
                counts[bucket] += task.grown(TaskCounts.LATENCY + bucket);
            }
            used = counts[bucket] > 0 ? bucket + 1 : used;
        }
        // Without the edges of the buckets: they are the same in every record, and more than all the rest of a line.
        json.open('{').name("counts").open('[');
        for (int bucket = 0; bucket < used; bucket++) {
            json.value(counts[bucket]);
        }
        json.close(']').close('}');
    }
}
