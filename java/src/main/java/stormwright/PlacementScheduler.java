package stormwright;

import java.net.UnknownHostException;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.storm.metric.StormMetricsRegistry;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.IScheduler;
import org.apache.storm.scheduler.Topologies;
import org.apache.storm.scheduler.TopologyDetails;
import org.apache.storm.utils.ObjectReader;
import org.apache.storm.utils.Utils;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import stormwright.access.Addresses;
import stormwright.access.Credentials;
import stormwright.bridge.Answer;
import stormwright.bridge.CircuitBreaker;
import stormwright.bridge.Placement;
import stormwright.bridge.ServiceException;
import stormwright.bridge.Services;
import stormwright.bridge.Snapshot;
import stormwright.fallback.Fallback;

/**
 * Asks the stormwright service where executors should run; named in {@code storm.scheduler}.
 *
 * <p>An exception that leaves a scheduler ends Nimbus, and while one runs Nimbus does nothing else. So whatever
 * happens is caught, and the service has until its deadline. Without a usable answer we touch nothing that runs;
 * what has no slots is left to the {@link Fallback}, as is what the service leaves out. Each topology's status says so.
 * Of several services the one that leads answers; an answer of one that led before is refused.
 *
 * <p>storm.yaml: {@code stormwright.service.url} (http://127.0.0.1:7070; one address or several), {@code stormwright.service.deadline.ms}
 * (1500) and {@code stormwright.fallback} (even), and those of {@link Credentials}.
 */
public final class PlacementScheduler implements IScheduler {
    private static final Logger LOG = LoggerFactory.getLogger(PlacementScheduler.class);
    private static final String SERVICE_URL = "stormwright.service.url";
    private static final String DEADLINE_MS = "stormwright.service.deadline.ms";
    private static final String DEFAULT_URL = "http://127.0.0.1:7070";
    private static final int DEFAULT_DEADLINE_MS = 1500;
    private static final String OUTAGE = "stormwright service at ";

    private CircuitBreaker breaker = new CircuitBreaker(System::nanoTime, CircuitBreaker.REST_NS);
    private Map<String, Object> conf = Map.of();
    private String url = DEFAULT_URL;
    private Services services;
    /** The highest of a service that has answered. */
    private long epoch;
    private Fallback fallback = Fallback.even();
    private String nimbusHost;
    /** Why the service has no answer for us, as it was last time it was asked. */
    private String lastFailure = "";

    @Override
    public void prepare(Map<String, Object> conf, StormMetricsRegistry metrics) {
        try {
            this.conf = conf;
            List<String> told = Addresses.of(conf.get(SERVICE_URL));
            List<String> addresses = told.isEmpty() ? List.of(DEFAULT_URL) : told;
            url = String.join(", ", addresses);
            int deadlineMs = ObjectReader.getInt(conf.get(DEADLINE_MS), DEFAULT_DEADLINE_MS);
            nimbusHost = hostname();
            services = new Services(addresses, deadlineMs, Credentials.of(conf));
            if (addresses.size() > 1) {
                breaker = new CircuitBreaker(System::nanoTime, CircuitBreaker.SHORT_REST_NS);
            }
            LOG.info("placements come from {} within {} ms", url, deadlineMs);
        } catch (Throwable e) {
            lastFailure = "not usable as configured: " + e.getMessage();
            LOG.error("{}, {}, stormwright.token.file and stormwright.tls make no service", SERVICE_URL, DEADLINE_MS, e);
        }
        try {
            fallback = Fallback.of(conf, metrics);
        } catch (Throwable e) {
            LOG.error("{} cannot be read; EvenScheduler takes its place", Fallback.KEY, e);
        }
    }

    private static String hostname() {
        try {
            return Utils.hostname();
        } catch (UnknownHostException e) {
            return "localhost";
        }
    }

    @Override
    public void schedule(Topologies topologies, Cluster cluster) {
        Map<String, String> notes = new HashMap<>();
        try {
            Set<String> waiting = unplaced(cluster);
            Set<String> held = new HashSet<>();
            notes.putAll(followService(cluster, held));
            Set<String> left = unplaced(cluster);
            left.removeAll(held);
            Map<String, String> outcomes = fallback.place(cluster, left, held);
            outcomes.forEach((topology, outcome) -> {
                String why = notes.getOrDefault(topology, "stormwright: the service left it out");
                notes.put(topology, why + "; " + outcome);
            });
            describe(cluster, waiting, outcomes.keySet(), notes);
        } catch (Throwable e) {
            LOG.error("this round of scheduling is over", e);
        }
    }

