package stormwright.probe;

import java.net.URI;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.apache.storm.utils.ConfigUtils;
import org.apache.storm.utils.Utils;
import stormwright.access.Addresses;

/**
 * The probe's configuration, from the topology's.
 *
 * @param intervalMs {@code stormwright.probe.interval.ms}: the length of an interval
 * @param perflogUris where records are shipped to, one or several of which one takes them, from
 *     {@code stormwright.probe.service.url}; empty: nowhere
 * @param spoolDir {@code stormwright.probe.spool.dir}: where they wait for it; below storm.local.dir by default
 * @param spoolMaxBytes {@code stormwright.probe.spool.max.mb}: the most that may wait there, of all workers together
 */
record ProbeSettings(long intervalMs, List<URI> perflogUris, Path spoolDir, long spoolMaxBytes) {
    private static final String INTERVAL = "stormwright.probe.interval.ms";
    private static final String SERVICE_URL = "stormwright.probe.service.url";
    private static final String SPOOL_DIR = "stormwright.probe.spool.dir";
    private static final String SPOOL_MAX = "stormwright.probe.spool.max.mb";
    private static final String SPOOL_NAME = "stormwright-spool";
    private static final long SHORTEST_INTERVAL_MS = 100;

    static ProbeSettings of(Map<String, Object> conf) {
        List<String> addresses = Addresses.of(conf.get(SERVICE_URL));
        String directory = text(conf, SPOOL_DIR, "");
        return new ProbeSettings(
                Math.max(SHORTEST_INTERVAL_MS, Long.parseLong(text(conf, INTERVAL, "1000"))),
                addresses.stream().map(each -> URI.create(each + "/v1/perflog")).toList(),
                directory.isEmpty() ? defaultSpool() : Path.of(directory),
                Long.parseLong(text(conf, SPOOL_MAX, "256")) << 20);
    }

    /** Below this node's own {@code storm.local.dir}: the topology's configuration has the one of Nimbus. */
    private static Path defaultSpool() {
        return Path.of(ConfigUtils.absoluteStormLocalDir(Utils.readStormConfig()), SPOOL_NAME);
    }

    /** Numbers may come as texts: command lines know no others. */
    private static String text(Map<String, Object> conf, String key, String otherwise) {
        Object value = conf.get(key);
        return value == null ? otherwise : value.toString();
    }
}
