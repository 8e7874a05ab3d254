package stormwright.gateway;

import java.util.Map;
import org.apache.storm.generated.Nimbus;
import org.apache.storm.thrift.TException;
import org.apache.storm.thrift.transport.TTransportException;
import org.apache.storm.utils.NimbusClient;

/** A connection to whichever Nimbus leads, kept open from call to call. */
public final class NimbusConnection implements AutoCloseable {
    private final Map<String, Object> conf;
    private NimbusClient client;

    /** Connects at the first call. */
    public NimbusConnection(Map<String, Object> conf) {
        this.conf = conf;
    }

    /** Makes a call; one that finds a connection gone, that worked before, is made again on a new one. */
    public Object call(String call, Map<?, ?> args) throws TException {
        boolean kept = client != null;
        try {
            return NimbusCalls.call(connected(), call, args);
        } catch (TTransportException e) {
            close();
            if (kept) {
                return call(call, args);
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

    @Override
    public void close() {
        if (client != null) {
            client.close();
            client = null;
        }
    }
}
