package stormwright;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTimeout;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.ServerSocket;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.storm.metric.StormMetricsRegistry;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.EvenScheduler;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.WorkerSlot;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import stormwright.bridge.FakeService;
import stormwright.bridge.TestCluster;

class PlacementSchedulerTest {
    private static final int SHORT_DEADLINE_MS = 400;
    /** For services that answer: also on a machine that is busy. */
    private static final int LONG_DEADLINE_MS = 15_000;
    private static final Duration SOON = Duration.ofSeconds(12);
    private static final WorkerSlot A0 = new WorkerSlot("a", 6700);
    private static final WorkerSlot A1 = new WorkerSlot("a", 6701);
    private static final WorkerSlot B0 = new WorkerSlot("b", 6700);

    /** Two nodes; "live" runs, "hurt" has lost one of its two workers, "new" has never run. */
    private static TestCluster nodes() {
        return new TestCluster().supervisor("a", 4).supervisor("b", 4)
                .topology("live", 2).running("live", A0, B0)
                .topology("hurt", 2).running("hurt", A1, new WorkerSlot("b", 6701)).dead("hurt", 2, 4, 6, 8)
                .topology("new", 2);
    }

    private static PlacementScheduler scheduler(String url, int deadlineMs) {
        PlacementScheduler scheduler = new PlacementScheduler();
        scheduler.prepare(Map.of("stormwright.service.url", url, "stormwright.service.deadline.ms", deadlineMs),
                new StormMetricsRegistry());
        return scheduler;
    }

    private static Cluster schedule(PlacementScheduler scheduler, TestCluster state) {
        Cluster cluster = state.build();
        scheduler.schedule(cluster.getTopologies(), cluster);
        return cluster;
    }

    private static Map<String, Map<ExecutorDetails, WorkerSlot>> evenAlone(TestCluster state) {
        Cluster cluster = state.build();
        new EvenScheduler().schedule(cluster.getTopologies(), cluster);
        return TestCluster.placements(cluster);
    }

    private static void assertFallsBack(PlacementScheduler scheduler, String url, String expectedReason) {
        Cluster cluster = assertTimeout(SOON, () -> schedule(scheduler, nodes()));
        assertEquals(evenAlone(nodes()), TestCluster.placements(cluster));
        Map<String, String> status = cluster.getStatusMap();
        for (String text : status.values()) {
            assertTrue(text.startsWith("stormwright service at " + url + ": "), text);
            assertTrue(text.contains(expectedReason) && text.contains("(1 failure)"), text);
        }
        assertTrue(status.get("live").endsWith("; left as it is"), status.get("live"));
        assertTrue(status.get("hurt").endsWith("; placed by EvenScheduler"), status.get("hurt"));
        assertTrue(status.get("new").endsWith("; placed by EvenScheduler"), status.get("new"));
    }

    @Test
    void absent() throws IOException {
        int port;
        try (ServerSocket socket = new ServerSocket(0)) {
            port = socket.getLocalPort();
        }
        String url = "http://127.0.0.1:" + port;
        assertFallsBack(scheduler(url, LONG_DEADLINE_MS), url, "connection refused");
    }

    @Test
    void silent() throws IOException {
        try (ServerSocket socket = new ServerSocket(0)) {
            String url = "http://127.0.0.1:" + socket.getLocalPort();
            assertFallsBack(scheduler(url, SHORT_DEADLINE_MS), url, "no whole answer within 400 ms");
        }
    }

    @Test
    void dripping() {
        try (FakeService service = FakeService.endless(" ".getBytes(StandardCharsets.UTF_8), 50)) {
            assertFallsBack(
                    scheduler(service.url(), SHORT_DEADLINE_MS), service.url(), "no whole answer within 400 ms");
        }
    }

