package stormwright.probe.system;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;

class ConnectionsTest {
    @Test
    void countsEstablishedConnectionsToAPort() throws IOException {
        InetAddress loopback = InetAddress.getLoopbackAddress();
        try (ServerSocket server = new ServerSocket(0, 5, loopback)) {
            int port = server.getLocalPort();
            assertEquals(0, Connections.established(port)); // it only listens
            try (Socket one = new Socket(loopback, port); Socket two = new Socket(loopback, port)) {
                assertEquals(2, Connections.established(port), () -> one + " and " + two);
            }
        }
    }

    @Test
    void countsNoneWhereTheKernelDoesNotListThem() {
        assertEquals(0, Connections.established(6700, List.of(Path.of("/no/such/file"))));
    }
}
