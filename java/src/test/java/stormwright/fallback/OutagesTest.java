package stormwright.fallback;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.storm.metric.StormMetricsRegistry;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.WorkerSlot;
import org.apache.storm.utils.Utils;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import stormwright.PlacementScheduler;
import stormwright.bridge.FakeService;
import stormwright.bridge.TestCluster;

/**
 * Nodes die and return, topologies are rebalanced, Nimbus starts anew, and the service is away or says whatever it
 * likes: nothing comes to a node that is not its own.
 */
class OutagesTest {
    private static final Map<String, Object> DEFAULTS = Utils.readDefaultConfig();
    /** Under each of five fallbacks; 200 under each were tried once. */
    private static final int SEQUENCES = 40;
    private static final int ROUNDS = 8;
    private static final int PORTS = 3;
    private static final Map<String, String> TAGS_OF_NODE = Map.of(
            "n0", "ssd", "n1", "gpu", "n2", "gpu,ssd", "n3", "", "n4", "gpu");
    private static final List<String> TOPOLOGIES = List.of("apart", "tagged", "spread", "plain", "other");
    private static final int FIRST_COUNT = 2;
    private static final int LAST_COUNT = 4;

    private final Map<String, Map<ExecutorDetails, WorkerSlot>> runs = new HashMap<>();
    private final Set<String> alive = new TreeSet<>();
    private int placed;
    private String answer = "";

    @ParameterizedTest
    @ValueSource(strings = {"even", "none", "DefaultScheduler", "ResourceAwareScheduler", "MultitenantScheduler"})
    void nothingComesToANodeThatIsNotItsOwn(String fallback) {
        try (FakeService service = new FakeService(exchange -> {
            byte[] bytes = answer.getBytes(StandardCharsets.UTF_8);
            exchange.sendResponseHeaders(200, bytes.length);
            exchange.getResponseBody().write(bytes);
        })) {
            for (int seed = 0; seed < SEQUENCES; seed++) {
                sequence(new Random(seed), fallback, service.url());
            }
        }
        assertTrue(placed > 20 * SEQUENCES, "a test in which little is placed shows little: " + placed);
    }

    private void sequence(Random random, String fallback, String url) {
        alive.addAll(TAGS_OF_NODE.keySet());
        runs.clear();
        runs.put("apart", allIn(new WorkerSlot("n0", 6700)));
        PlacementScheduler scheduler = null;
        for (int round = 0; round < ROUNDS; round++) {
            change(random);
            answer = random.nextBoolean() ? "nonsense" : anyPlacement(random);
            if (scheduler == null || random.nextInt(3) == 0) {
                scheduler = prepared(fallback, random.nextInt(3) == 0 ? "http://127.0.0.1:1" : url);
            }
            Cluster cluster = state().build();
            scheduler.schedule(cluster.getTopologies(), cluster);
            runs.clear();
            runs.putAll(TestCluster.placements(cluster));
            runs.values().forEach(own -> placed += own.size());
            check(fallback, cluster.getStatusMap());
        }
        scheduler.cleanup();
    }

    private static PlacementScheduler prepared(String fallback, String url) {
        Map<String, Object> conf = new HashMap<>(DEFAULTS);
        conf.put("stormwright.service.url", url);
        conf.put("stormwright.service.deadline.ms", 15_000);
        conf.put("isolation.scheduler.machines", Map.of("apart", 1));
        conf.put(Fallback.KEY, fallback);
        PlacementScheduler scheduler = new PlacementScheduler();
        scheduler.prepare(conf, new StormMetricsRegistry());
        return scheduler;
    }

    /** A node dies, or comes back; a topology loses its slots to a rebalance. */
    private void change(Random random) {
        String node = "n" + random.nextInt(TAGS_OF_NODE.size());
        if (alive.add(node)) {
            return;
        }
        if (random.nextBoolean() && alive.size() > 2) {
            alive.remove(node);
        } else {
            runs.remove(TOPOLOGIES.get(1 + random.nextInt(TOPOLOGIES.size() - 1)));
        }
    }

    private TestCluster state() {
        TestCluster state = new TestCluster();
        alive.forEach(node -> state.supervisor(node, PORTS, TAGS_OF_NODE.get(node)));
        state.topology("apart", 1).topology("tagged", 2, Map.of(), "gpu")
                .topology("spread", 3, Map.of("topology.spread.components", List.of("count")), null)
                .topology("plain", 2).topology("other", 1);
        runs.forEach((topology, own) -> {
            Map<ExecutorDetails, WorkerSlot> living = new HashMap<>(own);
            living.values().removeIf(slot -> !alive.contains(slot.getNodeId()));
            if (!living.isEmpty()) {
                state.running(topology, living);
            }
        });
        return state;
    }

    /** A topology somewhere, on any nodes but the isolated one's, which the service itself sees to. */
    private String anyPlacement(Random random) {
        String topology = TOPOLOGIES.get(1 + random.nextInt(TOPOLOGIES.size() - 1));
        List<String> nodes = new ArrayList<>(alive);
        nodes.removeAll(nodes("apart"));
        if (nodes.isEmpty()) {
            return "nothing";
        }
        String slots = IntStream.range(0, 3)
                .mapToObj(i -> "[\"%s\",%d]".formatted(nodes.get(random.nextInt(nodes.size())), 6700 + i))
                .collect(Collectors.joining(","));
        String where = IntStream.range(0, 9).mapToObj(i -> "" + random.nextInt(3)).collect(Collectors.joining(","));
        return """
                {"schema": "stormwright-assignment/1", "status": {},
                 "assignments": {"%s": {"slots": [%s], "slot_of_executor": [%s]}}}""".formatted(topology, slots, where);
    }

    private Set<String> nodes(String topology) {
        return runs.getOrDefault(topology, Map.of()).values().stream().map(WorkerSlot::getNodeId)
                .collect(Collectors.toSet());
    }

    private void check(String fallback, Map<String, String> status) {
        runs.getOrDefault("tagged", Map.of()).forEach((executor, slot) -> assertTrue(
                !isCount(executor) || TAGS_OF_NODE.get(slot.getNodeId()).contains("gpu"), () -> status.get("tagged")));
        Set<String> taken = new HashSet<>();
        runs.getOrDefault("spread", Map.of()).forEach((executor, slot) -> assertTrue(
                !isCount(executor) || taken.add(slot.getNodeId()), () -> status.get("spread")));
        if (fallback.equals("even") || fallback.equals("none")) {
            for (String other : TOPOLOGIES.subList(1, TOPOLOGIES.size())) {
                assertTrue(nodes(other).stream().noneMatch(nodes("apart")::contains), () -> status.get(other));
            }
        }
    }

    private static boolean isCount(ExecutorDetails executor) {
        return executor.getStartTask() >= FIRST_COUNT && executor.getStartTask() <= LAST_COUNT;
    }

    private static Map<ExecutorDetails, WorkerSlot> allIn(WorkerSlot slot) {
        return IntStream.rangeClosed(1, 9).boxed()
                .collect(Collectors.toMap(task -> new ExecutorDetails(task, task), task -> slot));
    }
}
