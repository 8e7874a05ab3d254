package stormwright.topologies;

import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.List;
import java.util.UUID;

/**
 * How the ledger writes: whatever a call has written survives the end of the JVM, by {@code kill -9} too, but not that of
 * the machine.
 *
 * <p>Nothing is buffered in the JVM, and no file is forced to the disk. Streams and {@link java.io.RandomAccessFile} are
 * used instead of channels, which an interrupt of the thread would close.
 */
final class LedgerFiles {
    private LedgerFiles() {
    }

    /** Creates {@code PREFIX-MILLISECONDS.log}; a file that is there already belongs to another instance of the task. */
    static FileOutputStream append(Path directory, String prefix) {
        try {
            Files.createDirectories(directory);
            for (long now = System.currentTimeMillis(); ; now++) {
                File file = directory.resolve(prefix + "-" + now + ".log").toFile();
                if (file.createNewFile()) {
                    return new FileOutputStream(file, true);
                }
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Replaces a file as a whole: readers find the lines before or those after, never a part. */
    static void replace(Path file, List<String> lines) {
        try {
            Files.createDirectories(file.getParent());
            Path partial = file.resolveSibling("." + file.getFileName() + "." + UUID.randomUUID() + ".partial");
            Files.write(partial, lines, StandardCharsets.UTF_8);
            move(partial, file);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    static void move(Path from, Path to) {
        try {
            Files.move(from, to, StandardCopyOption.ATOMIC_MOVE);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** The lines of a file; none if there is no such file. */
    static List<String> lines(Path file) {
        try {
            return Files.readAllLines(file, StandardCharsets.UTF_8);
        } catch (NoSuchFileException e) {
            return List.of();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