    /**
     * Applies the service's answer, and adds the topologies that it leaves without slots.
     *
     * @return a note for every topology that has something to be said about
     */
    private Map<String, String> followService(Cluster cluster, Set<String> held) {
        try {
            Answer answer = ask(cluster);
            held.addAll(answer.held());
            Map<String, String> notes = new HashMap<>(answer.status());
            Placement.apply(answer, cluster, fallback.limits()).forEach((topology, why) -> {
                LOG.warn("the answer for {} is refused: {}", topology, why);
                notes.put(topology, "stormwright: answer refused: " + why);
            });
            return notes;
        } catch (Throwable e) {
            if (!(e instanceof ServiceException)) {
                LOG.error("the service's answer could not be used", e);
            }
            return outage(cluster, e instanceof ServiceException ? e.getMessage() : e.toString());
        }
    }

    private Answer ask(Cluster cluster) throws ServiceException {
        if (services == null || !breaker.allows()) {
            throw new ServiceException(lastFailure);
        }
        try {
            Answer answer = services.ask(Snapshot.of(cluster, conf, nimbusHost), body -> read(body, cluster));
            breaker.succeeded();
            return answer;
        } catch (Throwable e) {
            breaker.failed();
            lastFailure = e instanceof ServiceException ? e.getMessage() : e.toString();
            LOG.warn("{}{}: {} ({})", OUTAGE, url, lastFailure, breaker.describe());
            throw new ServiceException(lastFailure, e);
        }
    }

    private Answer read(String body, Cluster cluster) throws ServiceException {
        Answer answer = Answer.read(body, cluster);
        if (answer.epoch() != 0 && answer.epoch() < epoch) {
            throw new ServiceException("it led before another one did, and does not know it");
        }
        epoch = Math.max(epoch, answer.epoch());
        return answer;
    }

    private Map<String, String> outage(Cluster cluster, String why) {
        String text = OUTAGE + url + ": " + why + (services == null ? "" : " (" + breaker.describe() + ")");
        Map<String, String> notes = new HashMap<>();
        cluster.getTopologies().forEach(topology -> notes.put(topology.getId(), text));
        return notes;
    }

    private static Set<String> unplaced(Cluster cluster) {
        Set<String> ids = new HashSet<>();
        for (TopologyDetails topology : cluster.getTopologies()) {
            if (!cluster.getUnassignedExecutors(topology).isEmpty()) {
                ids.add(topology.getId());
            }
        }
        return ids;
    }

    /** Sets a status where it says something new; Nimbus logs each that is set. */
    private void describe(
            Cluster cluster, Set<String> waiting, Set<String> fallen, Map<String, String> notes) {
        for (TopologyDetails topology : cluster.getTopologies()) {
            String id = topology.getId();
            String note = notes.get(id);
            String known = cluster.getStatusMap().get(id);
            boolean outage = note != null && note.startsWith(OUTAGE);
            boolean knownOutage = known != null && known.startsWith(OUTAGE);
            if (outage && !fallen.contains(id)) {
                // The seconds until the next try change each round, which is no news for a topology that just runs.
                boolean told = knownOutage && known.startsWith(OUTAGE + url + ": " + lastFailure);
                note = told ? known : note + "; left as it is";
            } else if (note == null && waiting.contains(id)) {
                note = "stormwright: placed by the service";
            } else if (note == null && knownOutage) {
                note = "stormwright: the service answers again; left as it is";
            }
            if (note != null && !note.equals(known)) {
                cluster.setStatus(id, note);
            }
        }
    }

    @Override
    public Map<?, ?> config() {
        try {
            return fallback.config();
        } catch (Throwable e) {
            LOG.error("the fallback does not tell its configuration", e);
            return Map.of();
        }
    }

    @Override
    public void cleanup() {
        try {
            fallback.cleanup();
        } catch (Throwable e) {
            LOG.error("the fallback failed to clean up", e);
        }
    }
}
