package stormwright.probe;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.ServerSocket;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
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
            Shipper shipper = new Shipper(spool, URI.create(service.url() + "/v1/perflog"));
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
        Shipper shipper = new Shipper(spool, URI.create("http://127.0.0.1:" + port));
        shipper.start();
        spool.append(line("waits"));
        shipper.end();
        shipper.join(5_000);
        try (FakeService service = answering(new AtomicInteger(200))) {
            Spool next = new Spool(root, "0002-second", 1 << 20);
            Shipper successor = new Shipper(next, URI.create(service.url()));
            successor.start();
            successor.wake();
            await(() -> service.requests.equals(List.of("waits\n")));
            successor.end();
            successor.join(5_000);
        }
    }

    @Test
    void halfALineStaysBehind() throws IOException, InterruptedException {
        Spool spool = new Spool(root, "w", 1 << 20);
        spool.append(line("whole"));
        spool.append("{\"half".getBytes(StandardCharsets.UTF_8));
        try (FakeService service = answering(new AtomicInteger(200))) {
            Shipper shipper = new Shipper(spool, URI.create(service.url()));
            shipper.start();
            shipper.end();
            shipper.join(5_000);
            assertEquals(List.of("whole\n"), service.requests);
        }
    }

    @Test
    void aRefusedSegmentDoesNotKeepOthersBack() throws Exception {
        try (FakeService service = new FakeService(exchange -> {
            boolean bad = exchange.getRequestHeaders().getFirst("Content-Length").equals("4");
            exchange.sendResponseHeaders(bad ? 400 : 200, -1);
        })) {
            Spool spool = new Spool(root, "w", 1 << 20);
            spool.append(line("bad"));
            spool.takeSegments();
            spool.append(line("good one"));
            Shipper shipper = new Shipper(spool, URI.create(service.url()));
            shipper.start();
            shipper.end();
            shipper.join(5_000);
            assertEquals(List.of("bad\n", "good one\n"), service.requests);
            try (var left = Files.walk(root)) {
                assertEquals(1, left.filter(path -> path.toString().endsWith(".jsonl")).count());
            }
        }
    }
}
