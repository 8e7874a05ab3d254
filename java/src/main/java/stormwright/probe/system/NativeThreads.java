package stormwright.probe.system;

import java.io.File;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;

/**
 * CPU time of all threads of this process, those of the JVM itself included, and how long they waited for a core.
 *
 * <p>Java's beans tell of Java's threads only and of no waiting; Linux tells both of every thread, in
 * {@code /proc/self/task/ID/schedstat}.
 */
final class NativeThreads {
    /** What threads are for; {@code OTHER} are timers, heartbeats, metrics and our own. */
    enum Group { MESSAGING, GC, COMPILER, OTHER }

    /** Before the number that Java gave a thread. */
    private static final String NUMBERED = "Thread-";
    /** Linux keeps so many bytes of a name. */
    private static final int NAME_BYTES = 15;

    /** Beginnings of names, as far as Linux keeps them. */
    private static final Map<Group, String[]> NAMES = Map.of(
            Group.MESSAGING, new String[] {"Worker-Transfer", "Netty-server-", "client-worker-"},
            // The serial collector works in the VM thread.
            Group.GC, new String[] {"VM Thread", "GC Thread#", "G1 ", "ZDriver", "ZWorker", "ZDirector", "ZStat",
                "ZUnmapper", "ZUncommitter", "Shenandoah"},
            Group.COMPILER, new String[] {"C1 Compiler", "C2 Compiler", "JVMCI"});

    /** A name counts once a thread was seen to run so often; of one that does not run it is read so often at most. */
    private static final int RUNNING_READINGS = 2;
    private static final int NAME_READINGS = 20;

    /** Of so many threads the file stays open: opening it is most of what reading it costs. */
    private static final int MOST_OPEN = 256;

    private final Path tasks;
    private final SmallFiles files;
    private final byte[] buffer = new byte[128];
    private Map<String, NativeThread> threads = new HashMap<>();

    /**
     * Makes one and takes a first reading, from which it counts.
     *
     * @param tasks the directory with one directory per thread
     */
    NativeThreads(Path tasks, SmallFiles files) {
        this.tasks = tasks;
        this.files = files;
        read();
        commit();
    }

    void read() {
        String[] ids = new File(tasks.toString()).list();
        Map<String, NativeThread> now = new HashMap<>();
        for (String id : ids == null ? new String[0] : ids) {
            NativeThread known = threads.remove(id);
            NativeThread thread = known == null ? new NativeThread(tasks.resolve(id)) : known;
            if (thread.read(now.size() < MOST_OPEN)) {
                now.put(id, thread);
            }
        }
        threads.values().forEach(NativeThread::close);
        threads = now;
    }

    void commit() {
        threads.values().forEach(NativeThread::commit);
    }

    /**
     * CPU time by group since the last {@link #commit}, in ns; empty where it is not known.
     *
     * @param executors marks of the threads that belong to no group
     */
    Map<Group, Long> cpuNs(Set<String> executors) {
        Map<Group, Long> sums = new HashMap<>();
        for (NativeThread thread : threads.values()) {
            if (thread.mark == null || !executors.contains(thread.mark)) {
                sums.merge(thread.group, thread.cpuNowNs - thread.cpuBeforeNs, Long::sum);
            }
        }
        return sums;
    }

    /** How threads were scheduled since the last {@link #commit}, by mark. */
    Map<String, Scheduling> scheduling() {
        Map<String, Scheduling> found = new HashMap<>();
        for (NativeThread thread : threads.values()) {
            if (thread.mark != null) {
                found.put(thread.mark, new Scheduling(
                        thread.waitedNowNs - thread.waitedBeforeNs, thread.runsNow - thread.runsBefore));
            }
        }
        return found;
    }

    /** The beginning of a name that tells threads apart which Java has numbered; null for any other name. */
    static String mark(String name) {
        int dash = name.startsWith(NUMBERED) ? name.indexOf('-', NUMBERED.length()) : -1;
        return dash >= 0 && dash < NAME_BYTES ? name.substring(0, dash + 1) : null;
    }

    static Group group(String name) {
        for (Map.Entry<Group, String[]> entry : NAMES.entrySet()) {
            for (String beginning : entry.getValue()) {
                if (name.startsWith(beginning)) {
                    return entry.getKey();
                }
            }
        }
        return Group.OTHER;
    }

    private final class NativeThread {
        private final Path directory;
        private RandomAccessFile stat;
        private boolean known;
        private int nameReadings;
        private int runningReadings;
        private String mark;
        private Group group = Group.OTHER;
        private long cpuBeforeNs;
        private long cpuNowNs;
        private long waitedBeforeNs;
        private long waitedNowNs;
        private long runsBefore;
        private long runsNow;

        NativeThread(Path directory) {
            this.directory = directory;
        }

        /** Whether anything is known of the thread; what cannot be read now is as it was. */
        boolean read(boolean stayOpen) {
            int length = readStat(stayOpen);
            int space = indexOf(' ', 0, length);
            int second = indexOf(' ', space + 1, length);
            int third = indexOf('\n', second + 1, length);
            if (third == length) {
                return known;
            }
            known = true;
            long cpuNs = number(0, space);
            if (cpuNs < cpuNowNs) {
                forget();
            }
            boolean ran = cpuNs > cpuNowNs;
            cpuNowNs = cpuNs;
            waitedNowNs = number(space + 1, second);
            runsNow = number(second + 1, third);
            // A thread has the name of the one that made it until it begins to run, on a busy machine for a while.
            boolean unsure = runningReadings < RUNNING_READINGS && nameReadings < NAME_READINGS;
            String name = unsure ? files.read(directory.resolve("comm")) : null;
            if (name != null) {
                nameReadings++;
                runningReadings += ran ? 1 : 0;
                mark = mark(name);
                group = group(name);
            }
            return true;
        }

        /** Reads CPU time, time waited and times run into the buffer; says how many bytes that is. */
        private int readStat(boolean stayOpen) {
            try {
                if (stat == null) {
                    stat = new RandomAccessFile(directory.resolve("schedstat").toString(), "r");
                }
                stat.seek(0);
                int length = stat.read(buffer);
                if (!stayOpen) {
                    close();
                }
                return Math.max(0, length);
            } catch (IOException e) {
                if (stat != null) {
                    forget(); // what could be opened cannot be read: it has ended
                }
                close();
                return 0;
            }
        }

        /** The id of a thread that has ended is given to another. */
        private void forget() {
            nameReadings = 0;
            runningReadings = 0;
            cpuBeforeNs = 0;
            cpuNowNs = 0;
            waitedBeforeNs = 0;
            waitedNowNs = 0;
            runsBefore = 0;
            runsNow = 0;
        }

        private int indexOf(char wanted, int from, int length) {
            int at = from;
            while (at < length && buffer[at] != wanted) {
                at++;
            }
            return Math.min(at, length);
        }

        private long number(int from, int to) {
            long number = 0;
            for (int at = from; at < to; at++) {
                number = 10 * number + buffer[at] - '0';
            }
            return number;
        }

        void close() {
            if (stat != null) {
                try {
                    stat.close();
                } catch (IOException e) {
                    // There is nothing in it to lose.
                }
                stat = null;
            }
        }

        void commit() {
            cpuBeforeNs = cpuNowNs;
            waitedBeforeNs = waitedNowNs;
            runsBefore = runsNow;
        }
    }
}
