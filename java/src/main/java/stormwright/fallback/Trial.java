package stormwright.fallback;

import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.EvenScheduler;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.IScheduler;
import org.apache.storm.scheduler.Topologies;
import org.apache.storm.scheduler.TopologyDetails;
import org.apache.storm.scheduler.WorkerSlot;
import stormwright.bridge.Limits;
import stormwright.bridge.Placement;
import stormwright.bridge.Users;

/**
 * What a scheduler makes of a cluster, before it counts.
 *
 * <p>Topologies that are withheld from it look as if what lives of them were all of them, so there is nothing to place;
 * one of which nothing lives is not there.
 */
final class Trial {
    /**
     * Lets EvenScheduler of Storm 3 move running workers to idle supervisors. It is to place topologies without slots;
     * those that run are the service's.
     */
    private static final String MOVES_TO_IDLE = "nimbus.even.rebalance.idle.supervisor.enabled";
    private final Cluster real;
    private final Cluster copy;

    /**
     * Copies a cluster.
     *
     * @param withheld ids of topologies that the scheduler may not place
     * @param closed hosts on which it may place nothing
     */
    Trial(Cluster real, Collection<String> withheld, Collection<String> closed) {
        this.real = real;
        Map<String, TopologyDetails> shown = new HashMap<>();
        for (TopologyDetails topology : real.getTopologies()) {
            TopologyDetails alive = withheld.contains(topology.getId()) ? aliveOf(topology) : topology;
            if (!alive.getExecutors().isEmpty() || alive == topology) {
                shown.put(alive.getId(), alive);
            }
        }
        this.copy = new Cluster(real, withheld.isEmpty() ? real.getTopologies() : new Topologies(shown));
        closed.forEach(copy::blacklistHost);
    }

    private TopologyDetails aliveOf(TopologyDetails topology) {
        Map<ExecutorDetails, WorkerSlot> alive = Limits.slots(real, topology.getId());
        int workers = new HashSet<>(alive.values()).size();
        return new TopologyDetails(topology.getId(), topology.getConf(), topology.getTopology(), workers,
                topology.selectExecutorToComponent(alive.keySet()), topology.getLaunchTime(),
                topology.getTopologySubmitter());
    }

    Trial run(IScheduler scheduler) {
        if (scheduler instanceof EvenScheduler) {
            copy.getConf().put(MOVES_TO_IDLE, false);
        }
        scheduler.schedule(copy.getTopologies(), copy);
        return this;
    }

    /** Topology id to what its executors that came to their slots break, or what its user would have too much of. */
    Map<String, String> broken(Limits limits, Users users) {
        Map<String, String> broken = new HashMap<>(users.beyond(real, copy));
        changed().keySet().forEach(id -> {
            TopologyDetails topology = real.getTopologies().getById(id);
            String why = limits.broken(topology, Limits.slots(real, id), copy);
            if (why != null) {
                broken.put(id, why);
            }
        });
        return broken;
    }

    /** Topologies of which executors were given or lost slots, and where each of these is. */
    Map<String, Map<ExecutorDetails, WorkerSlot>> changed() {
        Map<String, Map<ExecutorDetails, WorkerSlot>> changed = new HashMap<>();
        for (TopologyDetails topology : real.getTopologies()) {
            Map<ExecutorDetails, WorkerSlot> now = Limits.slots(copy, topology.getId());
            if (!now.equals(Limits.slots(real, topology.getId()))) {
                changed.put(topology.getId(), now);
            }
        }
        return changed;
    }

    /** What the scheduler says of a topology, if it is something new; else null. */
    String told(String topology) {
        String text = copy.getStatusMap().get(topology);
        return text == null || text.equals(real.getStatusMap().get(topology)) ? null : text;
    }

    /** Makes it count; returns the topologies that it changes. */
    Set<String> adopt() {
        Map<String, Map<ExecutorDetails, WorkerSlot>> changed = changed();
        Placement.replace(real, changed);
        return changed.keySet();
    }
}
