package stormwright.gateway;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.storm.Config;
import org.apache.storm.generated.ClusterSummary;
import org.apache.storm.generated.Nimbus;
import org.apache.storm.generated.NimbusSummary;
import org.apache.storm.security.auth.ReqContext;
import org.apache.storm.security.auth.ThriftConnectionType;
import org.apache.storm.security.auth.ThriftServer;
import org.apache.storm.utils.Utils;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** A Nimbus that asks by SASL who calls: Storm's own server, reached by what storm.yaml says and nothing of ours. */
@Timeout(60)
class SecuredNimbusTest {
    private static final long A_MINUTE_NS = 60_000_000_000L;
    @TempDir
    private Path directory;
    private final AtomicReference<String> caller = new AtomicReference<>("");
    private volatile int port;

    private Object nimbus(Object proxy, Method method, Object[] args) {
        caller.set(ReqContext.context().principal().getName());
        if (method.getName().equals("getLeader")) {
            return new NimbusSummary("localhost", port, 1, true, "2");
        }
        return new ClusterSummary(List.of(), List.of(), List.of());
    }

    private Map<String, Object> conf(int port, String password) throws Exception {
        String login = "org.apache.zookeeper.server.auth.DigestLoginModule required";
        Path jaas = Files.writeString(directory.resolve("jaas-" + password + ".conf"),
                "StormServer { " + login + " user_stormwright=\"right\"; };\n"
                + "StormClient { " + login + " username=\"stormwright\" password=\"" + password + "\"; };\n");
        Map<String, Object> conf = new HashMap<>(Utils.readDefaultConfig());
        conf.put(Config.STORM_THRIFT_TRANSPORT_PLUGIN,
                "org.apache.storm.security.auth.digest.DigestSaslTransportPlugin");
        conf.put("java.security.auth.login.config", jaas.toString());
        conf.put(Config.NIMBUS_SEEDS, List.of("localhost"));
        conf.put(Config.NIMBUS_THRIFT_PORT, port);
        conf.put(Config.STORM_NIMBUS_RETRY_TIMES, 0);
        return conf;
    }

    @Test
    void callsAreMadeByWhomStormYamlSays() throws Exception {
        Nimbus.Iface iface = (Nimbus.Iface) Proxy.newProxyInstance(
                getClass().getClassLoader(), new Class<?>[] {Nimbus.Iface.class}, this::nimbus);
        ThriftServer server =
                new ThriftServer(conf(0, "right"), new Nimbus.Processor<>(iface), ThriftConnectionType.NIMBUS);
        Thread serving = new Thread(server::serve, "nimbus");
        serving.setDaemon(true);
        serving.start();
        try {
            while (!server.isServing()) {
                Thread.sleep(10);
            }
            port = server.getPort();
            try (NimbusConnection connection = new NimbusConnection(conf(port, "right"))) {
                assertTrue(connection.call("cluster", Map.of(), Long.MAX_VALUE) instanceof Map);
                assertEquals("stormwright", caller.get());
                caller.set("");
                assertTrue(connection.call("cluster", Map.of(), System.nanoTime() + A_MINUTE_NS) instanceof Map);
                assertEquals("stormwright", caller.get());
                caller.set("");
                // By then another service may lead than the one that has asked for it.
                assertThrows(IllegalStateException.class,
                        () -> connection.call("activate", Map.of("name", "t"), System.nanoTime()));
                assertEquals("", caller.get());
            }
            caller.set("");
            try (NimbusConnection connection = new NimbusConnection(conf(port, "wrong"))) {
                assertThrows(Exception.class, () -> connection.call("cluster", Map.of(), Long.MAX_VALUE));
            }
            Map<String, Object> plain = conf(port, "right");
            plain.put(Config.STORM_THRIFT_TRANSPORT_PLUGIN, "org.apache.storm.security.auth.SimpleTransportPlugin");
            plain.put(Config.STORM_THRIFT_SOCKET_TIMEOUT_MS, 2_000);
            try (NimbusConnection connection = new NimbusConnection(plain)) {
                assertThrows(Exception.class, () -> connection.call("cluster", Map.of(), Long.MAX_VALUE));
            }
            assertEquals("", caller.get(), "nobody else was let in");
        } finally {
            server.stop();
        }
    }
}
