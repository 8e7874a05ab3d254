package stormwright.access;

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.storm.shade.net.minidev.json.JSONValue;

/**
 * A digest of the configuration of a topology as Nimbus stores it, by which workers that run with it are known.
 *
 * <p>Not of that which a worker reads: there the storm.yaml of its node fills in, which another node may have otherwise.
 */
public final class ConfDigest {
    private static final int BYTES = 8;

    private ConfDigest() {
    }

    /** Configurations that are equal have the same digest, in whatever order their keys were read. */
    public static String of(Map<?, ?> conf) {
        byte[] json = JSONValue.toJSONString(sorted(conf)).getBytes(StandardCharsets.UTF_8);
        try {
            return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(json), 0, BYTES);
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException(e); // each Java has it
        }
    }

    private static Object sorted(Object value) {
        if (value instanceof Map<?, ?> map) {
            Map<String, Object> sorted = new TreeMap<>();
            map.forEach((key, each) -> sorted.put(String.valueOf(key), sorted(each)));
            return sorted;
        }
        return value instanceof List<?> list ? list.stream().map(ConfDigest::sorted).toList() : value;
    }
}
