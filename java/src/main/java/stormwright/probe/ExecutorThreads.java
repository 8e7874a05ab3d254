package stormwright.probe;

import java.util.Arrays;
import java.util.NavigableMap;
import java.util.Objects;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Finds the threads of a worker's executors by the names that Storm gives them. */
final class ExecutorThreads {
    private static final String MARK = "-executor[";
    /** For example {@code Thread-12-split-executor[5, 6]}: of component split, tasks 5 to 6. */
    private static final Pattern NAME = Pattern.compile("Thread-\\d+-(.+)-executor\\[(\\d+), (\\d+)]");

    /** An executor's thread. */
    record ExecutorThread(String component, int firstTask, int lastTask, long id, String name) {
    }

    private ExecutorThreads() {
    }

    static boolean isExecutor(Thread thread) {
        return thread.getName().contains(MARK);
    }

    /** The live executor threads by first task; {@code __system} has none that does tasks' work. */
    static NavigableMap<Integer, ExecutorThread> find() {
        ThreadGroup group = Thread.currentThread().getThreadGroup();
        while (group.getParent() != null) {
            group = group.getParent();
        }
        // Unlike Thread.getAllStackTraces this stops nobody.
        Thread[] threads = new Thread[group.activeCount() * 2 + 16];
        int found = group.enumerate(threads);
        NavigableMap<Integer, ExecutorThread> executors = new TreeMap<>();
        Arrays.stream(threads, 0, found).map(ExecutorThreads::parse).filter(Objects::nonNull)
                .forEach(executor -> executors.put(executor.firstTask(), executor));
        return executors;
    }

    private static ExecutorThread parse(Thread thread) {
        Matcher name = NAME.matcher(thread.getName());
        if (!name.matches()) {
            return null;
        }
        return new ExecutorThread(
                name.group(1), Integer.parseInt(name.group(2)), Integer.parseInt(name.group(3)), thread.getId(),
                thread.getName());
    }
}
