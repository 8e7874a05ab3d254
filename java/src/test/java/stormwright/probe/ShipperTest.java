package stormwright.probe;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.ServerSocket;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import stormwright.access.Credentials;
import stormwright.bridge.FakeService;

class ShipperTest {
    @TempDir
    private Path root;

    private static byte[] line(String text) {
        return (text + "\n").getBytes(StandardCharsets.UTF_8);
    }

    private static void await(BooleanSupplier condition) throws InterruptedException {
        long deadline = System.nanoTime() + 10_000_000_000L;
        while (!condition.getAsBoolean() && System.nanoTime() < deadline) {
            Thread.sleep(10);
        }
        assertTrue(condition.getAsBoolean());
    }

    private static FakeService answering(AtomicInteger status) {
        return new FakeService(exchange -> exchange.sendResponseHeaders(status.get(), -1));
    }

    @Test
    void outlivesARefusalAndDeliversOnceThen() throws Exception {
        AtomicInteger status = new AtomicInteger(503);
        try (FakeService service = answering(status)) {
            Spool spool = new Spool(root, "w", 1 << 20);
            Shipper shipper = new Shipper(spool, List.of(URI.create(service.url() + "/v1/perflog")), Credentials.none());
            shipper.start();
            spool.append(line("a"));
            shipper.wake();
            await(() -> service.requests.size() >= 2);
            spool.append(line("b"));
            status.set(204);
            await(() -> service.requests.contains("b\n"));
            shipper.end();
            shipper.join(5_000);
            assertEquals(1, service.requests.stream().filter("b\n"::equals).count());
            assertEquals("a\n", service.requests.get(service.requests.size() - 2), "the older one went first");
            try (var left = Files.list(root)) {
                assertEquals(0, left.count());
            }
        }
    }

    @Test
    void absenceLosesNothing() throws Exception {
        int port;
        try (ServerSocket socket = new ServerSocket(0)) {
            port = socket.getLocalPort();
        }
        Spool spool = new Spool(root, "0001-first", 1 << 20);
        Shipper shipper = new Shipper(spool, List.of(URI.create("http://127.0.0.1:" + port)), Credentials.none());
        shipper.start();
        spool.append(line("waits"));
        shipper.end();
        shipper.join(5_000);
        try (FakeService service = answering(new AtomicInteger(200))) {
            Spool next = new Spool(root, "0002-second", 1 << 20);
            Shipper successor = new Shipper(next, List.of(URI.create(service.url())), Credentials.none());
            successor.start();
            successor.wake();
            await(() -> service.requests.equals(List.of("waits\n")));
            successor.end();
            successor.join(5_000);
        }
    }

    @Test
    void ofSeveralServicesTheOneThatTakesRecordsGetsThem() throws Exception {
        AtomicInteger one = new AtomicInteger(503);
        AtomicInteger other = new AtomicInteger(204);
        try (FakeService first = answering(one); FakeService second = answering(other)) {
            Spool spool = new Spool(root, "w", 1 << 20);
            List<URI> both = List.of(URI.create(first.url()), URI.create(second.url()));
            Shipper shipper = new Shipper(spool, both, Credentials.none());
            shipper.start();
            for (String text : List.of("a", "b")) {
                spool.append(line(text));
                shipper.wake();
                await(() -> second.requests.contains(text + "\n"));
            }
            assertEquals(List.of("a\n"), first.requests, "who took the last ones is tried first");
            other.set(503);
            spool.append(line("c"));
            shipper.wake();
            await(() -> second.requests.contains("c\n")); // nobody takes it, and it waits
            one.set(204);
            int before = first.requests.size();
            await(() -> first.requests.size() > before && first.requests.contains("c\n"));
            shipper.end();
            shipper.join(5_000);
        }
    }

