package stormwright;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.storm.shade.net.minidev.json.JSONValue;
import org.apache.storm.shade.net.minidev.json.parser.JSONParser;
import org.apache.storm.shade.net.minidev.json.parser.ParseException;
import stormwright.host.HostException;
import stormwright.host.Run;

/**
 * Runs Java schedulers for programs that are not Java: one JSON request a line on standard input, one response a line
 * on standard output, until the input ends.
 *
 * <p>A request has {@code id}, {@code class} (an {@code IScheduler}), {@code problem} (a {@code stormwright-problem/1})
 * and optionally {@code strategy}, {@code conf} (laid over that of the problem) and {@code seed} (of
 * {@code Collections.shuffle}). A response has the {@code id} and {@code assignments}, {@code status} and {@code seconds},
 * or {@code error} and {@code cause}, the exceptions from the outermost to the first.
 */
public final class SchedulerHost {
    private SchedulerHost() {
    }

    /** Serves standard input. */
    public static void main(String[] args) throws IOException {
        PrintStream responses = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        // Whatever else is printed in this JVM is no response.
        System.setOut(System.err);
        serve(System.in, responses);
        // A scheduler may have left threads behind.
        System.exit(0);
    }

    static void serve(InputStream in, PrintStream out) throws IOException {
        BufferedReader requests = new BufferedReader(new InputStreamReader(in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            if (!line.isBlank()) {
                out.println(JSONValue.toJSONString(answer(line)));
            }
        }
    }

    private static Map<String, Object> answer(String line) {
        Map<String, Object> response = new LinkedHashMap<>();
        response.put("id", null);
        try {
            if (!(new JSONParser(JSONParser.MODE_RFC4627).parse(line) instanceof Map<?, ?> request)) {
                throw new IllegalArgumentException("a request should be a JSON object");
            }
            response.put("id", request.get("id"));
            response.putAll(Run.of(request));
        } catch (HostException e) {
            response.put("error", e.getMessage());
            response.put("cause", chain(e.getCause()));
        } catch (ParseException | RuntimeException | Error e) { // such as too little memory: the next request may do with it
            response.put("error", "bad request: " + e);
            response.put("cause", chain(e));
        }
        return response;
    }

    /** Every exception with where it was thrown. */
    private static List<String> chain(Throwable outermost) {
        List<String> chain = new ArrayList<>();
        for (Throwable e = outermost; e != null && chain.size() < 10; e = e.getCause()) {
            chain.add(Run.told(e));
        }
        return chain;
    }
}
