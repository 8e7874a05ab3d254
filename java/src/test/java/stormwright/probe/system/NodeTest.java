package stormwright.probe.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import java.nio.file.Path;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class NodeTest {
    private static final long PROCESSORS = 1000L * Runtime.getRuntime().availableProcessors();

    @TempDir
    private Path root;
    private Kernel kernel;

    @BeforeEach
    void prepare() {
        kernel = new Kernel(root);
    }

    private Node node() {
        return new Node(kernel.proc(), kernel.cpu(), Set.of("eth0", "eth1"), new SmallFiles());
    }

    /** A hierarchy that is mounted in a directory with a name. */
    private Path mounted(String name, String type, String inside, String options) {
        Path mount = root.resolve("cgroup").resolve(name);
        kernel.write(kernel.self().resolve("mountinfo"), """
                20 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
                31 20 0:27 %s %s rw,relatime shared:7 master:3 - %s cgroup %s
                """.formatted(inside, mount, type, options));
        return mount;
    }

    @Test
    void bytesOfAllLinksSinceTheLastRecord() {
        kernel.traffic("lo: 5 5", "eth0: 1000 2000", "eth1: 10 20", "docker0: 7 7");
        Node node = node();
        kernel.traffic("lo: 99 99", "eth0: 1500 2600", "eth1: 11 22", "docker0: 9 9");
        node.read();
        assertEquals(Map.of("received_bytes", 501L, "sent_bytes", 602L, "millicores", PROCESSORS), node.values());
        node.commit();
        kernel.traffic("eth0: 3 4"); // made anew
        node.read();
        assertEquals(0, node.values().get("received_bytes"));
    }

    @Test
    void whatIsNotToldIsLeftOut() {
        assertEquals(Map.of("millicores", PROCESSORS), node().values());
        kernel.traffic("lo: 5 5");
        kernel.write(kernel.self().resolve("mountinfo"), "31 20 -\nx\n");
        kernel.write(kernel.self().resolve("cgroup"), "nothing\n0::/a\n");
        assertEquals(Map.of("millicores", PROCESSORS), node().values());
    }

    @Test
    void speedOfACore() {
        kernel.write(kernel.proc().resolve("cpuinfo"), "processor\t: 0\ncpu MHz\t\t: 2445.420\nprocessor\t: 1\n");
        assertEquals(2_445_420_000L, node().values().get("core_hz"));
        kernel.write(kernel.cpu().resolve("cpufreq/cpuinfo_max_freq"), "3700000\n");
        assertEquals(3_700_000_000L, node().values().get("core_hz"));
    }

    @Test
    void processorsThatThreadsMayRunOn() {
        kernel.write(kernel.self().resolve("status"), "Name:\tjava\nCpus_allowed:\t10f\nCpus_allowed_list:\t0-3,8\n");
        assertEquals(5, node().values().get("processors"));
    }

    @Test
    void quotaOfTheFirstVersion() {
        Path mount = mounted("cpu", "cgroup", "/", "rw,cpu,cpuacct");
        kernel.write(kernel.self().resolve("cgroup"), "3:cpuset:/other\n2:cpu,cpuacct:/nodes/a\n0::/x\n");
        group(mount.resolve("nodes/a"), "-1", "throttled_time 500");
        group(mount.resolve("nodes"), "40000", "nr_periods 3\nthrottled_time 1000");
        group(mount, "-1", "throttled_time 0");
        Node node = node();
        assertEquals(400, node.values().get("millicores"));
        assertEquals(100_000, node.values().get("quota_period_us"));
        assertEquals(0, node.values().get("throttled_ns"));
        group(mount.resolve("nodes/a"), "12500", "throttled_time 700");
        node.read();
        assertEquals(125, node.values().get("millicores"));
        assertEquals(200, node.values().get("throttled_ns"));
    }

    private void group(Path group, String quota, String stat) {
        kernel.write(group.resolve("cpu.cfs_quota_us"), quota + "\n");
        kernel.write(group.resolve("cpu.cfs_period_us"), "100000\n");
        kernel.write(group.resolve("cpu.stat"), stat + "\n");
    }

    @Test
    void quotaOfTheSecondVersion() {
        // In a container: the hierarchy is mounted from the container's own group on.
        Path mount = mounted("unified", "cgroup2", "/docker/abc", "rw,nsdelegate");
        kernel.write(kernel.self().resolve("cgroup"), "0::/docker/abc/worker\n");
        kernel.write(mount.resolve("worker/cpu.max"), "max 100000\n");
        kernel.write(mount.resolve("worker/cpu.stat"), "usage_usec 9\nthrottled_usec 0\n");
        kernel.write(mount.resolve("cpu.max"), "15000 50000\n");
        kernel.write(mount.resolve("cpu.stat"), "throttled_usec 8\n");
        Node node = node();
        kernel.write(mount.resolve("cpu.stat"), "throttled_usec 10\n");
        node.read();
        assertEquals(300, node.values().get("millicores"));
        assertEquals(50_000, node.values().get("quota_period_us"));
        assertEquals(2000, node.values().get("throttled_ns"));
    }

    /** A process, with a command line as a JVM has it. */
    private void process(int pid, String mainClass) {
        kernel.write(kernel.proc().resolve(pid + "/cmdline"), "java\0-cp\0a:b\0" + mainClass + "\0argument\0");
    }

    private static final String SUPERVISOR = "org.apache.storm.daemon.supervisor.Supervisor";

    @Test
    void cpuOfTheWholeNodeInTheFirstVersion() {
        Path mount = mounted("cpu", "cgroup", "/", "rw,cpu,cpuacct");
        kernel.write(kernel.self().resolve("cgroup"), "2:cpu,cpuacct:/nodes/a\n");
        group(mount.resolve("nodes/a"), "40000", "throttled_time 0");
        group(mount.resolve("nodes"), "80000", "throttled_time 0");
        group(mount, "-1", "throttled_time 0");
        process(7, "org.apache.storm.daemon.worker.Worker");
        process(8, SUPERVISOR);
        kernel.write(mount.resolve("nodes/a/cgroup.procs"), "7\n9\n8\n");
        kernel.write(mount.resolve("nodes/a/cpuacct.usage"), "5000\n");
        kernel.write(mount.resolve("nodes/cpuacct.usage"), "1\n");
        Node node = node();
        assertEquals(0, node.values().get("used_ns"));
        kernel.write(mount.resolve("nodes/a/cpuacct.usage"), "7500\n");
        node.read();
        assertEquals(2500, node.values().get("used_ns"));
        node.commit();
        // Another group's quota is the narrowest now: its CPU time is another.
        group(mount.resolve("nodes"), "10000", "throttled_time 0");
        kernel.write(mount.resolve("nodes/cpuacct.usage"), "900000\n");
        node.read();
        assertEquals(100, node.values().get("millicores"));
        assertNull(node.values().get("used_ns"));
        node.commit();
        kernel.write(mount.resolve("nodes/cpuacct.usage"), "900003\n");
        node.read();
        assertEquals(3, node.values().get("used_ns"));
    }

    @Test
    void cpuTimeMayBeCountedInAnotherHierarchy() {
        Path limits = root.resolve("cgroup/cpu");
        Path counts = root.resolve("cgroup/cpuacct");
        kernel.write(kernel.self().resolve("mountinfo"), """
                31 20 0:27 / %s rw - cgroup cgroup rw,cpu
                32 20 0:28 / %s rw - cgroup cgroup rw,cpuacct
                """.formatted(limits, counts));
        kernel.write(kernel.self().resolve("cgroup"), "2:cpu:/node\n3:cpuacct:/node\n");
        group(limits.resolve("node"), "40000", "throttled_time 0");
        process(8, SUPERVISOR);
        kernel.write(limits.resolve("node/cgroup.procs"), "8\n");
        kernel.write(counts.resolve("node/cpuacct.usage"), "10\n");
        Node node = node();
        kernel.write(counts.resolve("node/cpuacct.usage"), "14\n");
        node.read();
        assertEquals(4, node.values().get("used_ns"));
    }

    @Test
    void cpuOfTheWholeNodeInTheSecondVersion() {
        Path mount = mounted("unified", "cgroup2", "/", "rw,nsdelegate");
        kernel.write(kernel.self().resolve("cgroup"), "0::/node/storm.service\n");
        kernel.write(mount.resolve("node/storm.service/cpu.max"), "max 100000\n");
        kernel.write(mount.resolve("node/cpu.max"), "15000 50000\n");
        kernel.write(mount.resolve("node/cpu.stat"), "usage_usec 100\nthrottled_usec 0\n");
        // Processes of the second version are in groups that have no others below them.
        kernel.write(mount.resolve("node/storm.service/cgroup.procs"), "8\n");
        process(8, SUPERVISOR);
        Node node = node();
        kernel.write(mount.resolve("node/cpu.stat"), "usage_usec 107\nthrottled_usec 0\n");
        node.read();
        assertEquals(300, node.values().get("millicores"));
        assertEquals(7000, node.values().get("used_ns"));
    }

    @Test
    void groupAroundAWorkerIsNotTheNodes() {
        Path mount = mounted("unified", "cgroup2", "/", "rw,nsdelegate");
        kernel.write(kernel.self().resolve("cgroup"), "0::/node/worker\n");
        kernel.write(mount.resolve("node/worker/cpu.max"), "10000 100000\n");
        kernel.write(mount.resolve("node/worker/cpu.stat"), "usage_usec 100\n");
        kernel.write(mount.resolve("node/worker/cgroup.procs"), "7\n");
        process(7, "org.apache.storm.daemon.worker.Worker");
        process(8, SUPERVISOR);
        kernel.write(mount.resolve("node/cgroup.procs"), "8\n");
        kernel.write(mount.resolve("node/cpu.max"), "90000 100000\n");
        Node node = node();
        node.read();
        assertEquals(100, node.values().get("millicores"));
        assertNull(node.values().get("used_ns"));
    }

    @Test
    void withoutAQuotaTheNodeHasNoGroup() {
        Path mount = mounted("unified", "cgroup2", "/", "rw,nsdelegate");
        kernel.write(kernel.self().resolve("cgroup"), "0::/node\n");
        kernel.write(mount.resolve("node/cpu.max"), "max 100000\n");
        kernel.write(mount.resolve("node/cpu.stat"), "usage_usec 100\n");
        kernel.write(mount.resolve("node/cgroup.procs"), "8\n");
        process(8, SUPERVISOR);
        Node node = node();
        node.read();
        assertNull(node.values().get("used_ns"));
    }

    @Test
    void moreThanTheProcessorsIsNotToBeHad() {
        Path mount = mounted("cpu", "cgroup", "/", "rw,cpu");
        kernel.write(kernel.self().resolve("cgroup"), "2:cpu:/../elsewhere\n");
        group(mount, "99999999", "throttled_time none");
        assertEquals(PROCESSORS, node().values().get("millicores"));
        assertNull(node().values().get("throttled_ns"));
    }
}
