package stormwright.access;

import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.stream.Stream;

/** Where services are, in a configuration: one address, several with commas between them, or a list of them. */
public final class Addresses {
    private Addresses() {
    }

    /** The addresses in a value, each without a slash at its end; none where there is no value. */
    public static List<String> of(Object value) {
        Stream<?> told = value instanceof Collection<?> several ? several.stream() : Stream.ofNullable(value);
        return told.flatMap(each -> Arrays.stream(String.valueOf(each).split(",")))
                .map(each -> each.strip().replaceAll("/+$", "")).filter(each -> !each.isEmpty()).distinct().toList();
    }
}
