package stormwright.probe;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class SpoolTest {
    @TempDir
    private Path root;

    private static byte[] line(String text) {
        return (text + "\n").getBytes(StandardCharsets.UTF_8);
    }

    private static List<String> lines(Spool spool) throws IOException {
        List<String> lines = new ArrayList<>();
        for (Path segment : spool.takeSegments()) {
            lines.addAll(Files.readAllLines(segment));
        }
        return lines;
    }

    private long bytesOnDisk() throws IOException {
        try (var files = Files.walk(root)) {
            return files.filter(Files::isRegularFile).mapToLong(path -> path.toFile().length()).sum();
        }
    }

    @Test
    void keepsTheOrder() throws IOException {
        Spool spool = new Spool(root, "w", 400);
        List<String> written = new ArrayList<>();
        for (int i = 0; i < 30; i++) {
            written.add("record " + i);
            spool.append(line("record " + i));
        }
        assertTrue(spool.takeSegments().size() > 1);
        assertEquals(written, lines(spool));
    }

    @Test
    void staysBelowItsLimitByLosingTheOldest() throws IOException {
        Spool spool = new Spool(root, "w", 10_000);
        for (int i = 0; i < 5_000; i++) {
            spool.append(line("%099d".formatted(i)));
            assertTrue(bytesOnDisk() <= 10_000);
        }
        List<String> kept = lines(spool);
        assertTrue(kept.size() >= 75, "kept " + kept.size());
        for (int i = 0; i < kept.size(); i++) {
            assertEquals(5_000 - kept.size() + i, Integer.parseInt(kept.get(i)));
        }
    }

    @Test
    void theLimitIsThatOfAllWorkers() throws IOException {
        Spool one = new Spool(root, "one", 10_000);
        Spool two = new Spool(root, "two", 10_000);
        for (int i = 0; i < 1_000; i++) {
            one.append(line("%099d".formatted(i)));
            two.append(line("%099d".formatted(i)));
        }
        assertTrue(bytesOnDisk() <= 10_000 + 2 * 10_000 / 8, "on disk " + bytesOnDisk());
        assertFalse(lines(one).isEmpty());
        assertFalse(lines(two).isEmpty());
    }

    @Test
    void whatADeadWorkerLeftIsTakenOver() throws IOException {
        Spool dead = new Spool(root, "0001-dead", 1 << 20);
        dead.append(line("left behind"));
        Spool alive = new Spool(root, "0002-alive", 1 << 20);
        alive.append(line("own"));
        alive.adoptOrphans();
        assertEquals(List.of("own"), lines(alive), "its owner lives still");
        dead.close();
        alive.adoptOrphans();
        assertEquals(List.of("left behind", "own"), lines(alive));
        assertFalse(Files.exists(root.resolve("0001-dead")));
    }

    @Test
    void nothingIsLeftOfAnEmptySpool() throws IOException {
        Spool spool = new Spool(root, "w", 1 << 20);
        spool.append(line("delivered"));
        for (Path segment : spool.takeSegments()) {
            spool.delete(segment);
        }
        spool.close();
        try (var left = Files.list(root)) {
            assertEquals(0, left.count());
        }
    }

    @Test
    void aDirectoryThatCannotBeMadeIsAnError() throws IOException {
        Path file = Files.createFile(root.resolve("file"));
        Spool spool = new Spool(file, "w", 1 << 20);
        assertThrows(IOException.class, () -> spool.append(line("lost")));
        Files.delete(file);
        spool.append(line("kept"));
        assertEquals(List.of("kept"), lines(spool));
    }
}
