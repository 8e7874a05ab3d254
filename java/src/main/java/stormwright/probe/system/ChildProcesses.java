package stormwright.probe.system;

import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.stream.Stream;

/** CPU time of the processes that this one has started, with theirs: of bolts in other languages. */
public final class ChildProcesses {
    private Map<Long, Long> before = Map.of();
    private Map<Long, Long> now = Map.of();

    /** The interval ends now. What a process used after its last reading, when it has ended, is not counted. */
    public void read() {
        Map<Long, Long> found = new HashMap<>();
        try (Stream<ProcessHandle> children = ProcessHandle.current().descendants()) {
            children.forEach(child -> child.info().totalCpuDuration().map(Duration::toNanos)
                    .ifPresent(cpuNs -> found.put(child.pid(), cpuNs)));
        }
        now = found;
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
