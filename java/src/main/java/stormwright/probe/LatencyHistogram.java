package stormwright.probe;

import java.util.Arrays;

/** The buckets of complete latency; the same as LATENCY_EDGES_MS in stormwright/perflog/schema.py. */
final class LatencyHistogram {
    /** Upper edges in ms, inclusive; one more bucket holds what took longer than the last. */
    private static final double[] EDGES_MS = new double[65];

    static {
        for (int quarter = 0; quarter < EDGES_MS.length; quarter++) {
            EDGES_MS[quarter] = Math.pow(2, quarter / 4.0);
        }
    }

    static final int BUCKETS = EDGES_MS.length + 1;

    private LatencyHistogram() {
    }

    static double[] edgesMs() {
        return EDGES_MS.clone();
    }

    static int bucketOf(long ms) {
        int found = Arrays.binarySearch(EDGES_MS, ms);
        return found >= 0 ? found : -found - 1;
    }
}
