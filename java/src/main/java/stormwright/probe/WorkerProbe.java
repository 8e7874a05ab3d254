package stormwright.probe;

import java.io.IOException;
import java.net.URI;
import java.security.GeneralSecurityException;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import org.apache.storm.Config;
import org.apache.storm.generated.InvalidTopologyException;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.utils.ConfigUtils;
import org.apache.storm.utils.ObjectReader;
import org.apache.storm.utils.Utils;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import stormwright.access.Credentials;
import stormwright.bridge.ComponentCode;

/**
 * The one probe of a worker: writes a record of all its tasks per interval, and a last one when they have ended.
 *
 * <p>A record goes to the {@link Spool} first and from there to the service. If it cannot be written, the next one
 * covers its time as well: counts are late then, but not lost.
 */
public final class WorkerProbe {
    private static final Logger LOG = LoggerFactory.getLogger(WorkerProbe.class);
    private static final Map<String, WorkerProbe> PROBES = new HashMap<>();

    /** Storm halts a worker so long after it was told to end. */
    private static final int DEFAULT_HALT_S = 3;
    /** Parts of that time that the end of the tasks, and then of shipping, is waited for. */
    private static final double TASKS_SHARE = 0.5;
    private static final double SHIPPING_SHARE = 0.3;

    /**
     * A move waits for records of workers that have just started, and of those that have just become idle: intervals are
     * short for some time then, and one ends as soon as a steady flow of tuples stops. Configured intervals above
     * {@link #LONG_INTERVAL_MS} are never shortened: after a short record the service takes a worker that is silent for
     * 2.5 s for dead, and the record of a long interval has to arrive by then.
     */
    private static final long SHORT_INTERVAL_MS = 250;
    private static final long STARTING_NS = 20_000_000_000L;
    private static final long STOPPING_NS = 1_000_000_000L;
    private static final long LONG_INTERVAL_MS = 2_000;

    private final Map<String, Object> conf;
    private final Map<String, List<Edge>> edges;
    private final WorkerMeter meter;
    private final Spool spool;
    private final Shipper shipper;
    private final ScheduledThreadPoolExecutor timer;
    private final int haltMs;
    private final long intervalMs;
    private boolean active;
    private long shortUntilNs = System.nanoTime() + STARTING_NS;
    private final FlowWatch flow = new FlowWatch();
    private long dueNs;
    private final CountDownLatch ended = new CountDownLatch(1);
    private int runningTasks;
    private boolean writable = true;

    private WorkerProbe(Map<String, Object> conf, TopologyContext context) throws InvalidTopologyException {
        this.conf = conf;
        this.edges = Edge.bySource(conf, context);
        ProbeSettings settings = ProbeSettings.of(conf);
        WorkerIdentity identity = WorkerIdentity.of(context);
        intervalMs = settings.intervalMs();
        haltMs = 1_000 * ObjectReader.getInt(conf.get(Config.SUPERVISOR_WORKER_SHUTDOWN_SLEEP_SECS), DEFAULT_HALT_S);
        int executionsPerSample = ConfigUtils.samplingRate(conf);
        StormTopology topology = context.getRawTopology();
        Map<String, Object> components = new HashMap<>(topology.get_spouts());
        components.putAll(topology.get_bolts());
        components.values().removeIf(component -> !ComponentCode.isShell(component));
        meter = new WorkerMeter(identity, topology.get_spouts().keySet(), components.keySet(), executionsPerSample);
        spool = new Spool(settings.spoolDir(), identity.fileName(), settings.spoolMaxBytes());
        shipper = settings.perflogUris().isEmpty() ? null : shipper(settings.perflogUris(), conf);
        timer = new ScheduledThreadPoolExecutor(1, task -> {
            Thread thread = new Thread(task, "stormwright-probe");
            thread.setDaemon(true);
            return thread;
        });
        LOG.info("measuring {} with {}", identity, settings);
        if (shipper != null) {
            shipper.start();
        }
        dueNs = System.nanoTime() + intervalNs(System.nanoTime());
        schedule();
        Runtime.getRuntime().addShutdownHook(new Thread(this::jvmEnds, "stormwright-probe-end"));
    }

