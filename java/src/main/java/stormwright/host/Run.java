package stormwright.host;

import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.storm.metric.StormMetricsRegistry;
import org.apache.storm.scheduler.IScheduler;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** One run of one scheduler on one problem. */
public final class Run {
    private static final Logger LOG = LoggerFactory.getLogger(Run.class);

    private Run() {
    }

    /**
     * Runs a scheduler.
     *
     * @param request {@code class}, {@code problem} and optionally {@code strategy}, {@code conf} and {@code seed}
     * @return {@code assignments}, {@code heaps}, {@code status} and {@code seconds}, the time in {@code schedule} alone
     * @throws HostException the scheduler cannot be run, or threw something, which is the cause
     * @throws IllegalArgumentException the request is not as it should be
     */
    public static Map<String, Object> of(Map<?, ?> request) throws HostException {
        Fields fields = new Fields("$", request);
        String name = fields.text("class");
        String strategy = fields.has("strategy") ? SchedulerClasses.strategy(fields.text("strategy")) : null;
        ProblemCluster problem = new ProblemCluster(fields.object("problem"), fields.object("conf").conf(), strategy);
        if (fields.has("seed")) {
            ShuffleSeed.set(((Number) request.get("seed")).longValue());
        }
        long nanos;
        try {
            IScheduler scheduler = SchedulerClasses.scheduler(name);
            try {
                scheduler.prepare(problem.conf(), new StormMetricsRegistry());
                long begin = System.nanoTime();
                scheduler.schedule(problem.topologies(), problem.cluster());
                nanos = System.nanoTime() - begin;
            } finally {
                cleanUp(scheduler);
            }
        } catch (HostException e) {
            throw e;
        } catch (Throwable e) { // its errors are as much its own as its exceptions: it may need a class that is not there
            throw new HostException(name + " threw " + told(e), e);
        }
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("assignments", problem.placements());
        answer.put("heaps", problem.heaps());
        answer.put("status", problem.status());
        answer.put("seconds", nanos / 1e9);
        return answer;
    }

    /** An exception with where it was thrown. */
    public static String told(Throwable e) {
        StackTraceElement[] trace = e.getStackTrace();
        return trace.length == 0 ? e.toString() : e + " at " + trace[0];
    }

    private static void cleanUp(IScheduler scheduler) {
        try {
            scheduler.cleanup();
        } catch (RuntimeException e) {
            // One that was prepared only in part may fail here; what it threw before tells more.
            LOG.warn("{} failed to clean up", scheduler, e);
        }
    }
}
