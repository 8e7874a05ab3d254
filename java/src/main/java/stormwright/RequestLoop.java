package stormwright;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.storm.shade.net.minidev.json.JSONValue;
import org.apache.storm.shade.net.minidev.json.parser.JSONParser;

/**
 * Answers a program that is not Java: one JSON request a line in, one response a line out, until the input ends.
 *
 * <p>A response has the {@code id} of its request.
 */
abstract class RequestLoop {
    /** What the response to a request holds besides its {@code id}. */
    abstract Map<String, Object> answer(Map<?, ?> request) throws Exception;

    /** The same where the request was none, or where something was thrown while it was answered. */
    abstract Map<String, Object> refusal(Throwable thrown);

    /** Standard output for responses alone: whatever else is printed in this JVM goes to standard error from now on. */
    static PrintStream takeStandardOutput() {
        PrintStream responses = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err);
        return responses;
    }

    final void serve(InputStream in, PrintStream out) throws IOException {
        BufferedReader requests = new BufferedReader(new InputStreamReader(in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            if (!line.isBlank()) {
                out.println(JSONValue.toJSONString(response(line)));
            }
        }
    }

    private Map<String, Object> response(String line) {
        Map<String, Object> response = new LinkedHashMap<>();
        response.put("id", null);
        try {
            if (!(new JSONParser(JSONParser.MODE_RFC4627).parse(line) instanceof Map<?, ?> request)) {
                throw new IllegalArgumentException("a request should be a JSON object");
            }
            response.put("id", request.get("id"));
            response.putAll(answer(request));
        } catch (Exception | Error e) {
            response.putAll(refusal(e));
        }
        return response;
    }
}
