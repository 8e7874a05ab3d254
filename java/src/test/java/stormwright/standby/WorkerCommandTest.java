package stormwright.standby;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class WorkerCommandTest {
    /** What a supervisor of Storm 2.8.3 starts, shortened, with the shell and script before it. */
    private static final List<String> WORDS = List.of(
            "/bin/sh", "/opt/launcher/bin/java", "-cp", "lib/*", "-Xmx64m", "-Dstorm.id=of-the-log-writer",
            "org.apache.storm.LogWriter", "/opt/launcher/bin/java", "-server", "-Dstorm.id=words-1-2", "-Dempty=",
            "-Dflag", "-Xmx256m", "-cp", "lib/*:conf:stormjar.jar", "org.apache.storm.daemon.worker.Worker", "words-1-2",
            "node", "6628", "6700", "worker");

    private static WorkerCommand of(List<String> words) throws IOException {
        return WorkerCommand.of(words, List.of("HOME=/root", "EQUALS=a=b", "=hidden"), Path.of("/"), Map.of());
    }

    @Test
    void readsTheCommandOfTheWorkerBehindTheLogWriter() throws IOException {
        WorkerCommand command = of(WORDS);
        assertEquals("org.apache.storm.daemon.worker.Worker", command.mainClass());
        assertEquals(List.of("words-1-2", "node", "6628", "6700", "worker"), command.arguments());
        assertEquals("lib/*:conf:stormjar.jar", command.classPath());
        assertEquals(Map.of("storm.id", "words-1-2", "empty", "", "flag", ""), command.properties());
        assertEquals(List.of("-server", "-Xmx256m"), command.options());
        assertEquals(Map.of("HOME", "/root", "EQUALS", "a=b"), command.environment());
    }

    @Test
    void refusesCommandsThatStartNoWorker() {
        assertThrows(IOException.class, () -> of(List.of("sleep", "1")));
        assertThrows(IOException.class, () -> of(WORDS.subList(0, 13)));
    }

    @Test
    void readsHeapSizesAsTheJvmDoes() {
        assertEquals(0, Takeover.heapBytes(List.of("-server")));
        assertEquals(256L << 20, Takeover.heapBytes(List.of("-Xmx256m")));
        assertEquals(2L << 30, Takeover.heapBytes(List.of("-Xmx256m", "-Xmx2G")));
        assertEquals(512L << 10, Takeover.heapBytes(List.of("-Xmx512k")));
        assertEquals(123_456_789, Takeover.heapBytes(List.of("-Xmx123456789")));
    }
}
