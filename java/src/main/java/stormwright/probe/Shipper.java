package stormwright.probe;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.HttpURLConnection;
import java.net.Proxy;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Delivers what is in the spool to the service, on a thread of its own; what was not delivered stays in the spool. */
final class Shipper {
    private static final Logger LOG = LoggerFactory.getLogger(Shipper.class);
    private static final int CONNECT_TIMEOUT_MS = 1_000;
    private static final int READ_TIMEOUT_MS = 10_000;
    private static final int LONGEST_ANSWER = 1 << 16;
    private static final long SHORTEST_PAUSE_MS = 250;
    private static final long LONGEST_PAUSE_MS = 5_000;
    private static final long ADOPT_EVERY_NS = 30_000_000_000L;

    private enum Outcome { DELIVERED, REFUSED, UNREACHABLE }

    private final Spool spool;
    private final URI service;
    private final Thread thread = new Thread(this::run, "stormwright-shipper");
    private boolean work;
    private boolean ending;
    private boolean reachable = true;

    Shipper(Spool spool, URI service) {
        this.spool = spool;
        this.service = service;
        thread.setDaemon(true);
    }

    void start() {
        thread.start();
    }

    /** There is something to deliver. */
    synchronized void wake() {
        work = true;
        notifyAll();
    }

    /** Has the thread try once more to deliver everything, and end. */
    synchronized void end() {
        ending = true;
        notifyAll();
    }

    void join(long timeoutMs) throws InterruptedException {
        thread.join(timeoutMs);
    }

    private void run() {
        long pauseMs = 0;
        long adoptedNs = System.nanoTime() - ADOPT_EVERY_NS;
        boolean last = false;
        while (!last) {
            try {
                last = pause(pauseMs);
                if (System.nanoTime() - adoptedNs >= ADOPT_EVERY_NS) {
                    adoptedNs = System.nanoTime();
                    spool.adoptOrphans();
                }
                boolean delivered = shipAll();
                pauseMs = delivered ? 0 : Math.min(LONGEST_PAUSE_MS, Math.max(SHORTEST_PAUSE_MS, pauseMs * 2));
            } catch (IOException e) {
                LOG.warn("the spool cannot be read: {}", e.toString());
                pauseMs = LONGEST_PAUSE_MS;
            } catch (InterruptedException e) {
                last = true;
            } catch (RuntimeException e) {
                LOG.error("shipping goes on after an error", e);
                pauseMs = LONGEST_PAUSE_MS;
            }
        }
        try {
            spool.close();
        } catch (IOException e) {
            LOG.warn("the spool was not closed: {}", e.toString());
        }
    }

    /** Waits until a failed try is due again, else for work; returns at once, with true, when it is time to end. */
    private synchronized boolean pause(long retryMs) throws InterruptedException {
        long due = System.nanoTime() + retryMs * 1_000_000;
        for (long rest = retryMs; rest > 0 && !ending; rest = (due - System.nanoTime()) / 1_000_000) {
            wait(rest);
        }
        while (retryMs == 0 && !work && !ending) {
            wait();
        }
        work = false;
        return ending;
    }

    /** Whether the spool is empty now. A segment that the service refuses does not keep the others from it. */
    private boolean shipAll() throws IOException {
        boolean all = true;
        for (Path segment : spool.takeSegments()) {
            Outcome outcome = ship(segment);
            if (outcome == Outcome.UNREACHABLE) {
                return false;
            }
            all &= outcome == Outcome.DELIVERED;
        }
        return all;
    }

    private Outcome ship(Path segment) throws IOException {
        byte[] lines = wholeLines(Files.readAllBytes(segment));
        Outcome outcome = lines.length == 0 ? Outcome.DELIVERED : post(lines, segment);
        if (outcome == Outcome.DELIVERED) {
            spool.delete(segment);
        }
        return outcome;
    }

    /** A worker that was killed may have left half a line at the end. */
    private static byte[] wholeLines(byte[] content) {
        int end = content.length;
        while (end > 0 && content[end - 1] != '\n') {
            end--;
        }
        return end == content.length ? content : Arrays.copyOf(content, end);
    }

    private Outcome post(byte[] body, Path segment) {
        try {
            HttpURLConnection connection = (HttpURLConnection) service.toURL().openConnection(Proxy.NO_PROXY);
            connection.setConnectTimeout(CONNECT_TIMEOUT_MS);
            connection.setReadTimeout(READ_TIMEOUT_MS);
            connection.setRequestMethod("POST");
            connection.setInstanceFollowRedirects(false);
            connection.setRequestProperty("Content-Type", "application/x-ndjson");
            connection.setDoOutput(true);
            connection.setFixedLengthStreamingMode(body.length);
            try (OutputStream out = connection.getOutputStream()) {
                out.write(body);
            }
            int status = connection.getResponseCode();
            finish(connection, status);
            note(true, "it answers");
            if (status / 100 == 2) {
                return Outcome.DELIVERED;
            }
            LOG.warn("{} answered {} to {}; it is kept", service, status, segment.getFileName());
            return status / 100 == 4 ? Outcome.REFUSED : Outcome.UNREACHABLE;
        } catch (IOException e) {
            note(false, e.toString());
            return Outcome.UNREACHABLE;
        }
    }

    /** Reads a short answer to its end, so that the connection can be used again; drops one that is long. */
    private static void finish(HttpURLConnection connection, int status) throws IOException {
        try (InputStream answer = status < 400 ? connection.getInputStream() : connection.getErrorStream()) {
            if (answer != null && answer.readNBytes(LONGEST_ANSWER).length == LONGEST_ANSWER) {
                connection.disconnect();
            }
        }
    }

    private void note(boolean nowReachable, String why) {
        if (nowReachable != reachable) {
            reachable = nowReachable;
            LOG.info("{} is {}: {}", service, nowReachable ? "reachable" : "not reachable", why);
        }
    }
}
