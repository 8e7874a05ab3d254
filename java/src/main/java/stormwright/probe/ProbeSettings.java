package stormwright.probe;

import java.net.URI;
import java.nio.file.Path;
import java.util.Map;
import org.apache.storm.utils.ConfigUtils;
import org.apache.storm.utils.Utils;

/**
 * The probe's configuration, from the topology's.
 *
 * @param intervalMs {@code stormwright.probe.interval.ms}: the length of an interval
 * @param perflogUri where records are shipped to, from {@code stormwright.probe.service.url}; null: nowhere
 * @param spoolDir {@code stormwright.probe.spool.dir}: where they wait for it; below storm.local.dir by default
 * @param spoolMaxBytes {@code stormwright.probe.spool.max.mb}: the most that may wait there, of all workers together
 */
record ProbeSettings(long intervalMs, URI perflogUri, Path spoolDir, long spoolMaxBytes) {
    private static final String INTERVAL = "stormwright.probe.interval.ms";
    private static final String SERVICE_URL = "stormwright.probe.service.url";
    private static final String SPOOL_DIR = "stormwright.probe.spool.dir";
    private static final String SPOOL_MAX = "stormwright.probe.spool.max.mb";
    private static final String SPOOL_NAME = "stormwright-spool";
    private static final long SHORTEST_INTERVAL_MS = 100;

    static ProbeSettings of(Map<String, Object> conf) {
        String url = text(conf, SERVICE_URL, "");
        String directory = text(conf, SPOOL_DIR, "");
        return new ProbeSettings(
                Math.max(SHORTEST_INTERVAL_MS, Long.parseLong(text(conf, INTERVAL, "1000"))),
                url.isEmpty() ? null : URI.create(url.replaceAll("/+$", "") + "/v1/perflog"),
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
