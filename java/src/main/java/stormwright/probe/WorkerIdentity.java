package stormwright.probe;

import java.lang.management.ManagementFactory;
import java.net.UnknownHostException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.utils.Utils;
import stormwright.standby.Takeover;

/** Which worker a record is from; all but the host name it once and for all. */
record WorkerIdentity(String topology, String supervisor, String host, int port, long pid, long startMs) {
    /** Storm starts a worker with the arguments topology, supervisor, supervisor's port, worker's port, worker id. */
    private static final Pattern COMMAND = Pattern.compile(".* (\\S+) (\\S+) (\\d+) (\\d+) (\\S+)");

    static WorkerIdentity of(TopologyContext context) {
        return new WorkerIdentity(
                context.getStormId(),
                supervisorOf(System.getProperty("sun.java.command", ""), context.getStormId()),
                hostname(),
                context.getThisWorkerPort(),
                ProcessHandle.current().pid(),
                Long.getLong(Takeover.START_PROPERTY, ManagementFactory.getRuntimeMXBean().getStartTime()));
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
