package stormwright.bridge;

import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.TopologyDetails;
import org.apache.storm.scheduler.WorkerSlot;
import org.apache.storm.shade.net.minidev.json.parser.JSONParser;
import org.apache.storm.shade.net.minidev.json.parser.ParseException;

/**
 * What the service wants.
 *
 * @param placements topology id to executor to slot, of topologies whose assignment makes sense by itself
 * @param refused topology id to what is wrong with its assignment
 * @param status topology id to text
 * @param held ids of topologies that stay without slots for the moment, as the service exchanges all of their workers
 * @param epoch number of the service among those that have led; 0 for one that is alone
 */
public record Answer(
        Map<String, Map<ExecutorDetails, WorkerSlot>> placements,
        Map<String, String> refused,
        Map<String, String> status,
        Set<String> held,
        long epoch) {
    private static final String SCHEMA = "stormwright-assignment/1";

    /**
     * Reads an answer.
     *
     * @throws ServiceException it is no answer to a question about this cluster
     */
    public static Answer read(String json, Cluster cluster) throws ServiceException {
        if (!(parse(json) instanceof Map<?, ?> document)) {
            throw new ServiceException("the answer is not a JSON object");
        }
        if (!SCHEMA.equals(document.get("schema"))) {
            throw new ServiceException("the answer's schema is " + document.get("schema") + ", not " + SCHEMA);
        }
        long epoch = document.get("epoch") instanceof Number number ? number.longValue() : 0;
        Answer answer = new Answer(new HashMap<>(), new HashMap<>(), texts(document.get("status")),
                ids(document.get("held")), epoch);
        if (!(document.get("assignments") instanceof Map<?, ?> assignments)) {
            throw new ServiceException("the answer has no assignments");
        }
        for (Map.Entry<?, ?> entry : assignments.entrySet()) {
            String id = (String) entry.getKey();
            TopologyDetails topology = cluster.getTopologies().getById(id);
            if (topology == null) {
                throw new ServiceException("the answer assigns " + id + ", which is no topology here");
            }
            try {
                answer.placements.put(id, placement(entry.getValue(), topology));
            } catch (ServiceException e) {
                answer.refused.put(id, e.getMessage());
            }
        }
        return answer;
    }

    private static Object parse(String json) throws ServiceException {
        try {
            return new JSONParser(JSONParser.MODE_RFC4627).parse(json);
        } catch (ParseException | RuntimeException | StackOverflowError e) {
            throw new ServiceException("the answer is not JSON", e);
        }
    }

    private static Set<String> ids(Object held) {
        Set<String> ids = new HashSet<>();
        if (held instanceof List<?> list) {
            list.forEach(id -> ids.add(String.valueOf(id)));
        }
        return ids;
    }

    private static Map<String, String> texts(Object status) {
        Map<String, String> texts = new HashMap<>();
        if (status instanceof Map<?, ?> map) {
            map.forEach((id, text) -> texts.put(String.valueOf(id), String.valueOf(text)));
        }
        return texts;
    }

    private static Map<ExecutorDetails, WorkerSlot> placement(Object assignment, TopologyDetails topology)
            throws ServiceException {
        if (!(assignment instanceof Map<?, ?> fields)
                || !(fields.get("slots") instanceof List<?> rawSlots)
                || !(fields.get("slot_of_executor") instanceof List<?> slotOfExecutor)) {
            throw new ServiceException("no lists slots and slot_of_executor");
        }
        WorkerSlot[] slots = new WorkerSlot[rawSlots.size()];
        for (int i = 0; i < slots.length; i++) {
            slots[i] = slot(rawSlots.get(i));
        }
        List<ExecutorDetails> order = ExecutorOrder.of(topology);
        if (slotOfExecutor.size() != order.size()) {
            throw new ServiceException(
                    "slots for " + slotOfExecutor.size() + " executors, but it has " + order.size());
        }
        Map<ExecutorDetails, WorkerSlot> placement = new HashMap<>();
        for (int i = 0; i < order.size(); i++) {
            Object index = slotOfExecutor.get(i);
            if (!(index instanceof Integer number) || number < 0 || number >= slots.length) {
                throw new ServiceException("executor " + i + " is in slot " + index + " of " + slots.length);
            }
            placement.put(order.get(i), slots[number]);
        }
        return placement;
    }

    private static WorkerSlot slot(Object slot) throws ServiceException {
        if (slot instanceof List<?> pair && pair.size() == 2
                && pair.get(0) instanceof String supervisor && pair.get(1) instanceof Integer port) {
            return new WorkerSlot(supervisor, port);
        }
        throw new ServiceException("not a slot: " + slot);
    }
}
