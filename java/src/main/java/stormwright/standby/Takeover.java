package stormwright.standby;

import com.sun.management.HotSpotDiagnosticMXBean;
import java.io.File;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.lang.management.MemoryMXBean;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.function.UnaryOperator;
import java.util.stream.Stream;
import org.apache.logging.log4j.LogManager;
import org.apache.logging.log4j.core.LoggerContext;
import org.apache.storm.utils.VersionInfo;

/** What a running JVM takes over from the command of a worker, and what it cannot. */
public final class Takeover {
    /** Lines of Storm whose worker has been tried. */
    private static final List<String> STORM_LINES = List.of("2.6.", "2.7.", "2.8.", "3.0.");

    /** Variables that a process or JVM reads when it starts. */
    private static final Set<String> START_VARIABLES = Set.of(
            "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "LD_PRELOAD", "MALLOC_ARENA_MAX", "TZ", "LANG", "LC_ALL");

    /** System property of a worker that was a standby: when it became the worker, in ms since 1970. */
    public static final String START_PROPERTY = "stormwright.worker.start.ms";

    /** System property of a worker that was a standby: the maximum of its heap in bytes, below that of the JVM. */
    public static final String HEAP_PROPERTY = "stormwright.worker.heap.bytes";

    /** Options with which a request does not collect all garbage. */
    private static final List<String> NO_FULL_COLLECTION =
            List.of("-XX:+DisableExplicitGC", "-XX:+ExplicitGCInvokesConcurrent");

    private static final String LIBRARY_PATH = "java.library.path";
    private static final String HEAP = "-Xmx";
    private static final long HEAP_CHECK_MS = 500;

    /** The class path that this JVM was started with, before its directories were expanded to jars. */
    private static final String OWN_CLASS_PATH = System.getProperty("stormwright.class.path", "");

    /** A standby cannot become a worker. */
    public static final class RefusedException extends Exception {
        private static final long serialVersionUID = 1L;

        RefusedException(String reason) {
            super(reason);
        }
    }

    private Takeover() {
    }

    /** Why no standby can become a worker with this Storm and this JVM; empty if one can. */
    public static String whyUnsupported() {
        String version = VersionInfo.getVersion();
        if (STORM_LINES.stream().noneMatch(version::startsWith)) {
            return "Storm " + version + " has not been tried, only " + String.join("x, ", STORM_LINES) + "x";
        }
        try {
            appendToClassPath();
            environmentConverter("Variable");
            environment();
        } catch (ReflectiveOperationException | RuntimeException e) {
            return "Java " + System.getProperty("java.version") + " is not supported: " + e;
        }
        return "";
    }

    /**
     * Checks that this JVM can become a worker.
     *
     * @throws RefusedException with the reason if it cannot
     */
    public static void check(WorkerCommand command) throws IOException, RefusedException {
        require(command.classPath().startsWith(OWN_CLASS_PATH + File.pathSeparator), "its class path is another one");
        for (String variable : START_VARIABLES) {
            require(Objects.equals(System.getenv(variable), command.environment().get(variable)),
                    "the environment variable " + variable + " is another one");
        }
        List<String> searched = List.of(System.getProperty(LIBRARY_PATH, "").split(File.pathSeparator));
        for (String directory : command.properties().getOrDefault(LIBRARY_PATH, "").split(File.pathSeparator)) {
            require(searched.contains(directory) || names(Path.of(directory)).stream().noneMatch(name -> name.endsWith(".so")),
                    "native libraries are in " + directory);
        }
        Map<String, String> status = WorkerCommand.statusOf(Path.of("/proc/self"));
        for (String line : List.of("Uid", "Gid", "Cpus_allowed", "Mems_allowed")) {
            require(Objects.equals(status.get(line), command.status().get(line)), line + " is another one");
        }
        long heap = heapBytes(command.options());
        require(heap <= ownHeapBytes(), "its heap is larger");
        require(heap == ownHeapBytes() || Collections.disjoint(command.options(), NO_FULL_COLLECTION), "its heap is smaller");
        Path own = Path.of("").toAbsolutePath();
        require(names(own.resolve("artifacts")).isEmpty() // logs of garbage collection, which are linked
                        || Files.getFileStore(command.directory()).equals(Files.getFileStore(own)),
                "its directory is on another file system than the standbys, set STORMWRIGHT_STANDBY_DIR");
    }

    /** Names in a directory; none if it cannot be read. */
    private static List<String> names(Path directory) {
        String[] found = directory.toFile().list();
        return found == null ? List.of() : List.of(found);
    }

    private static void require(boolean fits, String reason) throws RefusedException {
        if (!fits) {
            throw new RefusedException(reason);
        }
    }

    /** Takes over properties, class path, environment, working directory, log and heap size. */
    public static void apply(WorkerCommand command) throws ReflectiveOperationException, IOException {
        String added = command.classPath().substring(OWN_CLASS_PATH.length() + 1);
        String classPath = System.getProperty("java.class.path") + File.pathSeparator + added;
        String temporary = System.getProperty("java.io.tmpdir"); // the JVM has read it, and goes on to use its own
        command.properties().forEach(System::setProperty);
        System.setProperty("java.io.tmpdir", temporary);
        System.setProperty("java.class.path", classPath);
        System.setProperty("sun.java.command", command.mainClass() + " " + String.join(" ", command.arguments()));
        System.setProperty(START_PROPERTY, Long.toString(System.currentTimeMillis()));
        for (String entry : added.split(File.pathSeparator)) {
            appendToClassPath().invoke(ClassLoader.getSystemClassLoader(), entry);
        }
        setEnvironment(command.environment());
        linkWorkingDirectory(command.directory());
        reloadLogging();
        long heap = heapBytes(command.options());
        System.setProperty(HEAP_PROPERTY, Long.toString(heap));
        limitHeap(heap);
    }

    /** Has Log4j read its configuration again, with the system properties as they are now. */
    static void reloadLogging() {
        ((LoggerContext) LogManager.getContext(false)).reconfigure();
    }

    private static Method appendToClassPath() throws ReflectiveOperationException {
        // For java.lang.instrument: the one way to extend the class path of a running JVM.
        Method method = ClassLoader.getSystemClassLoader().getClass()
                .getDeclaredMethod("appendToClassPathForInstrumentation", String.class);
        method.setAccessible(true);
        return method;
    }

    private static void setEnvironment(Map<String, String> values) throws ReflectiveOperationException {
        UnaryOperator<Object> variable = environmentConverter("Variable");
        UnaryOperator<Object> value = environmentConverter("Value");
        Map<Object, Object> environment = environment();
        environment.clear();
        values.forEach((name, text) -> environment.put(variable.apply(name), value.apply(text)));
    }

    /** The map behind {@link System#getenv()} and the environment of child processes. */
    @SuppressWarnings("unchecked")
    private static Map<Object, Object> environment() throws ReflectiveOperationException {
        Field field = Class.forName("java.lang.ProcessEnvironment").getDeclaredField("theEnvironment");
        field.setAccessible(true);
        return (Map<Object, Object>) field.get(null);
    }

    private static UnaryOperator<Object> environmentConverter(String type) throws ReflectiveOperationException {
        Method method = Class.forName("java.lang.ProcessEnvironment$" + type).getDeclaredMethod("valueOf", String.class);
        method.setAccessible(true);
        return text -> {
            try {
                return method.invoke(null, text);
            } catch (ReflectiveOperationException e) {
                throw new IllegalStateException(e);
            }
        };
    }

    /** A Java process cannot change its directory: the content of the worker's is linked into it, and logs the other way. */
    private static void linkWorkingDirectory(Path worker) throws IOException {
        Path own = Path.of("").toAbsolutePath();
        try (Stream<Path> logs = Files.list(own.resolve("artifacts"))) { // of garbage collection
            for (Path log : (Iterable<Path>) logs::iterator) {
                Path target = worker.resolve("artifacts").resolve(log.getFileName());
                if (Files.isDirectory(target.getParent())) {
                    Files.deleteIfExists(target);
                    Files.createLink(target, log);
                }
            }
        }
        try (Stream<Path> entries = Files.list(worker)) {
            for (Path entry : (Iterable<Path>) entries::iterator) {
                Path link = own.resolve(entry.getFileName());
                if (!Files.exists(link, LinkOption.NOFOLLOW_LINKS)) {
                    Files.createSymbolicLink(link, entry);
                }
            }
        }
        HotSpotDiagnosticMXBean vm = ManagementFactory.getPlatformMXBean(HotSpotDiagnosticMXBean.class);
        String dump = vm.getVMOption("HeapDumpPath").getValue();
        vm.setVMOption("HeapDumpPath", worker.resolve(dump).toString());
    }

    /**
     * Keeps the heap below the size that the worker was given: a JVM cannot lower its maximum while it runs. When more is
     * in use garbage is collected, and if that does not help the worker ends with an OutOfMemoryError.
     */
    private static void limitHeap(long bytes) {
        if (bytes >= ownHeapBytes()) {
            return;
        }
        MemoryMXBean memory = ManagementFactory.getMemoryMXBean();
        Thread limit = new Thread(() -> {
            while (memory.getHeapMemoryUsage().getUsed() <= bytes || collected(memory) <= bytes) {
                try {
                    Thread.sleep(HEAP_CHECK_MS);
                } catch (InterruptedException e) {
                    return;
                }
            }
            // Storm's handler of uncaught exceptions ends the worker.
            throw new OutOfMemoryError("Java heap space: more than " + HEAP + (bytes >> 20) + "m is in use");
        }, "stormwright-heap-limit");
        limit.setDaemon(true);
        limit.start();
    }

    private static long collected(MemoryMXBean memory) {
        memory.gc();
        return memory.getHeapMemoryUsage().getUsed();
    }

    private static long ownHeapBytes() {
        return heapBytes(ManagementFactory.getRuntimeMXBean().getInputArguments());
    }

    /** The last maximum heap size among options of a JVM, in bytes; 0 without one. */
    static long heapBytes(List<String> options) {
        long bytes = 0;
        for (String option : options) {
            if (option.startsWith(HEAP)) {
                String size = option.substring(HEAP.length()).toLowerCase();
                int shift = switch (size.isEmpty() ? ' ' : size.charAt(size.length() - 1)) {
                    case 'k' -> 10;
                    case 'm' -> 20;
                    case 'g' -> 30;
                    default -> 0;
                };
                bytes = Long.parseLong(shift == 0 ? size : size.substring(0, size.length() - 1)) << shift;
            }
        }
        return bytes;
    }
}
