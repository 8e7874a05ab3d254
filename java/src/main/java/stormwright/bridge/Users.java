package stormwright.bridge;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.storm.Constants;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.TopologyDetails;
import org.apache.storm.scheduler.WorkerSlot;

/**
 * What all topologies of a user may have together, as the cluster's configuration says; by what executors ask for.
 *
 * @param told user, or {@code *} for everybody who is not named, to amounts by name; anything else counts for nothing
 */
public record Users(Object told) {
    private static final String KEY = "stormwright.users";
    private static final String EVERYBODY = "*";
    /** Sums of amounts that are exactly as much as is allowed may come out a little above. */
    private static final double TOLERANCE = 1e-9;

    /** What a cluster's configuration says. */
    public static Users of(Map<String, Object> conf) {
        return new Users(conf.get(KEY));
    }

    /**
     * Says which topologies that nothing ran of before are too much for their users, in the order of their ids.
     *
     * @param before what ran, which goes on and counts
     * @param after what a scheduler has made of it
     * @return topology id to a text
     */
    public Map<String, String> beyond(Cluster before, Cluster after) {
        Map<String, String> beyond = new HashMap<>();
        if (!(told instanceof Map<?, ?>)) {
            return beyond;
        }
        Map<String, Map<String, Double>> has = new HashMap<>();
        List<TopologyDetails> arrived = new ArrayList<>();
        for (TopologyDetails topology : before.getTopologies()) {
            if (Limits.slots(before, topology.getId()).isEmpty()) {
                arrived.add(topology);
            } else {
                amounts(topology, after).forEach((name, amount) -> of(has, topology).merge(name, amount, Double::sum));
            }
        }
        arrived.sort(Comparator.comparing(TopologyDetails::getId));
        for (TopologyDetails topology : arrived) {
            Map<String, Double> whole = new LinkedHashMap<>(amounts(topology, after));
            whole.replaceAll((name, amount) -> amount + of(has, topology).getOrDefault(name, 0.0));
            String why = tooMuch(topology.getTopologySubmitter(), whole);
            if (why == null || Limits.slots(after, topology.getId()).isEmpty()) {
                of(has, topology).putAll(whole);
            } else {
                beyond.put(topology.getId(), why);
            }
        }
        return beyond;
    }

    private static Map<String, Double> of(Map<String, Map<String, Double>> has, TopologyDetails topology) {
        return has.computeIfAbsent(String.valueOf(topology.getTopologySubmitter()), user -> new HashMap<>());
    }

    private String tooMuch(String user, Map<String, Double> whole) {
        for (Map.Entry<String, Double> entry : whole.entrySet()) {
            Double allowed = allowed(user, entry.getKey());
            if (allowed != null && entry.getValue() > allowed * (1 + TOLERANCE)) {
                return "user " + user + " would have " + Limits.amount(entry.getValue()) + " of "
                        + Limits.amount(allowed) + " " + entry.getKey() + " (" + KEY + ")";
            }
        }
        return null;
    }

    private Double allowed(String user, String name) {
        for (Object who : new Object[] {user, EVERYBODY}) {
            if (((Map<?, ?>) told).get(who) instanceof Map<?, ?> amounts && amounts.get(name) instanceof Number most) {
                return most.doubleValue();
            }
        }
        return null;
    }

    private static Map<String, Double> amounts(TopologyDetails topology, Cluster cluster) {
        Map<ExecutorDetails, WorkerSlot> slots = Limits.slots(cluster, topology.getId());
        double cpu = 0;
        double memory = 0;
        for (ExecutorDetails executor : slots.keySet()) {
            Map<String, Double> asked = topology.getTotalResources(executor).toNormalizedMap();
            cpu += asked.getOrDefault(Constants.COMMON_CPU_RESOURCE_NAME, 0.0);
            memory += asked.getOrDefault(Constants.COMMON_ONHEAP_MEMORY_RESOURCE_NAME, 0.0)
                    + asked.getOrDefault(Constants.COMMON_OFFHEAP_MEMORY_RESOURCE_NAME, 0.0);
        }
        Map<String, Double> amounts = new LinkedHashMap<>();
        amounts.put("executors", (double) slots.size());
        amounts.put("slots", (double) new HashSet<>(slots.values()).size());
        amounts.put("cpu", cpu);
        amounts.put("memory", memory);
        return amounts;
    }
}
