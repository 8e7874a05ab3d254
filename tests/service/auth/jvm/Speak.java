package stormwright.probe;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import stormwright.access.Credentials;
import stormwright.bridge.ServiceClient;

/**
 * Asks and delivers as Nimbus and a probe do. Each line of standard input is a service's address and keys of storm.yaml,
 * apart by tabs; the answer is a line of what became of each.
 */
public final class Speak {
    private Speak() {}

    public static void main(String[] args) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err); // Storm's jars log to it
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split("\t");
            Map<String, Object> conf = new HashMap<>();
            for (int i = 1; i < parts.length; i++) {
                String[] pair = parts[i].split("=", 2);
                conf.put(pair[0], pair[1]);
            }
            out.println(asked(parts[0], conf) + "\t" + delivered(parts[0], conf));
            out.flush();
        }
    }

    private static String asked(String url, Map<String, Object> conf) {
        try {
            var client = new ServiceClient(URI.create(url + "/v1/schedule"), 20_000, Credentials.of(conf));
            return "answer " + client.post("{}", 20_000).length();
        } catch (Exception e) {
            return e.getMessage();
        }
    }

    private static String delivered(String url, Map<String, Object> conf) throws Exception {
        Path directory = Files.createTempDirectory("spool");
        try {
            Spool spool = new Spool(directory, "w", 1 << 20);
            var shipper = new Shipper(spool, List.of(URI.create(url + "/v1/perflog")), Credentials.of(conf));
            spool.append("a record\n".getBytes(StandardCharsets.UTF_8));
            shipper.start();
            shipper.wake();
            shipper.end();
            shipper.join(20_000);
            try (var left = Files.list(directory)) {
                return left.count() == 0 ? "delivered" : "kept";
            }
        } catch (java.security.GeneralSecurityException | java.io.IOException e) {
            return "no shipper";
        } finally {
            try (var all = Files.walk(directory)) {
                all.sorted(java.util.Comparator.reverseOrder()).forEach(path -> path.toFile().delete());
            }
        }
    }
}
