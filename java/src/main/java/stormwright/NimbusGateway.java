package stormwright;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.storm.generated.AlreadyAliveException;
import org.apache.storm.generated.AuthorizationException;
import org.apache.storm.generated.InvalidTopologyException;
import org.apache.storm.generated.NotAliveException;
import org.apache.storm.shade.net.minidev.json.JSONValue;
import org.apache.storm.shade.net.minidev.json.parser.JSONParser;
import org.apache.storm.shade.net.minidev.json.parser.ParseException;
import org.apache.storm.utils.Utils;
import stormwright.gateway.NimbusConnection;

/**
 * Calls to Nimbus for programs that are not Java: one JSON request a line on standard input, one response a line on
 * standard output, until the input ends.
 *
 * <p>It speaks through Storm's own client, with storm.yaml and any {@code key=value} argument laid over it, so every
 * way of authentication that Storm has works here too.
 */
public final class NimbusGateway {
    private final NimbusConnection nimbus;

    NimbusGateway(NimbusConnection nimbus) {
        this.nimbus = nimbus;
    }

    /** Serves standard input. */
    public static void main(String[] args) throws IOException {
        PrintStream responses = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        // Whatever else is printed in this JVM is no response.
        System.setOut(System.err);
        Map<String, Object> conf = new HashMap<>(Utils.readStormConfig());
        for (String arg : args) {
            String[] pair = arg.split("=", 2);
            conf.put(pair[0], pair.length < 2 ? null : valueOf(pair[1]));
        }
        try (NimbusConnection nimbus = new NimbusConnection(conf)) {
            new NimbusGateway(nimbus).serve(System.in, responses);
        }
    }

    /** A JSON value; what is none is a text. */
    private static Object valueOf(String text) {
        try {
            return new JSONParser(JSONParser.MODE_RFC4627).parse(text);
        } catch (ParseException e) {
            return text;
        }
    }

    void serve(InputStream in, PrintStream out) throws IOException {
        BufferedReader requests = new BufferedReader(new InputStreamReader(in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            if (!line.isBlank()) {
                out.println(JSONValue.toJSONString(answer(line)));
            }
        }
    }

    private Map<String, Object> answer(String line) {
        Map<String, Object> response = new LinkedHashMap<>();
        response.put("id", null);
        try {
            if (!(new JSONParser(JSONParser.MODE_RFC4627).parse(line) instanceof Map<?, ?> request)) {
                throw new IllegalArgumentException("a request should be a JSON object");
            }
            response.put("id", request.get("id"));
            Map<?, ?> args = request.get("args") instanceof Map<?, ?> given ? given : Map.of();
            String call = String.valueOf(request.get("call"));
            response.put("result", call.equals("ping") ? "pong" : nimbus.call(call, args));
        } catch (Exception e) {
            response.put("error", sentence(e));
            response.put("type", e.getClass().getSimpleName());
        }
        return response;
    }

    /** Thrift's own messages read like debug output; the text of Nimbus is in a field. */
    private static String sentence(Exception e) {
        String text = e instanceof NotAliveException gone ? gone.get_msg() + " is not alive"
                : e instanceof AlreadyAliveException alive ? alive.get_msg()
                : e instanceof AuthorizationException denied ? denied.get_msg()
                : e instanceof InvalidTopologyException invalid ? invalid.get_msg()
                : e.getMessage();
        return text == null ? e.toString() : text.lines().findFirst().orElse(text);
    }
}
