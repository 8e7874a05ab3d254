package stormwright.probe.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class SystemMeterTest {
    private static final String EXECUTOR = "Thread-4711-split-executor[4, 4]";

    @TempDir
    private Path root;

    /** Java's own clock of the same threads tells the same, to a few ticks of the kernel's. */
    @Test
    void agreesWithWhatJavaTells() throws InterruptedException {
        Assumptions.assumeTrue(Files.isReadable(Path.of("/proc/self/schedstat")));
        ThreadMXBean clock = ManagementFactory.getThreadMXBean();
        SystemMeter meter = new SystemMeter();
        CountDownLatch counted = new CountDownLatch(1);
        Thread executor = busy(EXECUTOR, clock, counted);
        Thread transfer = busy("Worker-Transfer", clock, counted);
        while (clock.getThreadCpuTime(executor.getId()) < 200_000_000
                || clock.getThreadCpuTime(transfer.getId()) < 200_000_000) {
            Thread.sleep(5);
        }
        // Those that sleep are counted to the last ns.
        Thread.sleep(100);
        long transferNs = clock.getThreadCpuTime(transfer.getId());
        meter.read();
        Map<String, Long> groups = meter.threads(Set.of(EXECUTOR));
        assertEquals(transferNs, groups.get("messaging_ns"), 20e6);
        assertTrue(meter.threads(Set.of()).get("other_ns") > groups.get("other_ns") + 180_000_000, groups.toString());
        assertEquals(Set.of(EXECUTOR), meter.scheduling(Set.of(EXECUTOR)).keySet());
        meter.commit();
        meter.read();
        assertTrue(meter.threads(Set.of(EXECUTOR)).get("messaging_ns") < 20_000_000);
        counted.countDown();
        executor.join();
        transfer.join();
    }

    private static Thread busy(String name, ThreadMXBean clock, CountDownLatch end) {
        Thread thread = new Thread(() -> {
            while (clock.getCurrentThreadCpuTime() < 200_000_000) {
                Thread.onSpinWait();
            }
            try {
                end.await();
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }, name);
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    @Test
    void collectionsOfAnInterval() {
        SystemMeter meter = new SystemMeter();
        System.gc();
        meter.read();
        assertTrue(meter.gc().get("collections") >= 1, meter.gc().toString());
        meter.commit();
        assertEquals(Map.of("collections", 0L, "ms", 0L), meter.gc());
    }

    @Test
    void aSystemThatTellsNothingDoesNoHarm() {
        SystemMeter meter = new SystemMeter(root, root);
        meter.read();
        meter.commit();
        assertEquals(Map.of(), meter.threads(Set.of(EXECUTOR)));
        assertEquals(Map.of(), meter.scheduling(Set.of(EXECUTOR)));
        assertEquals(Set.of("millicores"), meter.node().keySet());
    }

    @Test
    void aSystemThatTellsNonsenseDoesNoHarm() {
        Assumptions.assumeFalse(Node.linked().isEmpty());
        Kernel kernel = new Kernel(root);
        kernel.thread(1, "java", 1, 1);
        kernel.traffic("lo: 1 1");
        SystemMeter meter = new SystemMeter(kernel.proc(), kernel.cpu());
        assertEquals(4, meter.threads(Set.of()).size());
        kernel.traffic(Node.linked().iterator().next() + ": many more");
        meter.read();
        meter.commit();
        assertEquals(Map.of(), meter.threads(Set.of()));
        assertEquals(Map.of(), meter.node());
        assertEquals(Set.of("collections", "ms"), meter.gc().keySet());
    }
}
