package stormwright.fallback;

import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.storm.DaemonConfig;
import org.apache.storm.metric.StormMetricsRegistry;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.EvenScheduler;
import org.apache.storm.scheduler.IScheduler;
import org.apache.storm.scheduler.TopologyDetails;
import org.apache.storm.scheduler.WorkerSlot;
import org.apache.storm.scheduler.resource.ResourceAwareScheduler;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import stormwright.PlacementScheduler;
import stormwright.bridge.Limits;
import stormwright.bridge.Users;
import stormwright.host.HostException;
import stormwright.host.SchedulerClasses;

/**
 * Who places what the service does not: {@code stormwright.fallback} in storm.yaml.
 *
 * <p>{@code even}, Storm's EvenScheduler; {@code none}, nobody; or a class, which is asked in every round as if it were
 * the cluster's scheduler. Nobody's answer counts for a topology of which it would break a limit (see {@link Limits}),
 * nor EvenScheduler's where topologies have hosts for themselves.
 */
public final class Fallback {
    public static final String KEY = "stormwright.fallback";
    private static final Logger LOG = LoggerFactory.getLogger(Fallback.class);
    private static final String EVEN = "even";
    private static final String NONE = "none";

    private final Map<String, Object> conf;
    /** Null for nobody. */
    private final IScheduler scheduler;
    private final String name;
    /** Why it is not what the configuration asks for, or empty. */
    private final String fault;

    private Fallback(Map<String, Object> conf, IScheduler scheduler, String fault) {
        this.conf = conf;
        this.scheduler = scheduler;
        this.name = scheduler == null ? NONE : scheduler.getClass().getSimpleName();
        this.fault = fault;
    }

    /** EvenScheduler, as long as nothing else is known to be wanted. */
    public static Fallback even() {
        return new Fallback(Map.of(), new EvenScheduler(), "");
    }

    /** What a configuration asks for; EvenScheduler if that cannot be had, which is logged and said in each status. */
    public static Fallback of(Map<String, Object> conf, StormMetricsRegistry metrics) {
        Object wanted = conf.get(KEY);
        if (wanted == null || EVEN.equals(wanted)) {
            return new Fallback(conf, new EvenScheduler(), "");
        }
        if (NONE.equals(wanted)) {
            return new Fallback(conf, null, "");
        }
        try {
            return new Fallback(conf, prepared(wanted, conf, metrics), "");
        } catch (Throwable e) {
            String fault = KEY + ": " + (e instanceof HostException ? e.getMessage() : wanted + " threw " + e);
            LOG.error("{}; EvenScheduler takes its place", fault, e);
            return new Fallback(conf, new EvenScheduler(), fault);
        }
    }

    private static IScheduler prepared(Object wanted, Map<String, Object> conf, StormMetricsRegistry metrics)
            throws Throwable {
        if (!(wanted instanceof String className)) {
            throw new HostException("should be even, none or the name of a class, got " + wanted, null);
        }
        IScheduler scheduler = SchedulerClasses.scheduler(className);
        if (scheduler instanceof PlacementScheduler) {
            throw new HostException("should be another scheduler than " + className, null);
        }
        scheduler.prepare(conf, metrics);
        LOG.info("what the service does not place, {} does", scheduler.getClass().getName());
        return scheduler;
    }

    /** What limits count for the service's answers, too. */
    public Limits limits() {
        return new Limits(scheduler instanceof ResourceAwareScheduler);
    }

    /** What the class tells Nimbus of the configuration that it has loaded. */
    public Map<?, ?> config() {
        return scheduler == null ? Map.of() : scheduler.config();
    }

    /** Nimbus ends. */
    public void cleanup() {
        if (scheduler != null) {
            scheduler.cleanup();
        }
    }

    /**
     * Places what has no slots, and whatever else a class of the cluster's own sees fit to do.
     *
     * @param left ids of topologies that have executors without slots
     * @param held ids of those that are to have none for the moment
     * @return topology id to what came of it, of these and of others that were changed
     */
    public Map<String, String> place(Cluster cluster, Set<String> left, Set<String> held) {
        Map<String, String> told = new HashMap<>();
        if (scheduler == null) {
            left.forEach(id -> told.put(id, "stays unscheduled, as " + KEY + " is " + NONE));
            return told;
        }
        if (left.isEmpty() && scheduler instanceof EvenScheduler) {
            return told;
        }
        try {
            Map<String, String> withheld = new HashMap<>();
            Trial trial = settled(cluster, left, held, withheld);
            Set<String> changed = new HashSet<>(trial.adopt());
            changed.addAll(left);
            changed.forEach(id -> told.put(id, outcome(cluster, trial, id, withheld.get(id))));
        } catch (Throwable e) {
            LOG.error("{} failed: nothing is placed in this round", name, e);
            left.forEach(id -> told.put(id, name + " failed: " + e));
        }
        return told;
    }

    private String outcome(Cluster cluster, Trial trial, String id, String withheld) {
        if (withheld != null) {
            return name + " would break its limits: " + withheld + also();
        }
        TopologyDetails topology = cluster.getTopologies().getById(id);
        String own = trial.told(id) == null ? "" : ": " + trial.told(id);
        boolean placed = cluster.getUnassignedExecutors(topology).isEmpty();
        return (placed ? "placed by " + name : name + " found no slots for it") + own + also();
    }

    private String also() {
        return fault.isEmpty() ? "" : " (" + fault + ")";
    }

    /** Asks until the answer breaks nothing; each time all whose limits it broke are withheld from the next. */
    private Trial settled(
            Cluster cluster, Set<String> left, Set<String> held, Map<String, String> withheld) {
        Set<String> closed = new HashSet<>();
        if (scheduler instanceof EvenScheduler
                && conf.get(DaemonConfig.ISOLATION_SCHEDULER_MACHINES) instanceof Map<?, ?> machines) {
            setApart(cluster, left, machines, withheld, closed);
        }
        while (true) {
            Set<String> absent = new HashSet<>(held);
            absent.addAll(withheld.keySet());
            Trial trial = new Trial(cluster, absent, closed).run(scheduler);
            Map<String, String> broken = trial.broken(limits(), Users.of(conf));
            if (broken.isEmpty()) {
                return trial;
            }
            if (withheld.keySet().containsAll(broken.keySet())) {
                throw new IllegalStateException("it moves what runs and breaks limits: " + broken);
            }
            withheld.putAll(broken);
        }
    }

    /** Topologies with hosts for themselves are withheld, and the hosts on which they run closed to others. */
    private static void setApart(
            Cluster cluster, Set<String> left, Map<?, ?> machines, Map<String, String> withheld, Set<String> closed) {
        for (TopologyDetails topology : cluster.getTopologies()) {
            if (machines.containsKey(topology.getName())) {
                for (WorkerSlot slot : Limits.slots(cluster, topology.getId()).values()) {
                    closed.add(cluster.getHost(slot.getNodeId()));
                }
                if (left.contains(topology.getId())) {
                    withheld.put(topology.getId(), DaemonConfig.ISOLATION_SCHEDULER_MACHINES + " gives it "
                            + machines.get(topology.getName()) + " hosts for itself");
                }
            }
        }
    }
}
