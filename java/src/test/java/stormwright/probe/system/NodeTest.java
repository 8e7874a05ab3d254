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

    @Test
    void moreThanTheProcessorsIsNotToBeHad() {
        Path mount = mounted("cpu", "cgroup", "/", "rw,cpu");
        kernel.write(kernel.self().resolve("cgroup"), "2:cpu:/../elsewhere\n");
        group(mount, "99999999", "throttled_time none");
        assertEquals(PROCESSORS, node().values().get("millicores"));
        assertNull(node().values().get("throttled_ns"));
    }
}
