package stormwright.host;

import java.math.BigInteger;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * An object of a JSON document, with its path for messages.
 *
 * @param path where it is, {@code $} for the document itself
 * @param values its fields
 */
record Fields(String path, Map<?, ?> values) {
    static Fields of(String path, Object value) {
        if (value instanceof Map<?, ?> map) {
            return new Fields(path, map);
        }
        throw new IllegalArgumentException(path + " should be an object");
    }

    private String at(String key) {
        return path + "." + key;
    }

    boolean has(String key) {
        return values.get(key) != null;
    }

    String text(String key) {
        if (values.get(key) instanceof String text) {
            return text;
        }
        throw new IllegalArgumentException(at(key) + " should be a text");
    }

    String text(String key, String otherwise) {
        return has(key) ? text(key) : otherwise;
    }

    int integer(String key) {
        return integer(at(key), values.get(key));
    }

    static int integer(String path, Object value) {
        if (value instanceof Integer integer) {
            return integer;
        }
        throw new IllegalArgumentException(path + " should be an integer");
    }

    /** An integer of any size; beyond those that an {@code int} can be, the nearest of these. */
    int nearestInteger(String key, int otherwise) {
        Object value = has(key) ? values.get(key) : otherwise;
        if (value instanceof Integer || value instanceof Long || value instanceof BigInteger) {
            return (int) ((Number) value).doubleValue(); // a double holds every int, and a cast takes the nearest
        }
        throw new IllegalArgumentException(at(key) + " should be an integer");
    }

    /** A list; none where there is no such field. */
    List<?> list(String key) {
        return list(at(key), has(key) ? values.get(key) : List.of());
    }

    static List<?> list(String path, Object value) {
        if (value instanceof List<?> list) {
            return list;
        }
        throw new IllegalArgumentException(path + " should be a list");
    }

    List<String> texts(String key) {
        return list(key).stream().map(String::valueOf).toList();
    }

    List<Fields> objects(String key) {
        List<Fields> objects = new ArrayList<>();
        for (Object item : list(key)) {
            objects.add(of(at(key) + "[" + objects.size() + "]", item));
        }
        return objects;
    }

    /** The fields of an object; none where there is no such field. */
    Fields object(String key) {
        return of(at(key), has(key) ? values.get(key) : Map.of());
    }

    /** These fields as a configuration: numbers are the boxed ones that Storm's YAML reader gives. */
    Map<String, Object> conf() {
        Map<String, Object> conf = new HashMap<>();
        values.forEach((key, value) -> conf.put(String.valueOf(key), plain(value)));
        return conf;
    }

    /** The parser makes a BigDecimal of a number with many digits. */
    private static Object plain(Object value) {
        if (value instanceof Map<?, ?> map) {
            Map<Object, Object> copy = new HashMap<>();
            map.forEach((key, item) -> copy.put(key, plain(item)));
            return copy;
        }
        if (value instanceof List<?> list) {
            return new ArrayList<>(list.stream().map(Fields::plain).toList());
        }
        return value instanceof java.math.BigDecimal number ? (Object) number.doubleValue() : value;
    }

    /** Amounts by name; none where there is no such field. */
    Map<String, Double> amounts(String key) {
        Map<String, Double> amounts = new HashMap<>();
        object(key).values.forEach((name, amount) -> {
            if (!(amount instanceof Number number)) {
                throw new IllegalArgumentException(at(key) + "." + name + " should be a number");
            }
            amounts.put(String.valueOf(name), number.doubleValue());
        });
        return amounts;
    }
}
