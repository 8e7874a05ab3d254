package stormwright;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.storm.networktopography.DNSToSwitchMapping;
import org.apache.storm.utils.Utils;

/**
 * Racks of hosts from {@code stormwright.racks} in storm.yaml, a map from host to rack; others are in Storm's default rack.
 *
 * <p>Nimbus uses it where {@code storm.network.topography.plugin} names it.
 */
public final class RackMapping implements DNSToSwitchMapping {
    static final String RACKS = "stormwright.racks";

    private final Map<?, ?> racks;

    /** Reads the racks of this machine's storm.yaml. */
    public RackMapping() {
        this(Utils.readStormConfig());
    }

    RackMapping(Map<String, Object> conf) {
        racks = conf.get(RACKS) instanceof Map<?, ?> given ? given : Map.of();
    }

    @Override
    public Map<String, String> resolve(List<String> hosts) {
        Map<String, String> found = new HashMap<>();
        for (String host : hosts) {
            Object rack = racks.get(host);
            found.put(host, rack == null ? DEFAULT_RACK : rack.toString());
        }
        return found;
    }
}
