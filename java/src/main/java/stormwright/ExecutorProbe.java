package stormwright;

import java.util.Map;
import org.apache.storm.Constants;
import org.apache.storm.hooks.BaseTaskHook;
import org.apache.storm.hooks.info.BoltAckInfo;
import org.apache.storm.hooks.info.BoltExecuteInfo;
import org.apache.storm.hooks.info.BoltFailInfo;
import org.apache.storm.hooks.info.EmitInfo;
import org.apache.storm.hooks.info.SpoutAckInfo;
import org.apache.storm.hooks.info.SpoutFailInfo;
import org.apache.storm.task.TopologyContext;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import stormwright.probe.TaskCounts;
import stormwright.probe.WorkerProbe;

/**
 * The task hook that writes the performance log; named in {@code topology.auto.task.hooks}.
 *
 * <p>It is called for every tuple, by the executor's thread and by any thread that a bolt emits from. So it only adds
 * to counters: no lock, no allocation, and whatever goes wrong in it stays in it. {@link WorkerProbe} reads them.
 */
public final class ExecutorProbe extends BaseTaskHook {
    private static final Logger LOG = LoggerFactory.getLogger(ExecutorProbe.class);

    private WorkerProbe worker;
    private TaskCounts counts;

    @Override
    public void prepare(Map<String, Object> conf, TopologyContext context) {
        if (context.getThisTaskId() == Constants.SYSTEM_TASK_ID) {
            return; // each worker has one of these; it does no work of the topology
        }
        try {
            WorkerProbe probe = WorkerProbe.of(conf, context);
            counts = probe.add(context);
            worker = probe;
        } catch (Throwable e) {
            LOG.error("task {} is not measured", context.getThisTaskId(), e);
        }
    }

    @Override
    public void cleanup() {
        if (worker == null) {
            return;
        }
        try {
            worker.taskEnded();
            if (counts.uncounted() > 0) {
                LOG.warn("{} calls of this task were not counted", counts.uncounted());
            }
        } catch (Throwable e) {
            LOG.error("the last record may be missing", e);
        }
    }

    @Override
    public void emit(EmitInfo info) {
        if (counts != null) {
            counts.emitted(info);
        }
    }

    @Override
    public void boltExecute(BoltExecuteInfo info) {
        if (counts != null) {
            counts.executed(info);
        }
    }

    @Override
    public void boltAck(BoltAckInfo info) {
        if (counts != null) {
            counts.acked();
        }
    }

    @Override
    public void boltFail(BoltFailInfo info) {
        if (counts != null) {
            counts.failed();
        }
    }

    @Override
    public void spoutAck(SpoutAckInfo info) {
        if (counts != null) {
            counts.completed(info);
        }
    }

    @Override
    public void spoutFail(SpoutFailInfo info) {
        if (counts != null) {
            counts.failed();
        }
    }
}
