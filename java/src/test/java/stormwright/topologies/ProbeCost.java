package stormwright.topologies;

import com.sun.management.OperatingSystemMXBean;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadInfo;
import java.lang.management.ThreadMXBean;
import java.lang.reflect.Field;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.AbstractList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.LongAdder;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.hooks.BaseTaskHook;
import org.apache.storm.hooks.ITaskHook;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.tuple.Fields;
import org.apache.storm.utils.ReflectionUtils;

/**
 * Word count whose workers take the probe off and on again every few seconds; {@code benchmarks/probe_cost.py} runs it.
 *
 * <p>How fast a worker becomes depends on what its JIT compiler happened to do first: two starts of the same topology
 * differ by half. So with and without are compared within a worker's life. The phases follow the clock that all workers
 * share. While the probe is off, Storm finds no hook, as if none had been configured.
 */
public final class ProbeCost {
    static final String HOOK = "probe.cost.hook";
    static final String PHASE_MS = "probe.cost.phase.ms";
    static final String DIRECTORY = "probe.cost.directory";

    private static final LongAdder ACKED = new LongAdder();
    private static final List<Switch> SWITCHES = new CopyOnWriteArrayList<>();

    private ProbeCost() {
    }

    public static void main(String[] args) {
        Map<String, String> defaults = Submission.defaults("probe-cost", "spouts", "2", "split", "4", "count", "4");
        Submission.run(args, defaults, ProbeCost::build);
    }

    private static StormTopology build(Arguments arguments) {
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout("spout", new CountingSpout(arguments), arguments.count("spouts", 1));
        builder.setBolt("split", new WordCount.Split(), arguments.count("split", 1)).shuffleGrouping("spout");
        builder.setBolt("count", new WordCount.Count(), arguments.count("count", 1))
                .fieldsGrouping("split", new Fields("word"));
        return builder.createTopology();
    }

    private static final class CountingSpout extends BookSpout {
        CountingSpout(Arguments arguments) {
            super(Unit.SENTENCE, arguments);
        }

        @Override
        public void ack(Object id) {
            ACKED.increment();
        }
    }

    /** The hook to configure: puts the one that is named in {@link #HOOK} on a task's list and takes it off again. */
    public static final class Hook extends BaseTaskHook {
        @Override
        public void prepare(Map<String, Object> conf, TopologyContext context) {
            ITaskHook hook = ReflectionUtils.newInstance((String) conf.get(HOOK));
            hook.prepare(conf, context);
            Switch hooks = new Switch(hook);
            hooks.install(context);
            SWITCHES.add(hooks);
            synchronized (SWITCHES) {
                if (SWITCHES.size() == 1) {
                    Phases phases = new Phases((Number) conf.get(PHASE_MS), (String) conf.get(DIRECTORY));
                    Thread thread = new Thread(phases, "probe-cost");
                    thread.setDaemon(true);
                    thread.start();
                }
            }
        }
    }

    /** A task's list of hooks, with the hook in it or without; executors may walk through it meanwhile. */
    private static final class Switch extends AbstractList<ITaskHook> {
        private final ITaskHook hook;
        private volatile boolean on;

        Switch(ITaskHook hook) {
            this.hook = hook;
        }

        void install(TopologyContext context) {
            try {
                Field field = TopologyContext.class.getDeclaredField("hooks");
                field.setAccessible(true);
                field.set(context, this);
            } catch (ReflectiveOperationException e) {
                throw new IllegalStateException(e);
            }
        }

        /** Storm adds the {@link Hook}, which has nothing more to do. */
        @Override
        public boolean add(ITaskHook hook) {
            return false;
        }

        @Override
        public ITaskHook get(int index) {
            return hook;
        }

        @Override
        public int size() {
            return on ? 1 : 0;
        }
    }

    /** Writes for each phase: its number, whether the probe was on, trees acked, CPU of all and of the probe's threads. */
    private static final class Phases implements Runnable {
        /** At the beginning of a phase so much of it is left to what the last one has left over. */
        private static final double UNSETTLED = 0.25;

        private final long phaseMs;
        private final Path file;
        private final OperatingSystemMXBean system =
                (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        private final ThreadMXBean threads = ManagementFactory.getThreadMXBean();

        Phases(Number phaseMs, String directory) {
            this.phaseMs = phaseMs.longValue();
            this.file = Path.of(directory, ProcessHandle.current().pid() + ".txt");
        }

        @Override
        public void run() {
            try {
                for (long phase = System.currentTimeMillis() / phaseMs + 1; ; phase++) {
                    sleepUntil(phase * phaseMs);
                    boolean on = phase % 2 == 0;
                    SWITCHES.forEach(each -> each.on = on);
                    sleepUntil((long) ((phase + UNSETTLED) * phaseMs));
                    long[] before = counts();
                    sleepUntil((phase + 1) * phaseMs);
                    long[] after = counts();
                    StringBuilder line = new StringBuilder().append(phase).append(' ').append(on ? 1 : 0);
                    for (int i = 0; i < before.length; i++) {
                        line.append(' ').append(after[i] - before[i]);
                    }
                    Files.writeString(file, line.append('\n'), StandardOpenOption.CREATE, StandardOpenOption.APPEND);
                }
            } catch (InterruptedException | IOException e) {
                throw new IllegalStateException(e);
            }
        }

        private long[] counts() {
            long probe = 0;
            for (ThreadInfo thread : threads.getThreadInfo(threads.getAllThreadIds())) {
                if (thread != null && thread.getThreadName().startsWith("stormwright-")) {
                    probe += threads.getThreadCpuTime(thread.getThreadId());
                }
            }
            return new long[] {System.nanoTime(), ACKED.sum(), system.getProcessCpuTime(), probe};
        }

        private static void sleepUntil(long timeMs) throws InterruptedException {
            Thread.sleep(Math.max(0, timeMs - System.currentTimeMillis()));
        }
    }
}
