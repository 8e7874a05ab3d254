package stormwright.probe.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class StandbysTest {
    @TempDir
    private Path directory;

    private void jvm(String name, long pid, boolean ready) throws IOException {
        Path jvm = Files.createDirectories(directory.resolve(name));
        Files.writeString(jvm.resolve("pid"), pid + "\n");
        if (ready) {
            Files.writeString(jvm.resolve("ready"), "");
        }
    }

    @Test
    void countsThoseThatWaitWithTheirMemory() throws IOException {
        long own = ProcessHandle.current().pid();
        jvm("waits", own, true);
        jvm("is-loading", own, false);
        jvm("has-ended", 4_194_305, true); // above the largest process id
        Standbys standbys = new Standbys(directory.toFile(), Path.of("/proc"), new SmallFiles());
        standbys.read();
        Map<String, Long> values = standbys.values();
        assertEquals(1, values.get("standbys"));
        assertEquals(0, values.get("standby_millicores")); // nothing to compare with yet
        assertTrue(values.get("standby_bytes") > 1 << 20, values.toString());
    }

    @Test
    void saysNothingWhereNoneAreSetUp() {
        Standbys standbys = new Standbys(null, Path.of("/proc"), new SmallFiles());
        standbys.read();
        assertEquals(Map.of(), standbys.values());
    }
}
