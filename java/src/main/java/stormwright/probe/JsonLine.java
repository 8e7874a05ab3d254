package stormwright.probe;

import java.nio.charset.StandardCharsets;
import java.util.Map;

/** Writes one line of JSON; puts the commas. */
final class JsonLine {
    private final StringBuilder text = new StringBuilder(4096);
    private boolean first = true;

    JsonLine open(char bracket) {
        comma();
        text.append(bracket);
        first = true;
        return this;
    }

    JsonLine close(char bracket) {
        text.append(bracket);
        first = false;
        return this;
    }

    JsonLine name(String name) {
        value(name);
        text.append(':');
        first = true;
        return this;
    }

    JsonLine value(long number) {
        comma();
        text.append(number);
        return this;
    }

    /** A finite number, or null. */
    JsonLine value(Double number) {
        comma();
        text.append(number);
        return this;
    }

    /** An object of numbers. */
    JsonLine value(Map<String, Long> numbers) {
        open('{');
        numbers.forEach((name, number) -> name(name).value((long) number));
        return close('}');
    }

    JsonLine value(String string) {
        comma();
        text.append('"');
        for (int i = 0; i < string.length(); i++) {
            char c = string.charAt(i);
            if (c == '"' || c == '\\') {
                text.append('\\').append(c);
            } else if (c < ' ') {
                text.append("\\u%04x".formatted((int) c));
            } else {
                text.append(c);
            }
        }
        text.append('"');
        return this;
    }

    private void comma() {
        if (!first) {
            text.append(',');
        }
        first = false;
    }

    byte[] end() {
        return text.append('\n').toString().getBytes(StandardCharsets.UTF_8);
    }
}
