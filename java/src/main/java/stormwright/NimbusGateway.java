package stormwright;

import java.io.IOException;
import java.io.PrintStream;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import org.apache.storm.generated.AlreadyAliveException;
import org.apache.storm.generated.AuthorizationException;
import org.apache.storm.generated.InvalidTopologyException;
import org.apache.storm.generated.NotAliveException;
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
public final class NimbusGateway extends RequestLoop {
    private final NimbusConnection nimbus;

    NimbusGateway(NimbusConnection nimbus) {
        this.nimbus = nimbus;
    }

    /** Serves standard input. */
    public static void main(String[] args) throws IOException {
        PrintStream responses = takeStandardOutput();
        endWithParent();
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

    @Override
    Map<String, Object> answer(Map<?, ?> request) throws Exception {
        Map<?, ?> args = request.get("args") instanceof Map<?, ?> given ? given : Map.of();
        String call = String.valueOf(request.get("call"));
        long notAfterNs = request.get("not_after_ns") instanceof Number number ? number.longValue() : Long.MAX_VALUE;
        Object result = call.equals("ping") ? "pong" : nimbus.call(call, args, notAfterNs);
        return Collections.singletonMap("result", result);
    }

    @Override
    Map<String, Object> refusal(Throwable thrown) {
        if (thrown instanceof Error error) {
            throw error; // such as too little memory: the next call has a new JVM
        }
        return Map.of("error", sentence(thrown), "type", thrown.getClass().getSimpleName());
    }

    /** Thrift's own messages read like debug output; the text of Nimbus is in a field. */
    private static String sentence(Throwable e) {
        String text = e instanceof NotAliveException gone ? gone.get_msg().replaceFirst("( is not alive)?$", " is not alive")
                : e instanceof AlreadyAliveException alive ? alive.get_msg()
                : e instanceof AuthorizationException denied ? denied.get_msg()
                : e instanceof InvalidTopologyException invalid ? invalid.get_msg()
                : e.getMessage();
        return text == null ? e.toString() : text.lines().findFirst().orElse(text);
    }
}
