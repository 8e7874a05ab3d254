package stormwright.probe;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.HttpRetryException;
import java.net.HttpURLConnection;
import java.net.Proxy;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.StringJoiner;
import javax.net.ssl.HttpsURLConnection;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLSocketFactory;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import stormwright.access.Credentials;

/**
 * Delivers what is in the spool to the service, on a thread of its own; what was not delivered stays in the spool.
 *
 * <p>Of several services one takes records, which is tried first from then on; the others say that they stand by.
 *
 * <p>A segment that the service will never take is set aside: trying it again and again would help nobody.
 */
final class Shipper {
    private static final Logger LOG = LoggerFactory.getLogger(Shipper.class);
    private static final int CONNECT_TIMEOUT_MS = 1_000;
    private static final int READ_TIMEOUT_MS = 10_000;
    private static final int LONGEST_ANSWER = 1 << 16;
    private static final long SHORTEST_PAUSE_MS = 250;
    private static final long LONGEST_PAUSE_MS = 5_000;
    private static final int NO_ANSWER = -1;
    private static final long ADOPT_EVERY_NS = 30_000_000_000L;

    /** Answers that are about what was sent: bad request, too large, unsupported type, unprocessable. */
    private static final Set<Integer> REFUSALS = Set.of(400, 413, 415, 422);

    private enum Outcome { DONE, KEPT, UNREACHABLE }

    private final Spool spool;
    private final List<URI> services;
    private final Credentials credentials;
    private final SSLSocketFactory sockets;
    private final Thread thread = new Thread(this::run, "stormwright-shipper");
    private boolean work;
    private boolean ending;
    private int first;
    private boolean reachable = true;
    private String lastTrouble = "";
    private long refusedSegments;
    private volatile long refusedRecords;

    Shipper(Spool spool, List<URI> services, Credentials credentials) {
        this.spool = spool;
        this.services = services;
        this.credentials = credentials;
        // One for all connections: by it the JVM knows which of them can be used again.
        sockets = credentials.tls().map(SSLContext::getSocketFactory).orElse(null);
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

    /** Records that the service would not take. */
    long refusedRecords() {
        return refusedRecords;
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
                pauseMs = shipAll() ? 0 : longer(pauseMs);
            } catch (InterruptedException e) {
                last = true;
            } catch (Throwable e) { // Storm ends a worker when one leaves a thread
                complain(e);
                pauseMs = longer(pauseMs);
            }
        }
        try {
            spool.close();
        } catch (Throwable e) {
            complain(e);
        }
    }

    private static long longer(long pauseMs) {
        return Math.min(LONGEST_PAUSE_MS, Math.max(SHORTEST_PAUSE_MS, pauseMs * 2));
    }

    /** Once as long as it is the same trouble. */
    private void complain(Throwable trouble) {
        if (!trouble.toString().equals(lastTrouble)) {
            lastTrouble = trouble.toString();
            LOG.warn("records wait in the spool", trouble);
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

    /** Whether the spool is empty now. A segment that is no good does not keep the others from the service. */
    private boolean shipAll() throws IOException {
        boolean all = true;
        for (Path segment : spool.takeSegments()) {
            Outcome outcome = ship(segment);
            if (outcome == Outcome.UNREACHABLE) {
                return false;
            }
            all &= outcome == Outcome.DONE;
        }
        return all;
    }

    private Outcome ship(Path segment) {
        try {
            byte[] lines = wholeLines(Files.readAllBytes(segment));
            int status = lines.length == 0 ? HttpURLConnection.HTTP_NO_CONTENT : post(lines);
            if (status / 100 == 2) {
                spool.delete(segment);
            } else if (REFUSALS.contains(status)) {
                refuse(segment, lines, status);
            } else {
                return Outcome.UNREACHABLE;
            }
            return Outcome.DONE;
        } catch (NoSuchFileException e) {
            return Outcome.DONE; // it had to make room
        } catch (IOException e) {
            complain(e);
            return Outcome.KEPT;
        }
    }

    private void refuse(Path segment, byte[] lines, int status) throws IOException {
        spool.setAside(segment);
        long records = 0;
        for (byte b : lines) {
            records += b == '\n' ? 1 : 0;
        }
        refusedRecords += records;
        refusedSegments++;
        if (Long.bitCount(refusedSegments) == 1) { // 1, 2, 4, …: a service that refuses all may do so for days
            LOG.warn("{} answered {} to {}: its {} records are set aside, by now {} records of {} segments",
                    services.get(first), status, segment.getFileName(), records, refusedRecords, refusedSegments);
        }
    }

    /** A worker that was killed may have left half a line at the end. */
    private static byte[] wholeLines(byte[] content) {
        int end = content.length;
        while (end > 0 && content[end - 1] != '\n') {
            end--;
        }
        return end == content.length ? content : Arrays.copyOf(content, end);
    }

    /** The status of the service that takes a body, or will never take it; else that of the last one. */
    private int post(byte[] body) {
        int status = NO_ANSWER;
        StringJoiner why = new StringJoiner("; ");
        for (int i = 0; i < services.size(); i++) {
            int asked = (first + i) % services.size();
            status = post(services.get(asked), body, why);
            if (status / 100 == 2 || REFUSALS.contains(status)) {
                first = asked;
                note(true, "it answers " + status);
                return status;
            }
        }
        note(false, why.toString());
        return status;
    }

    /** The status that a service answers with; {@link #NO_ANSWER} without an answer. */
    private int post(URI service, byte[] body, StringJoiner why) {
        try {
            HttpURLConnection connection = (HttpURLConnection) service.toURL().openConnection(Proxy.NO_PROXY);
            connection.setConnectTimeout(CONNECT_TIMEOUT_MS);
            connection.setReadTimeout(READ_TIMEOUT_MS);
            connection.setRequestMethod("POST");
            connection.setInstanceFollowRedirects(false);
            connection.setRequestProperty("Content-Type", "application/x-ndjson");
            credentials.authorization().ifPresent(value -> connection.setRequestProperty("Authorization", value));
            if (sockets != null && connection instanceof HttpsURLConnection secure) {
                secure.setSSLSocketFactory(sockets);
            }
            connection.setDoOutput(true);
            connection.setFixedLengthStreamingMode(body.length);
            try (OutputStream out = connection.getOutputStream()) {
                out.write(body);
            }
            int status = connection.getResponseCode();
            finish(connection, status);
            why.add("it answers " + status);
            return status;
        } catch (HttpRetryException e) { // for who is not let in the JVM would send it once more
            why.add("it answers " + e.responseCode());
            return e.responseCode();
        } catch (IOException e) {
            why.add(e.toString());
            return NO_ANSWER;
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
            Object told = nowReachable ? services.get(first) : services;
            LOG.info("{} takes {}: {}", told, nowReachable ? "records" : "no records, they wait in the spool", why);
        }
    }
}
