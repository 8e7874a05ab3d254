package stormwright.probe.system;

import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.ToLongFunction;
import java.util.stream.Collectors;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import stormwright.probe.system.NativeThreads.Group;

/**
 * What a worker costs besides its executors, and what its node has: as numbers by the names of a record's fields, and
 * of an interval. What a system does not tell is left out; nothing is thrown.
 */
public final class SystemMeter {
    private static final Logger LOG = LoggerFactory.getLogger(SystemMeter.class);

    private final List<GarbageCollectorMXBean> collectors = ManagementFactory.getGarbageCollectorMXBeans();
    private NativeThreads threads;
    private Node node;
    private Collected before = collected();
    private Collected now = before;

    private record Collected(long collections, long ms) {
    }

    /** Counts from now on. */
    public SystemMeter() {
        this(Path.of("/proc"), Path.of("/sys/devices/system/cpu/cpu0"));
    }

    SystemMeter(Path proc, Path cpu) {
        guarded(() -> {
            SmallFiles files = new SmallFiles();
            threads = new NativeThreads(proc.resolve("self/task"), files);
            node = new Node(proc, cpu, Node.linked(), files);
        });
    }

    /** The interval ends now. */
    public void read() {
        now = collected();
        guarded(() -> {
            if (node != null) {
                threads.read();
                node.read();
            }
        });
    }

    /** The next interval begins where this one ended. */
    public void commit() {
        before = now;
        if (node != null) {
            threads.commit();
            node.commit();
        }
    }

    /**
     * CPU time of threads by what they are for.
     *
     * @param executors names of the threads of executors, which are left out
     */
    public Map<String, Long> threads(Set<String> executors) {
        Map<String, Long> values = new LinkedHashMap<>();
        Map<Group, Long> sums = node == null ? Map.of() : threads.cpuNs(marks(executors));
        if (!sums.isEmpty()) {
            values.put("messaging_ns", sums.getOrDefault(Group.MESSAGING, 0L));
            values.put("gc_ns", sums.getOrDefault(Group.GC, 0L));
            values.put("compiler_ns", sums.getOrDefault(Group.COMPILER, 0L));
            values.put("other_ns", sums.getOrDefault(Group.OTHER, 0L));
        }
        return values;
    }

    /**
     * How threads were scheduled; those of which it is not known are left out.
     *
     * @param executors their names
     */
    public Map<String, Scheduling> scheduling(Set<String> executors) {
        Map<String, Scheduling> byMark = node == null ? Map.of() : threads.scheduling();
        Map<String, Scheduling> found = new LinkedHashMap<>();
        for (String name : executors) {
            Scheduling own = byMark.get(String.valueOf(NativeThreads.mark(name)));
            if (own != null) {
                found.put(name, own);
            }
        }
        return found;
    }

    /** Collections of garbage and the ms that they took. */
    public Map<String, Long> gc() {
        Map<String, Long> values = new LinkedHashMap<>();
        values.put("collections", now.collections - before.collections);
        values.put("ms", now.ms - before.ms);
        return values;
    }

    /** What goes over the node's links and what CPU it has. */
    public Map<String, Long> node() {
        return node == null ? Map.of() : node.values();
    }

    private static Set<String> marks(Set<String> executors) {
        return executors.stream().map(NativeThreads::mark).collect(Collectors.toSet());
    }

    private Collected collected() {
        return new Collected(sum(GarbageCollectorMXBean::getCollectionCount),
                sum(GarbageCollectorMXBean::getCollectionTime));
    }

    private long sum(ToLongFunction<GarbageCollectorMXBean> value) {
        // -1 where a collector does not tell.
        return collectors.stream().mapToLong(value).filter(number -> number > 0).sum();
    }

    /** The rest of a record is worth as much without this. */
    private void guarded(Runnable reading) {
        try {
            reading.run();
        } catch (RuntimeException e) {
            LOG.info("the system is not measured any more: {}", e.toString());
            node = null;
        }
    }
}
