package stormwright.host;

import java.util.Collection;
import java.util.Map;
import java.util.Set;
import org.apache.storm.scheduler.INimbus;
import org.apache.storm.scheduler.IScheduler;
import org.apache.storm.scheduler.SupervisorDetails;
import org.apache.storm.scheduler.Topologies;
import org.apache.storm.scheduler.WorkerSlot;

/** What a cluster needs of a Nimbus without there being one: the hosts of supervisors. */
final class PassiveNimbus implements INimbus {
    @Override
    public void prepare(Map<String, Object> conf, String schedulerLocalDir) {
        // nothing to prepare
    }

    @Override
    public Collection<WorkerSlot> allSlotsAvailableForScheduling(
            Collection<SupervisorDetails> supervisors, Topologies topologies, Set<String> missing) {
        return supervisors.stream()
                .flatMap(node -> node.getAllPorts().stream().map(port -> new WorkerSlot(node.getId(), port)))
                .toList();
    }

    @Override
    public void assignSlots(Topologies topologies, Map<String, Collection<WorkerSlot>> newSlotsByTopologyId) {
        // nobody to tell
    }

    @Override
    public String getHostName(Map<String, SupervisorDetails> supervisors, String nodeId) {
        SupervisorDetails supervisor = supervisors.get(nodeId);
        return supervisor == null ? null : supervisor.getHost();
    }

    @Override
    public IScheduler getForcedScheduler() {
        return null;
    }
}