    @Test
    void endless() {
        try (FakeService service = FakeService.endless(new byte[1 << 20], 0)) {
            assertFallsBack(scheduler(service.url(), LONG_DEADLINE_MS), service.url(), "more than 33554432 bytes");
        }
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', quoteCharacter = '`', value = {
        "200 | <html>hello</html>                                                   | the answer is not JSON",
        "200 | [1, 2]                                                               | the answer is not a JSON object",
        "200 | {}                                                                   | the answer's schema is null",
        "200 | {\"schema\":\"stormwright-assignment/1\"}                            | the answer has no assignments",
        "200 | {\"schema\":\"stormwright-assignment/1\",\"assignments\":{\"x\":{}}} | assigns x, which is no topology",
        "500 | out of order                                                         | HTTP 500 out of order",
    })
    void nonsense(int status, String body, String reason) {
        try (FakeService service = FakeService.saying(status, body)) {
            assertFallsBack(scheduler(service.url(), LONG_DEADLINE_MS), service.url(), reason);
        }
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', quoteCharacter = '`', value = {
        "[[\"a\",6799]]                | 0,0,0,0,0,0,0,0,0   | there is no slot a:6799",
        "[[\"c\",6700]]                | 0,0,0,0,0,0,0,0,0   | there is no slot c:6700",
        "[[\"a\",6700]]                | 0,0,0,0,0,0,0,0,0   | slot a:6700 would belong to live as well",
        "[[\"a\",6702],[\"a\",6703]]   | 0,1,0,1             | slots for 4 executors, but it has 9",
        "[[\"a\",6702]]                | 0,0,0,0,-1,0,0,0,0  | executor 4 is in slot -1 of 1",
        "[[\"a\",6702]]                | 0,0,0,0,0,0,7,0,0   | executor 6 is in slot 7 of 1",
        "[[\"a\",6702]]                | 0,0,0,0,0,0,0.5,0,0 | executor 6 is in slot 0.5 of 1",
        "[[\"a\",\"6702\"]]            | 0,0,0,0,0,0,0,0,0   | not a slot",
    })
    void refusedForOneTopology(String slots, String slotOfExecutor, String reason) {
        String body = answer("new", slots, slotOfExecutor);
        try (FakeService service = FakeService.saying(200, body)) {
            Cluster cluster = schedule(scheduler(service.url(), LONG_DEADLINE_MS), nodes());
            assertEquals(evenAlone(nodes()), TestCluster.placements(cluster));
            String status = cluster.getStatusMap().get("new");
            assertTrue(status.startsWith("stormwright: answer refused: ") && status.contains(reason), status);
            assertTrue(status.endsWith("; placed by EvenScheduler"), status);
            assertFalse(cluster.getStatusMap().containsKey("live"));
        }
    }

    /** The service shows the nodes of an empty cluster, and does not take Nimbus for silent. */
    @Test
    void emptyClusterIsSentToo() {
        try (FakeService service = FakeService.saying(200, "{\"assignments\":{}}")) {
            schedule(scheduler(service.url(), LONG_DEADLINE_MS), new TestCluster().supervisor("a", 4));
            assertEquals(1, service.requests.size());
        }
    }

    @Test
    void answerIsFollowed() {
        String body = answer("new", "[[\"a\",6702],[\"b\",6703]]", "0,0,0,0,0,1,1,1,1");
        try (FakeService service = FakeService.saying(200, body)) {
            Cluster cluster = schedule(scheduler(service.url(), LONG_DEADLINE_MS), nodes());
            Map<ExecutorDetails, WorkerSlot> placement = TestCluster.placements(cluster).get("new");
            for (int task = 1; task <= 9; task++) {
                WorkerSlot expected = task <= 5 ? new WorkerSlot("a", 6702) : new WorkerSlot("b", 6703);
                assertEquals(expected, placement.get(new ExecutorDetails(task, task)));
            }
            assertEquals("text for new", cluster.getStatusMap().get("new"));
            assertEquals("stormwright: the service left it out; placed by EvenScheduler",
                    cluster.getStatusMap().get("hurt"));
        }
    }

    /** Its workers are to start once every supervisor has its new configuration. */
    @Test
    void topologyThatTheServiceHoldsStaysWithoutSlots() {
        String body = """
                {"schema": "stormwright-assignment/1", "assignments": {}, "held": ["new"],
                 "status": {"new": "text for new"}}""";
        try (FakeService service = FakeService.saying(200, body)) {
            Cluster cluster = schedule(scheduler(service.url(), LONG_DEADLINE_MS), nodes());
            assertNull(TestCluster.placements(cluster).get("new"));
            assertEquals("text for new", cluster.getStatusMap().get("new"));
            assertEquals(9, TestCluster.placements(cluster).get("hurt").size());
        }
    }

    @Test
    void rebalancedTopologyMayTakeItsOwnSlotsAgain() {
        TestCluster state = new TestCluster().supervisor("a", 1).topology("t", 1);
        try (FakeService service = FakeService.saying(200, answer("t", "[[\"a\",6700]]", "0,0,0,0,0,0,0,0,0"))) {
            Cluster cluster = schedule(scheduler(service.url(), LONG_DEADLINE_MS), state);
            assertEquals(9, TestCluster.placements(cluster).get("t").size());
        }
    }

    private static final String PLACED = answer("new", "[[\"a\",6702]]", "0,0,0,0,0,0,0,0,0");
    private static final String STANDS_BY = "{\"error\": \"this service stands by: ask http://x, which leads\"}";

    private static boolean isPlaced(Cluster cluster) {
        return Set.of(new WorkerSlot("a", 6702)).equals(Set.copyOf(TestCluster.placements(cluster).get("new").values()));
    }

    @Test
    void ofSeveralServicesTheOneThatLeadsAnswers() {
        try (FakeService by = FakeService.saying(503, STANDS_BY); FakeService leads = FakeService.saying(200, PLACED)) {
            PlacementScheduler scheduler = scheduler(by.url() + "/, " + leads.url(), LONG_DEADLINE_MS);
            for (int round = 0; round < 3; round++) {
                assertTrue(isPlaced(schedule(scheduler, nodes())));
            }
            assertEquals(1, by.requests.size(), "who answered last is asked first");
        }
    }

    @Test
    void aServiceThatWasStoppedLeavesTimeForTheOther() throws IOException {
        try (ServerSocket stopped = new ServerSocket(0); FakeService leads = FakeService.saying(200, PLACED)) {
            String urls = "http://127.0.0.1:" + stopped.getLocalPort() + "," + leads.url();
            PlacementScheduler scheduler = scheduler(urls, LONG_DEADLINE_MS);
            long beganNs = System.nanoTime();
            assertTrue(isPlaced(schedule(scheduler, nodes())));
            assertTrue(System.nanoTime() - beganNs < LONG_DEADLINE_MS * 1_000_000L);
        }
    }

    @Test
    void wherePartOfThemIsAwayAllAreTriedAgainSoon() {
        try (FakeService one = FakeService.saying(503, STANDS_BY); FakeService other = FakeService.saying(503, STANDS_BY)) {
            PlacementScheduler scheduler = scheduler(one.url() + "," + other.url(), LONG_DEADLINE_MS);
            Cluster cluster = null;
            for (int round = 0; round < 3; round++) {
                cluster = schedule(scheduler, nodes());
            }
            String status = cluster.getStatusMap().get("new");
            assertTrue(status.contains(one.url() + ": HTTP 503 " + STANDS_BY), status);
            assertTrue(status.contains(other.url() + ": HTTP 503 " + STANDS_BY), status);
            assertTrue(status.matches("(?s).*\\(3 failures, next try in [1-3] s\\).*"), status);
        }
    }

    @Test
    void whoLedBeforeIsNotFollowed() {
        byte[] later = PLACED.replaceFirst("\\{", "{\"epoch\": 1795421542,").getBytes(StandardCharsets.UTF_8);
        AtomicInteger status = new AtomicInteger(200);
        try (FakeService leads = new FakeService(exchange -> {
            exchange.sendResponseHeaders(status.get(), later.length);
            exchange.getResponseBody().write(later);
        });
                FakeService led = FakeService.saying(200, PLACED.replaceFirst("\\{", "{\"epoch\": 1795421541,"))) {
            PlacementScheduler scheduler = scheduler(leads.url() + "," + led.url(), LONG_DEADLINE_MS);
            assertTrue(isPlaced(schedule(scheduler, nodes())));
            status.set(503);
            Cluster cluster = schedule(scheduler, nodes());
            assertFalse(isPlaced(cluster));
            String told = cluster.getStatusMap().get("new");
            assertTrue(told.contains(led.url() + ": it led before another one did"), told);
        }
    }

    @Test
    void afterThreeFailuresNobodyIsAsked() {
        try (FakeService service = FakeService.saying(503, "")) {
            PlacementScheduler scheduler = scheduler(service.url(), LONG_DEADLINE_MS);
            Cluster cluster = null;
            for (int round = 0; round < 5; round++) {
                cluster = schedule(scheduler, nodes());
                assertEquals(evenAlone(nodes()), TestCluster.placements(cluster));
            }
            assertEquals(3, service.requests.size());
            String status = cluster.getStatusMap().get("new");
            assertTrue(status.matches(".* HTTP 503 \\(3 failures, next try in (20|1\\d) s\\).*"), status);
        }
    }

    @Test
    void uselessConfiguration() {
        PlacementScheduler scheduler = new PlacementScheduler();
        scheduler.prepare(Map.of("stormwright.service.url", "http://[nowhere"), new StormMetricsRegistry());
        Cluster cluster = schedule(scheduler, nodes());
        assertEquals(evenAlone(nodes()), TestCluster.placements(cluster));
        assertTrue(cluster.getStatusMap().get("new").contains("not usable as configured"));
    }

    /** As where a part of the JVM is missing that the client needs. */
    @Test
    void anErrorWhilePreparingDoesNotReachNimbus() {
        Map<String, Object> hostile = new HashMap<>() {
            private static final long serialVersionUID = 1L;

            @Override
            public Object get(Object key) {
                throw new NoClassDefFoundError("java/net/http/HttpClient");
            }
        };
        PlacementScheduler scheduler = new PlacementScheduler();
        scheduler.prepare(hostile, new StormMetricsRegistry());
        Cluster cluster = schedule(scheduler, nodes());
        assertEquals(evenAlone(nodes()), TestCluster.placements(cluster));
        String status = cluster.getStatusMap().get("new");
        assertTrue(status.contains("not usable as configured: java/net/http/HttpClient"), status);
    }

    /** What cannot be told at all is a failure like any other: it is said as it is, and after three it rests. */
    @Test
    void anErrorWhileAskingIsAFailure() {
        List<Object> endless = new ArrayList<>();
        endless.add(endless);
        try (FakeService service = FakeService.saying(200, "{}")) {
            PlacementScheduler scheduler = new PlacementScheduler();
            scheduler.prepare(
                    Map.of("stormwright.service.url", service.url(), "stormwright.service.deadline.ms",
                            LONG_DEADLINE_MS, "stormwright.endless", endless),
                    new StormMetricsRegistry());
            Cluster cluster = null;
            for (int round = 0; round < 3; round++) {
                cluster = schedule(scheduler, nodes());
            }
            assertEquals(0, service.requests.size());
            String status = cluster.getStatusMap().get("new");
            assertTrue(status.matches(".*StackOverflowError \\(3 failures, next try in (20|1\\d) s\\).*"), status);
        }
    }

    private static String answer(String topology, String slots, String slotOfExecutor) {
        return """
                {"schema": "stormwright-assignment/1",
                 "assignments": {"%s": {"slots": %s, "slot_of_executor": [%s]}},
                 "status": {"%s": "text for %s"}}"""
                .formatted(topology, slots, slotOfExecutor, topology, topology);
    }
}
