package stormwright.topologies;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class PaceTest {
    private static final long SECOND_NS = 1_000_000_000L;

    @TempDir
    Path directory;

    /** Trees that are due within a second of asking every 100 µs. */
    private static int trees(Pace pace, int second) {
        int due = 0;
        for (long now = second * SECOND_NS; now < (second + 1) * SECOND_NS; now += 100_000) {
            due += pace.due(now) ? 1 : 0;
        }
        return due;
    }

    @Test
    void eachTaskHasItsPart() {
        assertEquals(50, trees(Pace.of(200, 4, 0), 0), 1);
    }

    @Test
    void withoutARateATreeIsAlwaysDue() {
        assertEquals(10_000, trees(Pace.of(0, 4, 0), 0));
    }

    @Test
    void afterAPauseATenthOfASecondIsMadeUpFor() {
        assertEquals(1100, trees(Pace.of(1000, 1, 0), 7), 1);
    }

    @Test
    void theRateIsTheFilesWhileItChanges() throws IOException {
        Path file = Files.writeString(directory.resolve("rate"), "0.1\n");
        Pace pace = Pace.from(file, 1, 0);
        assertEquals(1, trees(pace, 0));
        Files.writeString(file, "1000");
        trees(pace, 1);
        assertEquals(1000, trees(pace, 2), 1);
        Files.writeString(file, "0");
        trees(pace, 3);
        assertEquals(10_000, trees(pace, 4));
    }

    @Test
    void aFileThatIsNoRateLeavesItAsItWas() throws IOException {
        Path file = Files.writeString(directory.resolve("rate"), "300");
        Pace pace = Pace.from(file, 1, 0);
        trees(pace, 0);
        Files.writeString(file, "");
        assertEquals(300, trees(pace, 1), 1);
        Files.delete(file);
        assertEquals(300, trees(pace, 2), 1);
    }
}
