package stormwright.topologies;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;

/** Work that takes CPU time of the calling thread, not time: a node without CPU to spare takes longer over it. */
final class Work {
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();

    private Work() {
    }

    static void burn(long ns) {
        if (ns > 0) {
            long end = THREADS.getCurrentThreadCpuTime() + ns;
            while (THREADS.getCurrentThreadCpuTime() < end) {
                Thread.onSpinWait();
            }
        }
    }
}
