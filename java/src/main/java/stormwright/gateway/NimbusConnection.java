package stormwright.gateway;

import java.util.HashMap;
import java.util.Map;
import org.apache.storm.Config;
import org.apache.storm.generated.Nimbus;
import org.apache.storm.generated.SupervisorAssignments;
import org.apache.storm.thrift.TException;
import org.apache.storm.thrift.transport.TTransportException;
import org.apache.storm.utils.NimbusClient;
import org.apache.storm.utils.SupervisorClient;

/** A connection to whichever Nimbus leads, kept open from call to call. */
public final class NimbusConnection implements AutoCloseable {
    private final Map<String, Object> conf;
    private NimbusClient client;

    /** Connects at the first call. */
    public NimbusConnection(Map<String, Object> conf) {
        this.conf = conf;
    }

    /**
     * Makes a call; one that finds a connection gone, that worked before, is made again on a new one.
     *
     * @param notAfterNs when it is too late for it, by {@link System#nanoTime}: who asks may do it by then only
     */
    public Object call(String call, Map<?, ?> args, long notAfterNs) throws TException {
        boolean kept = client != null;
        try {
            Nimbus.Iface nimbus = connected(); // which may take long
            if (notAfterNs != Long.MAX_VALUE && System.nanoTime() - notAfterNs >= 0) {
                throw new IllegalStateException("it came too late: another service may lead by now");
            }
            return NimbusCalls.call(nimbus, this::push, call, args);
        } catch (TTransportException e) {
            close();
            if (kept) {
                return call(call, args, notAfterNs);
            }
            throw e;
        }
    }

    private Nimbus.Iface connected() {
        if (client == null) {
            client = NimbusClient.Builder.withConf(conf).build();
        }
        return client.getClient();
    }

    private void push(String host, Integer thriftPort, SupervisorAssignments assignments) throws TException {
        Map<String, Object> once = new HashMap<>(conf);
        // A supervisor that cannot be reached will ask by itself; spouts are paused while it is tried.
        once.put(Config.STORM_NIMBUS_RETRY_TIMES, 0);
        SupervisorClient.Builder supervisor = SupervisorClient.Builder.withConf(once);
        try (SupervisorClient client = supervisor.withHostName(host).withPort(thriftPort).build()) {
            client.getIface().sendSupervisorAssignments(assignments);
        }
    }

    @Override
    public void close() {
        if (client != null) {
            client.close();
            client = null;
        }
    }
}
