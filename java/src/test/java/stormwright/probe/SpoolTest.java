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
import java.util.concurrent.atomic.AtomicBoolean;
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

    /** How many files below the root this JVM has open, those that are deleted included. */
    private long open() throws IOException {
        try (var descriptors = Files.list(Path.of("/proc/self/fd"))) {
            return descriptors.filter(this::isBelowRoot).count();
        }
    }

    private boolean isBelowRoot(Path descriptor) {
        try {
            return Files.readSymbolicLink(descriptor).startsWith(root.toRealPath());
        } catch (IOException e) {
            return false; // closed meanwhile
        }
    }

    @Test
    void aLockThatIsTakenAwayIsClosed() throws Exception {
        Path lock = root.resolve("w").resolve("worker.lock");
        AtomicBoolean over = new AtomicBoolean();
        // As another worker does that takes the directory for an orphan before it is locked.
        Thread taker = new Thread(() -> {
            while (!over.get()) {
                lock.toFile().delete();
            }
        });
        taker.start();
        try {
            for (int i = 0; i < 500; i++) {
                Spool spool = new Spool(root, "w", 1 << 20);
                try {
                    spool.adoptOrphans();
                } catch (IOException e) {
                    assertTrue(e.getMessage().startsWith("cannot lock"), e.toString());
                }
                spool.close();
            }
        } finally {
            over.set(true);
            taker.join();
        }
        assertEquals(0, open());
    }

    @Test
    void theLockIsGivenUpWhateverIsInTheWay() throws IOException {
        Spool spool = new Spool(root, "w", 1 << 20);
        spool.adoptOrphans();
        Files.createFile(root.resolve("w").resolve("not ours"));
        assertThrows(IOException.class, spool::close);
        assertEquals(0, open());
    }

    @Test
    void anOrphanThatCannotBeHadIsPassedOver() throws IOException {
        Spool dead = new Spool(root, "0002-dead", 1 << 20);
        dead.append(line("left behind"));
        dead.close();
        for (String name : List.of("0001-bad", "0003-bad")) {
            Files.createDirectories(root.resolve(name).resolve("worker.lock"));
        }
        Spool alive = new Spool(root, "0004-alive", 1 << 20);
        alive.adoptOrphans();
        assertEquals(List.of("left behind"), lines(alive));
    }

    @Test
    void goesOnAfterAThreadWasInterrupted() throws IOException {
        Spool spool = new Spool(root, "w", 1 << 20);
        spool.append(line("before"));
        Thread.currentThread().interrupt();
        assertThrows(IOException.class, () -> spool.append(line("meanwhile")));
        assertTrue(Thread.interrupted());
        spool.append(line("after"));
        assertEquals(List.of("before", "after"), lines(spool));
    }

    @Test
    void whatIsSetAsideIsLostFirst() throws IOException {
        Spool dead = new Spool(root, "0001-dead", 10_000);
        dead.append(line("x".repeat(3_000)));
        dead.setAside(dead.takeSegments().get(0));
        assertEquals(List.of(), lines(dead));
        dead.close();
        Path aside = root.resolve("refused").resolve("0001-dead-000000000.jsonl");
        assertEquals(List.of("x".repeat(3_000)), Files.readAllLines(aside));
        Spool spool = new Spool(root, "0002-alive", 10_000);
        spool.adoptOrphans();
        assertEquals(List.of(), lines(spool));
        for (int i = 0; Files.exists(aside); i++) {
            assertTrue(i < 100, "more than the limit");
            spool.append(line("%099d".formatted(i)));
        }
        assertEquals(0, Integer.parseInt(lines(spool).get(0)));
    }

    @Test
    void whatCannotBeDeletedKeepsNoRecordOut() throws IOException {
        // As files of another user's worker are, where each worker runs as who submitted its topology.
        Path stays = root.resolve("refused").resolve("0001-other-000000000.jsonl");
        Files.createDirectories(stays.resolve("not empty"));
        Spool spool = new Spool(root, "0002-own", 1_000);
        for (int i = 0; i < 100; i++) {
            spool.append(line("%099d".formatted(i)));
        }
        List<String> left = lines(spool);
        assertEquals(99, Integer.parseInt(left.get(left.size() - 1)));
        assertTrue(Files.exists(stays));
    }
}
