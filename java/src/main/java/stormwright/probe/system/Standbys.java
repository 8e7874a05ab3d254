package stormwright.probe.system;

import java.io.File;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;

/** The idle standby workers of this node, as {@code worker_java.sh} lays them out: their number, memory and CPU. */
final class Standbys {
    private static final String DIRECTORY = "STORMWRIGHT_STANDBY_DIR";
    private static final long PERIOD_NS = 10_000_000_000L;
    private static final long PAGE_BYTES = 4096;

    /** Fields of {@code stat} behind the name of the process: CPU time in user and kernel mode, in ticks of 10 ms. */
    private static final int USER_TICKS = 11;
    private static final int KERNEL_TICKS = 12;
    private static final double NS_PER_TICK = 1e7;

    private final File standbys;
    private final Path proc;
    private final SmallFiles files;
    private Map<Long, Long> ticks = Map.of();
    private Map<String, Long> values = Map.of();
    private long readNs;

    Standbys(Path proc, SmallFiles files) {
        this(System.getenv(DIRECTORY) == null ? null : new File(System.getenv(DIRECTORY), "jvms"), proc, files);
    }

    Standbys(File standbys, Path proc, SmallFiles files) {
        this.standbys = standbys;
        this.proc = proc;
        this.files = files;
    }

    /** Reads them again if some seconds have passed. */
    void read() {
        long now = System.nanoTime();
        if (standbys == null || (readNs != 0 && now - readNs < PERIOD_NS)) {
            return;
        }
        Map<Long, Long> current = new LinkedHashMap<>();
        long bytes = 0;
        long grownTicks = 0;
        File[] directories = standbys.listFiles();
        for (File directory : directories == null ? new File[0] : directories) {
            String pid = files.read(directory.toPath().resolve("pid"));
            if (pid == null || !new File(directory, "ready").exists()) {
                continue;
            }
            Path process = proc.resolve(pid.strip());
            String memory = files.read(process.resolve("statm"));
            String stat = files.read(process.resolve("stat"));
            if (memory != null && stat != null) {
                String[] fields = stat.substring(stat.lastIndexOf(") ") + 2).split(" ");
                long used = Long.parseLong(fields[USER_TICKS]) + Long.parseLong(fields[KERNEL_TICKS]);
                long id = Long.parseLong(pid.strip());
                grownTicks += used - ticks.getOrDefault(id, used);
                current.put(id, used);
                bytes += Long.parseLong(memory.split(" ")[1]) * PAGE_BYTES;
            }
        }
        Map<String, Long> read = new LinkedHashMap<>();
        read.put("standbys", (long) current.size());
        read.put("standby_bytes", bytes);
        read.put("standby_millicores", Math.round(readNs == 0 ? 0 : 1000 * grownTicks * NS_PER_TICK / (now - readNs)));
        values = read;
        ticks = current;
        readNs = now;
    }

    /** What was read, by the names of the record's fields; empty on a node that has no standbys set up. */
    Map<String, Long> values() {
        return values;
    }
}
