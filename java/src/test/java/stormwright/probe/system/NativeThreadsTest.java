package stormwright.probe.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import java.io.IOException;
import java.nio.file.Path;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import stormwright.probe.system.NativeThreads.Group;

class NativeThreadsTest {
    @TempDir
    private Path root;

    private NativeThreads threads(Kernel kernel) {
        return new NativeThreads(kernel.tasks(), new SmallFiles());
    }

    /** Names as they are found in the worker of Storm 2.8.3 on Java 17, cut by Linux. */
    @Test
    void namesTellWhatAThreadIsFor() {
        for (String name : new String[] {"Worker-Transfer", "Netty-server-lo", "client-worker-1"}) {
            assertEquals(Group.MESSAGING, NativeThreads.group(name), name);
        }
        for (String name : new String[] {"VM Thread", "GC Thread#0", "G1 Conc#0", "G1 Main Marker"}) {
            assertEquals(Group.GC, NativeThreads.group(name), name);
        }
        for (String name : new String[] {"C2 CompilerThre", "C1 CompilerThre"}) {
            assertEquals(Group.COMPILER, NativeThreads.group(name), name);
        }
        for (String name : new String[] {"VM Periodic Tas", "client-schedule", "Netty-ChannelAl", "stormwright-pro",
            "Thread-14-__sys", "heartbeat-timer", "java", ""}) {
            assertEquals(Group.OTHER, NativeThreads.group(name), name);
        }
    }

    @Test
    void whatExecutorsUseIsInNoGroup() {
        Kernel kernel = new Kernel(root);
        kernel.thread(1, "java", 10, 1);
        kernel.thread(2, "Thread-5-split-", 1000, 300);
        kernel.thread(3, "Thread-14-__sys", 40, 4);
        kernel.thread(4, "Worker-Transfer", 500, 50);
        NativeThreads threads = threads(kernel);
        kernel.thread(1, "java", 11, 1);
        kernel.thread(2, "Thread-5-split-", 3000, 350, 12);
        kernel.thread(3, "Thread-14-__sys", 42, 4);
        kernel.thread(4, "Worker-Transfer", 600, 60);
        kernel.thread(5, "client-worker-1", 7, 0); // began meanwhile
        threads.read();
        Set<String> executors = Set.of(NativeThreads.mark("Thread-5-split-executor[4, 5]"));
        assertEquals(Map.of(Group.MESSAGING, 107L, Group.OTHER, 3L), threads.cpuNs(executors));
        assertEquals(Map.of("Thread-5-", new Scheduling(50, 7), "Thread-14-", new Scheduling(0, 0)), threads.scheduling());
        threads.commit();
        threads.read();
        assertEquals(Map.of(Group.MESSAGING, 0L, Group.OTHER, 0L), threads.cpuNs(executors));
    }

    /** Until then it has the name of the thread that made it; it would be counted among others, and as an executor too. */
    @Test
    void aThreadThatBeginsToRunLateIsCalledWhatItIs() {
        Kernel kernel = new Kernel(root);
        kernel.thread(1, "java", 0, 0);
        NativeThreads threads = threads(kernel);
        for (int reading = 0; reading < 4; reading++) {
            threads.read();
        }
        kernel.thread(1, "Thread-5-split-", 1000, 300);
        threads.read();
        Set<String> executors = Set.of(NativeThreads.mark("Thread-5-split-executor[4, 5]"));
        assertEquals(Map.of(), threads.cpuNs(executors));
        assertEquals(Map.of("Thread-5-", new Scheduling(300, 0)), threads.scheduling());
    }

    @Test
    void aRecordThatIsNotWrittenIsInTheNextOne() {
        Kernel kernel = new Kernel(root);
        kernel.thread(1, "VM Thread", 100, 0);
        NativeThreads threads = threads(kernel);
        kernel.thread(1, "VM Thread", 130, 0);
        threads.read();
        kernel.thread(1, "VM Thread", 150, 0);
        threads.read();
        assertEquals(Map.of(Group.GC, 50L), threads.cpuNs(Set.of()));
    }

    @Test
    void threadsThatEndAreForgottenAndTheirIdsAreGivenAgain() throws IOException {
        Kernel kernel = new Kernel(root);
        kernel.thread(1, "VM Thread", 100, 0);
        kernel.thread(2, "C2 CompilerThre", 1000, 0);
        NativeThreads threads = threads(kernel);
        kernel.gone(1);
        kernel.thread(2, "client-worker-1", 30, 2);
        threads.read();
        assertEquals(Map.of(Group.MESSAGING, 30L), threads.cpuNs(Set.of()));
    }

    /** Else all that it has ever used would be counted once more. */
    @Test
    void aThreadThatCannotBeReadOnceIsStillTheSame() {
        Kernel kernel = new Kernel(root);
        kernel.thread(1, "VM Thread", 1000, 0);
        NativeThreads threads = threads(kernel);
        kernel.write(kernel.tasks().resolve("1/schedstat"), "");
        threads.read();
        assertEquals(Map.of(Group.GC, 0L), threads.cpuNs(Set.of()));
        threads.commit();
        kernel.thread(1, "VM Thread", 1010, 0);
        threads.read();
        assertEquals(Map.of(Group.GC, 10L), threads.cpuNs(Set.of()));
    }

    /** It has the name of the thread that made it until it runs. */
    @Test
    void aThreadMayTakeItsNameAMomentLater() {
        Kernel kernel = new Kernel(root);
        kernel.thread(1, "java", 0, 0);
        NativeThreads threads = threads(kernel);
        kernel.thread(1, "Worker-Transfer", 20, 0);
        threads.read();
        assertEquals(Map.of(Group.MESSAGING, 20L), threads.cpuNs(Set.of()));
    }

    /** Files of so many do not stay open. */
    @Test
    void thousandsOfThreadsAreCounted() {
        Kernel kernel = new Kernel(root);
        for (int id = 1; id <= 1000; id++) {
            kernel.thread(id, "Netty-server-lo", 10, 0);
        }
        NativeThreads threads = threads(kernel);
        for (int id = 1; id <= 1000; id++) {
            kernel.thread(id, "Netty-server-lo", 10 + id, 0);
        }
        threads.read();
        assertEquals(Map.of(Group.MESSAGING, 500_500L), threads.cpuNs(Set.of()));
    }

    @Test
    void whereNothingIsToldNothingIsKnown() {
        Kernel kernel = new Kernel(root);
        NativeThreads threads = threads(kernel);
        assertEquals(Map.of(), threads.cpuNs(Set.of()));
        kernel.write(kernel.tasks().resolve("1/schedstat"), "not there\n");
        threads.read();
        assertEquals(Map.of(), threads.cpuNs(Set.of()));
        assertNull(NativeThreads.mark("my-own-thread"));
    }
}
