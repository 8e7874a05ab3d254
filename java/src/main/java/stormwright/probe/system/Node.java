package stormwright.probe.system;

import java.net.NetworkInterface;
import java.net.SocketException;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import stormwright.probe.system.ControlGroups.Quota;

/** The node as a worker sees it: what goes over its links, and what CPU it has. */
final class Node {
    /** In a processor's paragraph; whole numbers of Hz follow from the three digits that Linux prints. */
    private static final Pattern MHZ = Pattern.compile("^cpu MHz\\s*:\\s*(\\d{1,6})\\.(\\d{3})", Pattern.MULTILINE);
    private static final Pattern KHZ = Pattern.compile("(\\d{1,9})\\s*");
    /** Numbers of processors and ranges of them, as in {@code 0-3,8}. */
    private static final Pattern ALLOWED = Pattern.compile("^Cpus_allowed_list:\\s*(\\S+)$", Pattern.MULTILINE);
    private static final Pattern PROCESSORS = Pattern.compile("(\\d{1,6})(?:-(\\d{1,6}))?");
    /** More than one processor's paragraph, and little enough to be quick on a machine with hundreds. */
    private static final int ONE_PROCESSOR = 4096;

    /** Fields of {@code net/dev} after an interface's name: bytes received first, bytes sent ninth. */
    private static final int RECEIVED = 0;
    private static final int SENT = 8;

    private final SmallFiles files;
    private final Path traffic;
    private final Set<String> interfaces;
    private final ControlGroups groups;
    private final Standbys standbys;
    private final Long coreHz;
    private final Long processors;
    private Totals before;
    private Totals now;

    private record Totals(Long receivedBytes, Long sentBytes, Long throttledNs, Quota quota, Long usedNs) {
        /** What the group of the quota used before; null where the quota was another group's. */
        Long usedBefore(Totals before) {
            return quota != null && before.quota != null && quota.group().equals(before.quota.group())
                    ? before.usedNs : null;
        }
    }

    /**
     * Makes one and takes a first reading, from which it counts.
     *
     * @param proc {@code /proc}
     * @param cpu the directory of a processor, {@code /sys/devices/system/cpu/cpu0}
     * @param interfaces those that count
     */
    Node(Path proc, Path cpu, Set<String> interfaces, SmallFiles files) {
        this.files = files;
        this.interfaces = interfaces;
        traffic = proc.resolve("self/net/dev");
        groups = new ControlGroups(proc.resolve("self"), files);
        standbys = new Standbys(proc, files);
        coreHz = coreHz(files.read(cpu.resolve("cpufreq/cpuinfo_max_freq")),
                files.read(proc.resolve("cpuinfo"), ONE_PROCESSOR));
        processors = processors(files.read(proc.resolve("self/status")));
        read();
        commit();
    }

    /**
     * The interfaces over which a node is reached: without the loopback, and without those that are part of another,
     * which have no address of their own.
     */
    static Set<String> linked() {
        try {
            return NetworkInterface.networkInterfaces().filter(Node::isLinked).map(NetworkInterface::getName)
                    .collect(Collectors.toSet());
        } catch (SocketException e) {
            return Set.of();
        }
    }

    private static boolean isLinked(NetworkInterface each) {
        return each.inetAddresses().anyMatch(address -> !address.isLoopbackAddress() && !address.isLinkLocalAddress());
    }

    /** Hz of a core at its highest where that is told, else what it runs at; null where neither is. */
    private static Long coreHz(String highestKhz, String processors) {
        Matcher khz = KHZ.matcher(highestKhz == null ? "" : highestKhz);
        if (khz.matches()) {
            return Long.parseLong(khz.group(1)) * 1000;
        }
        Matcher mhz = MHZ.matcher(processors == null ? "" : processors);
        return mhz.find() ? Long.parseLong(mhz.group(1) + mhz.group(2)) * 1000 : null;
    }

    /** Processors that threads run on at once: a quota, which Java takes for a number of processors, is none. */
    private static Long processors(String status) {
        Matcher allowed = ALLOWED.matcher(status == null ? "" : status);
        if (!allowed.find()) {
            return null;
        }
        return PROCESSORS.matcher(allowed.group(1)).results()
                .mapToLong(range -> range.group(2) == null
                        ? 1 : Long.parseLong(range.group(2)) - Long.parseLong(range.group(1)) + 1)
                .sum();
    }

    void read() {
        Long received = null;
        Long sent = null;
        String text = files.read(traffic);
        for (String line : text == null ? new String[0] : text.split("\n")) {
            int colon = line.indexOf(':');
            if (colon > 0 && interfaces.contains(line.substring(0, colon).trim())) {
                String[] numbers = line.substring(colon + 1).trim().split("\\s+");
                if (numbers.length > SENT) {
                    received = Long.parseLong(numbers[RECEIVED]) + (received == null ? 0 : received);
                    sent = Long.parseLong(numbers[SENT]) + (sent == null ? 0 : sent);
                }
            }
        }
        Quota quota = groups.quota();
        now = new Totals(received, sent, groups.throttledNs(), quota, quota == null ? null : groups.usedNs(quota.group()));
        standbys.read();
    }

    void commit() {
        before = now;
    }

    /** What is known, by the names of the record's fields; what adds up since the last {@link #commit}. */
    Map<String, Long> values() {
        Map<String, Long> values = new LinkedHashMap<>();
        put(values, "received_bytes", grown(before.receivedBytes, now.receivedBytes));
        put(values, "sent_bytes", grown(before.sentBytes, now.sentBytes));
        long most = 1000L * Runtime.getRuntime().availableProcessors();
        Quota quota = now.quota;
        values.put("millicores", quota == null ? most : Math.min(quota.millicores(), most));
        put(values, "throttled_ns", grown(before.throttledNs, now.throttledNs));
        put(values, "core_hz", coreHz);
        put(values, "quota_period_us", quota == null ? null : quota.periodUs());
        put(values, "processors", processors);
        values.putAll(standbys.values());
        put(values, "used_ns", grown(now.usedBefore(before), now.usedNs));
        return values;
    }

    private static void put(Map<String, Long> values, String name, Long value) {
        if (value != null) {
            values.put(name, value);
        }
    }

    /** Null where one is not known; an interface that was made anew begins again. */
    private static Long grown(Long before, Long now) {
        return before == null || now == null ? null : Math.max(0, now - before);
    }
}
