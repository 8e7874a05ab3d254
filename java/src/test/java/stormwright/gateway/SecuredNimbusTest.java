package stormwright.gateway;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.net.InetAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.Principal;
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
import org.apache.storm.thrift.server.TServer;
import org.apache.storm.thrift.server.TThreadPoolServer;
import org.apache.storm.thrift.transport.TSSLTransportFactory;
import org.apache.storm.thrift.transport.TSSLTransportFactory.TSSLTransportParameters;
import org.apache.storm.thrift.transport.TServerSocket;
import org.apache.storm.utils.Utils;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** A Nimbus that asks by SASL or TLS who calls: Storm's own server, reached by what storm.yaml says and nothing of ours. */
@Timeout(60)
class SecuredNimbusTest {
    private static final long A_MINUTE_NS = 60_000_000_000L;
    /** Storm 2.6 has no Nimbus that speaks TLS. */
    private static final NimbusSummary._Fields TLS_PORT = NimbusSummary._Fields.findByName("tlsPort");
    @TempDir
    private Path directory;
    private final AtomicReference<String> caller = new AtomicReference<>("");
    private volatile int port;

    private Object nimbus(Object proxy, Method method, Object[] args) {
        Principal principal = ReqContext.context().principal();
        caller.set(principal == null ? "somebody" : principal.getName());
        if (method.getName().equals("getLeader")) {
            NimbusSummary leader = new NimbusSummary("localhost", port, 1, true, "2");
            if (TLS_PORT != null) {
                leader.setFieldValue(TLS_PORT, port);
            }
            return leader;
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
        ThriftServer server = serving(conf(0, "right"));
        try {
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

    /**
     * By Storm's client, against Thrift's own server: that of Storm 2.8.3 fails on Java 15 and later, whoever calls, as
     * it asks its session for something that these no longer have ({@code getPeerCertificateChain}).
     */
    @Test
    void callsOverTlsShowTheCertificateThatStormYamlNames() throws Exception {
        assumeTrue(TLS_PORT != null, "this Storm's Nimbus speaks no TLS");
        Path nimbus = keys("localhost");
        Path ours = keys("stormwright");
        Path strangers = keys("stranger");
        TSSLTransportParameters shown = new TSSLTransportParameters();
        shown.setKeyStore(nimbus.toString(), "secret", null, "PKCS12");
        shown.setTrustStore(ours.toString(), "secret", null, "PKCS12");
        shown.requireClientAuth(true);
        TServerSocket socket =
                TSSLTransportFactory.getServerSocket(0, 0, InetAddress.getLoopbackAddress(), shown);
        port = socket.getServerSocket().getLocalPort();
        TServer server = new TThreadPoolServer(new TThreadPoolServer.Args(socket)
                .processor(new Nimbus.Processor<>(iface())));
        Thread serving = new Thread(server::serve, "nimbus");
        serving.setDaemon(true);
        serving.start();
        try {
            try (NimbusConnection connection = new NimbusConnection(tls(port, ours, nimbus))) {
                assertTrue(connection.call("cluster", Map.of(), Long.MAX_VALUE) instanceof Map);
                assertEquals("somebody", caller.get());
            }
            caller.set("");
            for (Map<String, Object> refused : List.of(tls(port, strangers, nimbus), tls(port, ours, strangers))) {
                try (NimbusConnection connection = new NimbusConnection(refused)) {
                    assertThrows(Exception.class, () -> connection.call("cluster", Map.of(), Long.MAX_VALUE));
                }
            }
            assertEquals("", caller.get(), "nobody else was let in, and no other Nimbus was asked");
        } finally {
            server.stop();
        }
    }

    /** A key store with a key and its own certificate, which is all that is trusted where it is a trust store. */
    private Path keys(String name) throws Exception {
        Path store = directory.resolve(name + ".p12");
        Process made = new ProcessBuilder(Path.of(System.getProperty("java.home"), "bin", "keytool").toString(),
                "-genkeypair", "-alias", name, "-keyalg", "EC", "-dname", "CN=" + name, "-ext", "san=dns:" + name,
                "-storetype", "PKCS12", "-storepass", "secret", "-keystore", store.toString()).inheritIO().start();
        assertEquals(0, made.waitFor());
        return store;
    }

    /** Storm's keys for a client: it shows what is in the first store, and trusts what is in the other. */
    private static Map<String, Object> tls(int port, Path shown, Path trusted) {
        Map<String, Object> conf = new HashMap<>(Utils.readDefaultConfig());
        conf.put("nimbus.thrift.client.use.tls", true);
        conf.put("nimbus.thrift.tls.transport", "org.apache.storm.security.auth.tls.TlsTransportPlugin");
        conf.put("nimbus.thrift.tls.client.auth.required", true);
        conf.put("nimbus.thrift.tls.port", port);
        conf.put(Config.NIMBUS_SEEDS, List.of("localhost"));
        conf.put(Config.STORM_NIMBUS_RETRY_TIMES, 0);
        conf.put("nimbus.thrift.tls.client.keystore.path", shown.toString());
        conf.put("nimbus.thrift.tls.client.keystore.password", "secret");
        conf.put("nimbus.thrift.tls.client.truststore.path", trusted.toString());
        conf.put("nimbus.thrift.tls.client.truststore.password", "secret");
        return conf;
    }

    private Nimbus.Iface iface() {
        return (Nimbus.Iface) Proxy.newProxyInstance(
                getClass().getClassLoader(), new Class<?>[] {Nimbus.Iface.class}, this::nimbus);
    }

    private ThriftServer serving(Map<String, Object> conf) throws Exception {
        ThriftServer server =
                new ThriftServer(conf, new Nimbus.Processor<>(iface()), ThriftConnectionType.NIMBUS);
        Thread serving = new Thread(server::serve, "nimbus");
        serving.setDaemon(true);
        serving.start();
        while (!server.isServing()) {
            Thread.sleep(10);
        }
        port = server.getPort();
        return server;
    }
}
