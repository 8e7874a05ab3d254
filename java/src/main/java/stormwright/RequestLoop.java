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

    /** Ends this JVM when its parent has ended, even in the middle of a request: nobody is left to end it. */
    static void endWithParent() {
        ProcessHandle.current().parent()
                .ifPresent(parent -> parent.onExit().thenRun(() -> Runtime.getRuntime().halt(1)));
    }

    /** Serves standard input and ends this JVM: threads that are left behind keep it no more than what was thrown. */
    final void serveAndEnd(PrintStream out) {
        int exitCode = 1;
        try {
            serve(System.in, out);
            exitCode = 0;
        } catch (Throwable e) {
            e.printStackTrace(); // which may throw in turn, where memory is short
        } finally {
            Runtime.getRuntime().halt(exitCode);
        }
    }

    final void serve(InputStream in, PrintStream out) throws IOException {
        BufferedReader requests = new BufferedReader(new InputStreamReader(in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            if (!line.isBlank()) {
                out.println(response(line));
            }
        }
    }

    private String response(String line) {
        Object id = null;
        try {
            if (!(new JSONParser(JSONParser.MODE_RFC4627).parse(line) instanceof Map<?, ?> request)) {
                throw new IllegalArgumentException("a request should be a JSON object");
            }
            id = request.get("id");
            return text(id, answer(request));
        } catch (Exception | Error e) { // writing a long answer takes memory, too
            return text(id, refusal(e));
        }
    }

    private static String text(Object id, Map<String, Object> answer) {
        Map<String, Object> response = new LinkedHashMap<>();
        response.put("id", id);
        response.putAll(answer);
        return JSONValue.toJSONString(response);
    }
}