    /** What is measured waits in the spool, too, where the service cannot know us, or we it. */
    private Shipper shipper(List<URI> services, Map<String, Object> conf) {
        try {
            return new Shipper(spool, services, Credentials.of(conf));
        } catch (IOException | GeneralSecurityException | RuntimeException e) {
            LOG.error("records wait in the spool until the worker starts again: stormwright.tls cannot be used", e);
            return null;
        }
    }

    /** The probe of the worker that {@code context} is of. */
    public static WorkerProbe of(Map<String, Object> conf, TopologyContext context) throws InvalidTopologyException {
        String worker = context.getStormId() + ":" + context.getThisWorkerPort();
        synchronized (PROBES) {
            WorkerProbe probe = PROBES.get(worker);
            if (probe == null || probe.ended.getCount() == 0) {
                probe = new WorkerProbe(conf, context);
                PROBES.put(worker, probe);
            }
            return probe;
        }
    }

    /** Begins to measure a task. */
    public synchronized TaskCounts add(TopologyContext context) {
        int task = context.getThisTaskId();
        String component = context.getComponentId(task);
        TaskCounts counts = new TaskCounts(
                task, component, edges.getOrDefault(component, List.of()), inputsOf(component), context,
                new PayloadSampler(conf));
        meter.add(new TaskMeter(counts, context.getTaskToComponent()));
        runningTasks++;
        return counts;
    }

    /** The streams that a component subscribes to; what ackers answer to a spout is none. */
    private List<Edge> inputsOf(String component) {
        return edges.values().stream().flatMap(List::stream)
                .filter(edge -> edge.target().equals(component) && !Utils.isSystemId(edge.source()))
                .sorted(Comparator.comparing(Edge::source).thenComparing(Edge::stream)).toList();
    }

    /** A task's thread has ended; after the last one the last record is written. */
    public synchronized void taskEnded() {
        runningTasks--;
        if (runningTasks == 0) {
            end();
        }
    }

    private synchronized void tick() {
        if (ended.getCount() > 0) {
            long nowNs = System.nanoTime();
            boolean stopped = mayShorten() && flow.hasStopped(meter.tuples());
            if (stopped) {
                shortUntilNs = nowNs + STOPPING_NS;
            }
            if (stopped || nowNs - dueNs >= 0) {
                writeRecord(false);
                dueNs = nowNs + intervalNs(nowNs);
            }
            schedule();
        }
    }

    /** Schedules the next sample of the flow, or the next record if that is due before. */
    private void schedule() {
        long dueMs = (dueNs - System.nanoTime()) / 1_000_000;
        long nextMs = mayShorten() ? Math.min(FlowWatch.SAMPLE_MS, dueMs) : dueMs;
        timer.schedule(this::tick, Math.max(1, nextMs), TimeUnit.MILLISECONDS);
    }

    private boolean mayShorten() {
        return intervalMs <= LONG_INTERVAL_MS;
    }

    private long intervalNs(long nowNs) {
        boolean isShort = nowNs - shortUntilNs < 0 && mayShorten();
        return 1_000_000 * (isShort ? Math.min(intervalMs, SHORT_INTERVAL_MS) : intervalMs);
    }

    private void writeRecord(boolean last) {
        try {
            spool.append(meter.record(last));
            if (active && !meter.isActive()) {
                shortUntilNs = System.nanoTime() + STOPPING_NS;
            }
            active = meter.isActive();
            meter.commit();
            writable = true;
        } catch (Throwable e) { // one that left here would end the timer
            if (writable) {
                LOG.warn("records cannot be written, counting goes on", e);
            }
            writable = false;
        }
        if (shipper != null) {
            shipper.wake();
        }
    }

    private synchronized void end() {
        if (ended.getCount() > 0) {
            try {
                writeRecord(true);
                timer.shutdown();
                meter.end();
            } finally {
                ended.countDown();
                if (shipper != null) {
                    shipper.end();
                }
            }
        }
    }

    /** Storm ends the tasks in a shutdown hook of its own, at the same time as this one runs. */
    private void jvmEnds() {
        try {
            if (!ended.await((long) (haltMs * TASKS_SHARE), TimeUnit.MILLISECONDS)) {
                end();
            }
            if (shipper != null) {
                shipper.join((long) (haltMs * SHIPPING_SHARE));
            }
        } catch (Throwable e) { // Storm's own hooks run at the same time
            LOG.warn("the last record may wait in the spool: {}", e.toString());
        }
    }
}
