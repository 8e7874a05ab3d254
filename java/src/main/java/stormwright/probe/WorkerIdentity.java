package stormwright.probe;

import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.net.UnknownHostException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.utils.ConfigUtils;
import org.apache.storm.utils.Utils;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import stormwright.access.ConfDigest;
import stormwright.standby.Takeover;

/**
 * Which worker a record is from; all but host and configuration name it once and for all.
 *
 * @param configuration digest of the configuration that it started with, and its version where the supervisor has
 *     stored that, too; null if that cannot be read
 */
record WorkerIdentity(
        String topology, String supervisor, String host, int port, long pid, long startMs, String configuration) {
    private static final Logger LOG = LoggerFactory.getLogger(WorkerIdentity.class);
    /** Storm starts a worker with the arguments topology, supervisor, supervisor's port, worker's port, worker id. */
    private static final Pattern COMMAND = Pattern.compile(".* (\\S+) (\\S+) (\\d+) (\\d+) (\\S+)");

    static WorkerIdentity of(TopologyContext context) {
        return new WorkerIdentity(
                context.getStormId(),
                supervisorOf(System.getProperty("sun.java.command", ""), context.getStormId()),
                hostname(),
                context.getThisWorkerPort(),
                ProcessHandle.current().pid(),
                Long.getLong(Takeover.START_PROPERTY, ManagementFactory.getRuntimeMXBean().getStartTime()),
                configuration(context));
    }

    /**
     * What the supervisor has stored beside the topology's resources. It is never another one than the worker has read:
     * a supervisor ends the workers of a topology before it exchanges the file.
     */
    private static String configuration(TopologyContext context) {
        try {
            // Not below storm.local.dir: Nimbus stores its own with a topology's configuration.
            String root = Path.of(context.getCodeDir()).toAbsolutePath().getParent().toString();
            Path file = Path.of(ConfigUtils.supervisorStormConfPath(root));
            if (!Files.exists(file)) {
                return null;
            }
            String digest = ConfDigest.of(Utils.fromCompressedJsonConf(Files.readAllBytes(file)));
            Path version = file.resolveSibling(file.getFileName() + ".version");
            return Files.exists(version) ? digest + "." + Files.readString(version).strip() : digest;
        } catch (IOException | RuntimeException e) {
            LOG.warn("the configuration of {} cannot be read, so its changes cannot be followed", context.getStormId(), e);
            return null;
        }
    }

    /** A hook is not told the supervisor, but its JVM's command line was. */
    static String supervisorOf(String command, String topologyId) {
        Matcher arguments = COMMAND.matcher(command);
        return arguments.matches() && arguments.group(1).equals(topologyId) ? arguments.group(2) : "local";
    }

    private static String hostname() {
        try {
            return Utils.hostname();
        } catch (UnknownHostException e) {
            return "localhost";
        }
    }

    /** A name for files; sorts by start. */
    String fileName() {
        return "%013d-%d-%d".formatted(startMs, pid, port);
    }
}
