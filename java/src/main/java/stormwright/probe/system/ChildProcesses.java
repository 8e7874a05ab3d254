package stormwright.probe.system;

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** CPU time of the processes that this one has started, with theirs: of bolts in other languages. */
public final class ChildProcesses {
    private static final Logger LOG = LoggerFactory.getLogger(ChildProcesses.class);

    /** To find them the processes of the whole machine are listed, so not in each interval. */
    private static final long SEARCH_NS = 10_000_000_000L;

    private List<ProcessHandle> children = List.of();
    private long nextSearchNs = System.nanoTime();
    private boolean measured = true;
    private Map<Long, Long> before = Map.of();
    private Map<Long, Long> now = Map.of();

    /** The interval ends now. What a process used after its last reading, when it has ended, is not counted. */
    public void read() {
        try {
            boolean known = !children.isEmpty() && children.stream().allMatch(ProcessHandle::isAlive);
            if (!known || System.nanoTime() - nextSearchNs >= 0) {
                children = ProcessHandle.current().descendants().toList();
                nextSearchNs = System.nanoTime() + SEARCH_NS;
            }
            Map<Long, Long> found = new HashMap<>();
            for (ProcessHandle child : children) {
                child.info().totalCpuDuration().map(Duration::toNanos).ifPresent(ns -> found.put(child.pid(), ns));
            }
            now = found;
        } catch (RuntimeException e) { // the rest of a record is worth as much without this
            if (measured) {
                LOG.info("processes of other languages are not measured: {}", e.toString());
            }
            measured = false;
            now = before;
        }
    }

    /** The next interval begins where this one ended. */
    public void commit() {
        before = now;
    }

    /** CPU time in this interval. */
    public long cpuNs() {
        return now.entrySet().stream()
                .mapToLong(child -> Math.max(0, child.getValue() - before.getOrDefault(child.getKey(), 0L))).sum();
    }
}
