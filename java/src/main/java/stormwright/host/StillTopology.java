package stormwright.host;

import java.util.Map;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.TopologyDetails;

/**
 * A topology that does not grow older while it is placed.
 *
 * <p>Storm's {@code ResourceAwareScheduler} sorts topologies by how long they are up, and reads the clock for each
 * comparison: where a second ends in the middle of the sort, topologies of one age change places.
 */
final class StillTopology extends TopologyDetails {
    private final int upTime;

    /**
     * As Storm's, with the time of the question.
     *
     * @param now seconds since 1970
     */
    StillTopology(String id, Map<String, Object> conf, StormTopology structure, int workers,
            Map<ExecutorDetails, String> componentOf, int launchTime, String owner, int now) {
        super(id, conf, structure, workers, componentOf, launchTime, owner);
        upTime = now - launchTime;
    }

    @Override
    public int getUpTime() {
        return upTime;
    }
}
