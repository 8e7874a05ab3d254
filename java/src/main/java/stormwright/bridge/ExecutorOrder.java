package stormwright.bridge;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.TopologyDetails;

/** The order in which requests and answers list a topology's executors: by first task. */
final class ExecutorOrder {
    private ExecutorOrder() {
    }

    static List<ExecutorDetails> of(TopologyDetails topology) {
        List<ExecutorDetails> executors = new ArrayList<>(topology.getExecutors());
        executors.sort(Comparator.comparingInt(ExecutorDetails::getStartTask));
        return executors;
    }
}
