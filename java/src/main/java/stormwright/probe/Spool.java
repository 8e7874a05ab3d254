package stormwright.probe;

import java.io.Closeable;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.channels.OverlappingFileLockException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Records on disk until they are delivered.
 *
 * <p>Every worker has a directory below the common one and holds a lock in it while it lives. Records are appended to
 * a segment; a segment that is closed can be delivered and deleted. The directory of a worker that has died is free of
 * its lock: whoever finds it takes its segments over. What the service will never take is set aside in a directory that
 * all have together. All directories together stay below the limit: what was set aside goes first, then the oldest
 * segments.
 */
class Spool implements Closeable {
    private static final Logger LOG = LoggerFactory.getLogger(Spool.class);
    private static final String SUFFIX = ".jsonl";
    private static final String LOCK = "worker.lock";
    private static final String REFUSED = "refused";
    private static final long LARGEST_SEGMENT = 1 << 20;
    private static final int SEGMENTS_AT_LIMIT = 8;
    private static final int TRIES = 5;

    private final Path root;
    private final Path directory;
    private final Path refused;
    private final long maxBytes;
    private final long segmentBytes;
    private final Set<Path> hopeless = new HashSet<>();
    private FileChannel lockFile;
    private FileChannel active;
    private long segments;

    Spool(Path root, String name, long maxBytes) {
        this.root = root;
        this.directory = root.resolve(name);
        this.refused = root.resolve(REFUSED);
        this.maxBytes = maxBytes;
        this.segmentBytes = Math.max(1, Math.min(LARGEST_SEGMENT, maxBytes / SEGMENTS_AT_LIMIT));
    }

    /** Adds a line; either all of it is on disk afterwards or, if this throws, nothing. */
    synchronized void append(byte[] line) throws IOException {
        open();
        if (active != null && !active.isOpen()) {
            active = null; // the thread that wrote to it was interrupted
        }
        if (active != null && active.size() > 0 && active.size() + line.length > segmentBytes) {
            closeSegment();
        }
        if (active == null) {
            makeRoom(line.length);
            Path segment = directory.resolve("%s-%09d%s".formatted(directory.getFileName(), segments++, SUFFIX));
            active = FileChannel.open(segment, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE);
        }
        long before = active.size();
        try {
            ByteBuffer rest = ByteBuffer.wrap(line);
            while (rest.hasRemaining()) {
                active.write(rest);
            }
        } catch (IOException e) {
            takeBack(before, e);
            throw e;
        }
    }

    private void takeBack(long before, IOException failure) {
        try {
            active.truncate(before);
        } catch (IOException e) {
            failure.addSuppressed(e);
            try {
                closeSegment(); // what may be half a line has to stay the last of it
            } catch (IOException again) {
                failure.addSuppressed(again);
            }
        }
    }

    /** All segments with something in them, oldest first; the one being written to is closed for it. */
    synchronized List<Path> takeSegments() throws IOException {
        if (lockFile == null) {
            return List.of();
        }
        closeSegment();
        return segmentsIn(directory);
    }

    synchronized void delete(Path segment) throws IOException {
        Files.deleteIfExists(segment);
    }

    /** Takes a segment out of delivery; it stays on disk as long as there is room. */
    synchronized void setAside(Path segment) throws IOException {
        Files.createDirectories(refused);
        Files.move(segment, refused.resolve(segment.getFileName()), StandardCopyOption.REPLACE_EXISTING);
    }

    /** Takes over what workers left behind that have died. */
    synchronized void adoptOrphans() throws IOException {
        open();
        try (DirectoryStream<Path> others = Files.newDirectoryStream(root, path -> !path.equals(directory))) {
            for (Path other : others) {
                if (Files.exists(other.resolve(LOCK))) {
                    tryToAdopt(other);
                }
            }
        }
    }

    /** Workers of another user may leave what we may not read; that keeps nobody from the others. */
    private void tryToAdopt(Path other) {
        try {
            adopt(other);
        } catch (IOException e) {
            if (hopeless.add(other)) {
                LOG.warn("{} cannot be taken over: {}", other, e.toString());
            }
        }
    }

