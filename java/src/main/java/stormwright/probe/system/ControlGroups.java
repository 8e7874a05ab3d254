package stormwright.probe.system;

import java.io.File;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * The limits that control groups set to the CPU of this process, of either version: that of its own group and those of
 * the groups around it, as far as they can be seen. And the CPU time that such a group uses.
 */
final class ControlGroups {
    /** Main class of the daemon that every node runs. */
    private static final String SUPERVISOR = "org.apache.storm.daemon.supervisor.Supervisor";
    /** How far below a group its processes are looked for. */
    private static final int DEPTH = 4;

    private final SmallFiles files;
    private final Path proc;
    private final boolean unified;
    /** Those that can have a limit, the own one first. */
    private final List<Path> groups = new ArrayList<>();
    /** Where groups of the first version count CPU time, if not where they limit it: that mount, and this one. */
    private Path counting;
    private Path limiting;
    /** By group whether the node's supervisor is in it, for those that were looked into. */
    private final Map<Path, Boolean> ofNode = new HashMap<>();

    /**
     * Finds the groups.
     *
     * @param process {@code /proc/self}
     */
    ControlGroups(Path process, SmallFiles files) {
        this.files = files;
        proc = process.getParent();
        List<String> memberships = lines(process.resolve("cgroup"));
        List<String> mounts = lines(process.resolve("mountinfo"));
        find(memberships, mounts, false);
        unified = groups.isEmpty();
        if (unified) {
            find(memberships, mounts, true);
        }
    }

    private List<String> lines(Path file) {
        String text = files.read(file);
        return text == null ? List.of() : text.lines().toList();
    }

    private void find(List<String> memberships, List<String> mounts, boolean second) {
        for (String membership : memberships) {
            String[] parts = membership.split(":", 3); // number, controllers, path
            if (parts.length == 3 && (second ? parts[1].isEmpty() : listed(parts[1], "cpu"))) {
                mounts.stream().map(mount -> mount.split(" ")).filter(mount -> isOf(mount, second, "cpu")).findFirst()
                        .ifPresent(mount -> addAll(Path.of(mount[4]), below(parts[2], mount[3]), second));
            }
        }
        if (!second) {
            mounts.stream().map(mount -> mount.split(" ")).filter(mount -> isOf(mount, false, "cpuacct")).findFirst()
                    .ifPresent(mount -> counting = Path.of(mount[4]));
        }
    }

    /** A line of mountinfo: number, parent, device, root, mount point, options, any others, -, type, source, options. */
    private static boolean isOf(String[] mount, boolean second, String controller) {
        int dash = Arrays.asList(mount).indexOf("-");
        return dash >= 6 && mount.length > dash + 1
                && (second ? mount[dash + 1].equals("cgroup2")
                        : mount[dash + 1].equals("cgroup") && listed(mount[mount.length - 1], controller));
    }

    private static boolean listed(String list, String wanted) {
        return Arrays.asList(list.split(",")).contains(wanted);
    }

    /** A group's path from where the hierarchy is mounted; its root where it is not below that. */
    private static String below(String path, String root) {
        String inside = root.equals("/") ? path : path.startsWith(root) ? path.substring(root.length()) : "";
        return inside.contains("..") ? "" : inside;
    }

    private void addAll(Path mount, String inside, boolean second) {
        limiting = mount;
        Path group = Path.of(mount + "/" + inside).normalize();
        for (; group != null && group.startsWith(mount); group = group.getParent()) {
            if (files.read(group.resolve(second ? "cpu.max" : "cpu.cfs_quota_us")) != null) {
                groups.add(group);
            }
        }
    }

    /**
     * A quota of CPU.
     *
     * @param millicores what it leaves, in thousandths of a core
     * @param periodUs after which there is as much again
     * @param group the group that has it
     */
    record Quota(long millicores, long periodUs, Path group) {
    }

    /** The least that limits leave; null where there is none. */
    Quota quota() {
        Quota least = null;
        for (Path group : groups) {
            Quota quota = limit(group, unified ? files.read(group.resolve("cpu.max"))
                    : files.read(group.resolve("cpu.cfs_quota_us")) + " "
                            + files.read(group.resolve("cpu.cfs_period_us")));
            least = least == null || quota != null && quota.millicores < least.millicores ? quota : least;
        }
        return least;
    }

    private static Quota limit(Path group, String quotaAndPeriod) {
        String[] numbers = quotaAndPeriod == null ? new String[0] : quotaAndPeriod.trim().split("\\s+");
        if (numbers.length != 2 || !isNumber(numbers[0]) || !isNumber(numbers[1])) {
            return null; // "max", -1, or a group that is gone
        }
        long periodUs = Math.max(1, Long.parseLong(numbers[1]));
        return new Quota(Math.round(1000.0 * Long.parseLong(numbers[0]) / periodUs), periodUs, group);
    }

    /**
     * CPU time in ns of all processes in a group; null where it is unknown, or where the node's supervisor is not one
     * of them: a group around a single worker says nothing about the node.
     */
    Long usedNs(Path group) {
        if (!ofNode.computeIfAbsent(group, each -> holdsSupervisor(each.toFile(), DEPTH))) {
            return null;
        }
        if (unified) {
            return counter(files.read(group.resolve("cpu.stat")), "usage_usec", 1000);
        }
        String used = files.read(group.resolve("cpuacct.usage"));
        if (used == null && counting != null) {
            used = files.read(counting.resolve(limiting.relativize(group)).resolve("cpuacct.usage"));
        }
        return used == null || !isNumber(used.strip()) ? null : Long.valueOf(used.strip());
    }

    private boolean holdsSupervisor(File group, int depth) {
        for (String pid : lines(group.toPath().resolve("cgroup.procs"))) {
            String command = files.read(proc.resolve(pid.strip()).resolve("cmdline"));
            if (command != null && Arrays.asList(command.split("\0")).contains(SUPERVISOR)) {
                return true;
            }
        }
        File[] below = depth == 0 ? null : group.listFiles(File::isDirectory);
        for (File each : below == null ? new File[0] : below) {
            if (holdsSupervisor(each, depth - 1)) {
                return true;
            }
        }
        return false;
    }

    /** How long cores that had work for the groups stood still because of the limits, in ns; null where unknown. */
    Long throttledNs() {
        Long sum = null;
        for (Path group : groups) {
            String stat = files.read(group.resolve("cpu.stat"));
            Long ns = unified ? counter(stat, "throttled_usec", 1000) : counter(stat, "throttled_time", 1);
            if (ns != null) {
                sum = sum == null ? ns : sum + ns;
            }
        }
        return sum;
    }

    /** A number of {@code cpu.stat} by its name, in ns; null where it is missing. */
    private static Long counter(String stat, String name, long unitNs) {
        for (String line : stat == null ? List.<String>of() : stat.lines().toList()) {
            String[] parts = line.split(" ");
            if (parts.length == 2 && parts[0].equals(name) && isNumber(parts[1])) {
                return Long.parseLong(parts[1]) * unitNs;
            }
        }
        return null;
    }

    private static boolean isNumber(String text) {
        return !text.isEmpty() && text.length() <= 18 && text.chars().allMatch(c -> c >= '0' && c <= '9');
    }
}
