package stormwright;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import org.apache.storm.shade.net.minidev.json.JSONValue;

/** What a loop answers. */
final class Responses {
    private Responses() {
    }

    /** The responses to requests, one a line. */
    static List<Map<?, ?>> of(RequestLoop loop, String... requests) throws IOException {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        loop.serve(new ByteArrayInputStream(String.join("\n", requests).getBytes(StandardCharsets.UTF_8)),
                new PrintStream(out, true, StandardCharsets.UTF_8));
        return out.toString(StandardCharsets.UTF_8).lines().<Map<?, ?>>map(line -> (Map<?, ?>) JSONValue.parse(line))
                .toList();
    }
}