    private void adopt(Path other) throws IOException {
        FileChannel lock = tryLock(other);
        if (lock == null) {
            return;
        }
        try (lock) {
            for (Path segment : segmentsIn(other)) {
                Files.move(segment, directory.resolve(segment.getFileName()));
            }
            Files.deleteIfExists(other.resolve(LOCK));
            Files.deleteIfExists(other);
        }
    }

    /** Ends the use of this spool; what is in it is left to whoever adopts it. */
    @Override
    public synchronized void close() throws IOException {
        FileChannel lock = lockFile;
        lockFile = null;
        try {
            closeSegment();
            if (lock != null && segmentsIn(directory).isEmpty()) {
                Files.deleteIfExists(directory.resolve(LOCK));
                Files.deleteIfExists(directory);
            }
        } finally {
            if (lock != null) {
                lock.close();
            }
        }
    }

    private void open() throws IOException {
        // Another worker may take our directory for an orphan before it is locked; then it is gone and we try again.
        for (int tries = 0; lockFile == null && tries < TRIES; tries++) {
            Files.createDirectories(directory);
            FileChannel channel = tryLock(directory);
            if (channel != null && Files.exists(directory.resolve(LOCK))) {
                lockFile = channel;
            } else if (channel != null) {
                channel.close();
            }
        }
        if (lockFile == null) {
            throw new IOException("cannot lock " + directory);
        }
    }

    /** The locked lock file of a directory, or null if somebody else has it. */
    private static FileChannel tryLock(Path directory) throws IOException {
        FileChannel channel;
        try {
            channel = FileChannel.open(
                    directory.resolve(LOCK), StandardOpenOption.CREATE, StandardOpenOption.WRITE);
        } catch (NoSuchFileException e) {
            return null;
        }
        FileLock lock = null;
        try {
            lock = channel.tryLock();
        } catch (OverlappingFileLockException e) {
            LOG.debug("{} belongs to another worker of this JVM", directory);
        } finally {
            if (lock == null) {
                channel.close();
            }
        }
        return lock == null ? null : channel;
    }

    private void closeSegment() throws IOException {
        FileChannel segment = active;
        active = null;
        if (segment != null) {
            segment.close();
        }
    }

    /**
     * Deletes what was set aside and our oldest segments until a new one fits below the limit. Where workers run as
     * whoever submitted their topology, what others left may be out of reach: it stays, and keeps no record out.
     */
    private void makeRoom(int lineBytes) throws IOException {
        List<Path> candidates = reachableIn(refused);
        candidates.addAll(segmentsIn(directory));
        long total = Math.max(segmentBytes, lineBytes);
        try (DirectoryStream<Path> workers = Files.newDirectoryStream(root, Files::isDirectory)) {
            for (Path worker : workers) {
                for (Path segment : reachableIn(worker)) {
                    total += sizeOf(segment);
                }
            }
        }
        for (Path oldest : candidates) {
            if (total <= maxBytes) {
                break;
            }
            long size = sizeOf(oldest);
            try {
                Files.deleteIfExists(oldest);
            } catch (IOException e) {
                LOG.debug("{} stays", oldest, e);
                continue;
            }
            LOG.warn("the spool is full ({} bytes): {} is lost", maxBytes, oldest.getFileName());
            total -= size;
        }
    }

    private static long sizeOf(Path segment) {
        try {
            return Files.size(segment);
        } catch (IOException e) {
            return 0; // its owner has just delivered it, or it is out of reach
        }
    }

    private static List<Path> reachableIn(Path directory) {
        try {
            return segmentsIn(directory);
        } catch (IOException e) {
            LOG.debug("{} is out of reach", directory, e);
            return new ArrayList<>();
        }
    }

    private static List<Path> segmentsIn(Path directory) throws IOException {
        List<Path> found = new ArrayList<>();
        try (DirectoryStream<Path> files = Files.newDirectoryStream(directory, "*" + SUFFIX)) {
            files.forEach(found::add);
        } catch (NoSuchFileException e) {
            LOG.debug("{} has just been emptied", directory);
        }
        Collections.sort(found);
        return found;
    }
}
