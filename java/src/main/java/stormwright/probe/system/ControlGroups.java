package stormwright.probe.system;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * The limits that control groups set to the CPU of this process, of either version: that of its own group and those of
 * the groups around it, as far as they can be seen.
 */
final class ControlGroups {
    private final SmallFiles files;
    private final boolean unified;
    /** Those that can have a limit, the own one first. */
    private final List<Path> groups = new ArrayList<>();

    /**
     * Finds the groups.
     *
     * @param process {@code /proc/self}
     */
    ControlGroups(Path process, SmallFiles files) {
        this.files = files;
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
                mounts.stream().map(mount -> mount.split(" ")).filter(mount -> isOf(mount, second)).findFirst()
                        .ifPresent(mount -> addAll(Path.of(mount[4]), below(parts[2], mount[3]), second));
            }
        }
    }

    /** A line of mountinfo: number, parent, device, root, mount point, options, any others, -, type, source, options. */
    private static boolean isOf(String[] mount, boolean second) {
        int dash = Arrays.asList(mount).indexOf("-");
        return dash >= 6 && mount.length > dash + 1
                && (second ? mount[dash + 1].equals("cgroup2")
                        : mount[dash + 1].equals("cgroup") && listed(mount[mount.length - 1], "cpu"));
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
     */
    record Quota(long millicores, long periodUs) {
    }

    /** The least that limits leave; null where there is none. */
    Quota quota() {
        Quota least = null;
        for (Path group : groups) {
            Quota quota = unified ? limit(files.read(group.resolve("cpu.max")))
                    : limit(files.read(group.resolve("cpu.cfs_quota_us")) + " "
                            + files.read(group.resolve("cpu.cfs_period_us")));
            least = least == null || quota != null && quota.millicores < least.millicores ? quota : least;
        }
        return least;
    }

    private static Quota limit(String quotaAndPeriod) {
        String[] numbers = quotaAndPeriod == null ? new String[0] : quotaAndPeriod.trim().split("\\s+");
        if (numbers.length != 2 || !isNumber(numbers[0]) || !isNumber(numbers[1])) {
            return null; // "max", -1, or a group that is gone
        }
        long periodUs = Math.max(1, Long.parseLong(numbers[1]));
        return new Quota(Math.round(1000.0 * Long.parseLong(numbers[0]) / periodUs), periodUs);
    }

    /** How long cores that had work for the groups stood still because of the limits, in ns; null where unknown. */
    Long throttledNs() {
        Long sum = null;
        for (Path group : groups) {
            String stat = files.read(group.resolve("cpu.stat"));
            for (String line : stat == null ? List.<String>of() : stat.lines().toList()) {
                String[] parts = line.split(" ");
                if (parts.length == 2 && isNumber(parts[1])
                        && (parts[0].equals("throttled_time") || parts[0].equals("throttled_usec"))) {
                    long ns = Long.parseLong(parts[1]) * (parts[0].equals("throttled_usec") ? 1000 : 1);
                    sum = sum == null ? ns : sum + ns;
                }
            }
        }
        return sum;
    }

    private static boolean isNumber(String text) {
        return !text.isEmpty() && text.length() <= 18 && text.chars().allMatch(c -> c >= '0' && c <= '9');
    }
}
