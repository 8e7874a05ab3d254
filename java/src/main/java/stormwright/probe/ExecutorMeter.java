package stormwright.probe;

import com.codahale.metrics.Gauge;
import java.lang.management.ThreadMXBean;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.apache.storm.utils.Utils;
import stormwright.probe.ExecutorThreads.ExecutorThread;
import stormwright.probe.system.Scheduling;

/** An executor: its tasks, its thread's CPU time at the end of the last interval and now, and its queue. */
final class ExecutorMeter {
    private final int firstTask;
    private final int lastTask;
    private final List<TaskMeter> tasks;
    private final boolean spout;
    private final Gauge<?> queue;
    private Double population;
    private final ExecutorThread thread;
    private long cpuBeforeNs;
    private long cpuNowNs;
    private long childrenNs;

    /**
     * Makes one.
     *
     * @param firstTask its first task, which is all that is known of it without a thread
     * @param thread null as long as it is not found
     * @param previous the same executor as it was known before, or null
     */
    ExecutorMeter(int firstTask, List<TaskMeter> tasks, boolean spout, ExecutorThread thread, Gauge<?> queue,
            ExecutorMeter previous) {
        this.firstTask = firstTask;
        this.lastTask = thread == null ? firstTask : thread.lastTask();
        this.tasks = tasks;
        this.spout = spout;
        this.thread = thread;
        this.queue = queue;
        if (previous != null && Objects.equals(previous.thread, thread)) {
            cpuBeforeNs = previous.cpuBeforeNs;
            cpuNowNs = previous.cpuNowNs;
        }
    }

    /** Reads the population of the queue. */
    void readQueue() {
        population = QueueGauges.read(queue);
    }

    /** Reads it again unless it was empty, keeps the lower one, and tells whether it is empty now or not known. */
    boolean isQueueEmptyAgain() {
        if (population != null && population > 0) {
            Double again = QueueGauges.read(queue);
            population = again == null ? population : Double.valueOf(Math.min(population, again));
        }
        return population == null || population == 0;
    }

    int firstTask() {
        return firstTask;
    }

    String component() {
        return tasks.get(0).component();
    }

    /** Tuples received and emitted in this interval. */
    long tuples() {
        return sum(TaskCounts.RECEIVED) + sum(TaskCounts.EMITTED);
    }

    boolean hasThread() {
        return thread != null;
    }

    /** The name of its thread; null as long as that is not found. */
    String threadName() {
        return thread == null ? null : thread.name();
    }

    void read(ThreadMXBean threads) {
        if (hasThread()) {
            // -1 once the thread has ended: then it stays at what was read last.
            cpuNowNs = Math.max(cpuNowNs, threads.getThreadCpuTime(thread.id()));
        }
    }

    /** CPU time in this interval of the process that it runs. */
    void setChildren(long cpuNs) {
        childrenNs = cpuNs;
    }

    void commit() {
        cpuBeforeNs = cpuNowNs;
    }

    /**
     * Writes the executor's part of a record.
     *
     * @param streams where each stream stands in the record
     * @param executionsPerSample how many tuples a sampled execute time stands for
     * @param scheduling how its thread was scheduled; null where it is not known
     */
    void write(JsonLine json, Map<Edge, Integer> streams, int executionsPerSample, Scheduling scheduling) {
        String component = component();
        json.open('{').name("component").value(component)
                .name("type").value(spout ? "spout" : Utils.isSystemId(component) ? "system" : "bolt")
                .name("first_task").value(firstTask)
                .name("last_task").value(lastTask)
                .name("cpu_ns").value(cpuNowNs - cpuBeforeNs + childrenNs)
                .name("received").value(sum(TaskCounts.RECEIVED))
                .name("emitted").value(sum(TaskCounts.EMITTED))
                .name("trees").value(sum(TaskCounts.TREES))
                .name("acked").value(sum(TaskCounts.ACKED))
                .name("failed").value(sum(TaskCounts.FAILED))
                .name("execute_ns").value(sum(TaskCounts.EXECUTED_SAMPLED_MS) * 1_000_000L * executionsPerSample)
                .name("queue").value(population)
                .name("pending").value(pending());
        if (scheduling != null) {
            json.name("waited_ns").value(scheduling.waitedNs()).name("runs").value(scheduling.runs());
        }
        writeInputs(json, streams, executionsPerSample);
        json.close('}');
    }

    private void writeInputs(JsonLine json, Map<Edge, Integer> streams, int executionsPerSample) {
        InputCells[] inputs = tasks.get(0).inputs(); // tasks of one component have the same ones
        if (inputs.length == 0) {
            return;
        }
        json.name("inputs").open('[');
        for (InputCells input : inputs) {
            long tuples = sum(input.tuples);
            if (tuples > 0) {
                json.open('[').value(streams.get(input.edge)).value(tuples)
                        .value(sum(input.sampledMs) * 1_000_000L * executionsPerSample).close(']');
            }
        }
        json.close(']');
    }

    private long pending() {
        long begun = tasks.stream().mapToLong(task -> task.total(TaskCounts.TREES)).sum();
        long ended = tasks.stream().mapToLong(task -> task.total(TaskCounts.ACKED) + task.total(TaskCounts.FAILED)).sum();
        // Counters are read one after the other while they count.
        return spout ? Math.max(0, begun - ended) : 0;
    }

    private long sum(int cell) {
        return tasks.stream().mapToLong(task -> task.grown(cell)).sum();
    }
}