    @Test
    void halfALineStaysBehind() throws IOException, InterruptedException {
        Spool spool = new Spool(root, "w", 1 << 20);
        spool.append(line("whole"));
        spool.append("{\"half".getBytes(StandardCharsets.UTF_8));
        try (FakeService service = answering(new AtomicInteger(200))) {
            Shipper shipper = new Shipper(spool, List.of(URI.create(service.url())), Credentials.none());
            shipper.start();
            shipper.end();
            shipper.join(5_000);
            assertEquals(List.of("whole\n"), service.requests);
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {400, 413})
    void aRefusedSegmentIsSetAside(int status) throws Exception {
        try (FakeService service = new FakeService(exchange -> {
            boolean bad = exchange.getRequestHeaders().getFirst("Content-Length").equals("8");
            exchange.sendResponseHeaders(bad ? status : 200, -1);
        })) {
            Spool spool = new Spool(root, "w", 1 << 20);
            spool.append(line("bad"));
            spool.append(line("bad"));
            spool.takeSegments();
            spool.append(line("good one"));
            Shipper shipper = new Shipper(spool, List.of(URI.create(service.url())), Credentials.none());
            shipper.start();
            shipper.wake();
            await(() -> service.requests.equals(List.of("bad\nbad\n", "good one\n")));
            Thread.sleep(600); // more than the pause before a second try
            spool.append(line("more"));
            shipper.end();
            shipper.join(5_000);
            assertEquals(List.of("bad\nbad\n", "good one\n", "more\n"), service.requests);
            assertEquals(2, shipper.refusedRecords());
            try (var left = Files.walk(root)) {
                List<Path> files = left.filter(Files::isRegularFile).toList();
                assertEquals(List.of(root.resolve("refused").resolve("w-000000000.jsonl")), files);
            }
        }
    }

    @Test
    void aSegmentThatCannotBeSetAsideDoesNotKeepOthersBack() throws Exception {
        Files.createFile(root.resolve("refused")); // no directory
        try (FakeService service = new FakeService(exchange -> {
            boolean bad = exchange.getRequestHeaders().getFirst("Content-Length").equals("4");
            exchange.sendResponseHeaders(bad ? 400 : 200, -1);
        })) {
            Spool spool = new Spool(root, "w", 1 << 20);
            spool.append(line("bad"));
            spool.takeSegments();
            spool.append(line("good"));
            Shipper shipper = new Shipper(spool, List.of(URI.create(service.url())), Credentials.none());
            shipper.start();
            shipper.end();
            shipper.join(5_000);
            assertEquals(List.of("bad\n", "good\n"), service.requests);
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {302, 403, 404, 429, 500})
    void whatIsNoFaultOfASegmentIsTriedAgain(int status) throws Exception {
        AtomicInteger now = new AtomicInteger(status);
        try (FakeService service = answering(now)) {
            Spool spool = new Spool(root, "w", 1 << 20);
            Shipper shipper = new Shipper(spool, List.of(URI.create(service.url())), Credentials.none());
            shipper.start();
            spool.append(line("a"));
            spool.takeSegments();
            spool.append(line("b"));
            shipper.wake();
            await(() -> service.requests.size() >= 2);
            now.set(204);
            await(() -> service.requests.contains("b\n"));
            shipper.end();
            shipper.join(5_000);
            int tries = service.requests.size() - 1;
            assertTrue(tries >= 2, "tries " + tries);
            assertEquals(Collections.nCopies(tries, "a\n"), service.requests.subList(0, tries));
            assertEquals(0, shipper.refusedRecords());
        }
    }

    @Test
    void aSegmentThatIsGoneOrCannotBeReadDoesNotKeepOthersBack() throws Exception {
        Spool spool = new Spool(root, "w", 1 << 20);
        spool.append(line("good"));
        Files.createDirectory(root.resolve("w").resolve("a-000.jsonl"));
        Files.createSymbolicLink(root.resolve("w").resolve("b-000.jsonl"), Path.of("nowhere"));
        try (FakeService service = answering(new AtomicInteger(200))) {
            Shipper shipper = new Shipper(spool, List.of(URI.create(service.url())), Credentials.none());
            shipper.start();
            shipper.end();
            shipper.join(5_000);
            assertEquals(List.of("good\n"), service.requests);
        }
    }

    @Test
    void anErrorOfOursDoesNotEndTheWorker() throws Exception {
        AtomicReference<Throwable> left = new AtomicReference<>();
        Thread.UncaughtExceptionHandler before = Thread.getDefaultUncaughtExceptionHandler();
        // As in a worker, where Storm's handler ends the JVM.
        Thread.setDefaultUncaughtExceptionHandler((thread, error) -> left.set(error));
        try (FakeService service = answering(new AtomicInteger(200))) {
            AtomicInteger tries = new AtomicInteger();
            Spool spool = new Spool(root, "w", 1 << 20) {
                @Override
                synchronized List<Path> takeSegments() throws IOException {
                    if (tries.getAndIncrement() == 0) {
                        throw new NoClassDefFoundError("ours");
                    }
                    return super.takeSegments();
                }
            };
            spool.append(line("kept"));
            Shipper shipper = new Shipper(spool, List.of(URI.create(service.url())), Credentials.none());
            shipper.start();
            shipper.wake();
            await(() -> service.requests.equals(List.of("kept\n")));
            shipper.end();
            shipper.join(5_000);
            assertNull(left.get());
        } finally {
            Thread.setDefaultUncaughtExceptionHandler(before);
        }
    }
}
