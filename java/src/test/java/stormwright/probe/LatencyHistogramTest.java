package stormwright.probe;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

class LatencyHistogramTest {
    @Test
    void edgesBelongToTheBucketBelow() {
        double[] edges = LatencyHistogram.edgesMs();
        assertEquals(1.0, edges[0]);
        assertEquals(2.0, edges[4]);
        assertEquals(65536.0, edges[64]);
        assertEquals(0, LatencyHistogram.bucketOf(0));
        assertEquals(0, LatencyHistogram.bucketOf(1));
        assertEquals(4, LatencyHistogram.bucketOf(2));
        assertEquals(64, LatencyHistogram.bucketOf(65536));
        assertEquals(65, LatencyHistogram.bucketOf(65537));
        assertEquals(65, LatencyHistogram.bucketOf(Long.MAX_VALUE));
    }

    @Test
    void everyValueLiesBetweenItsEdges() {
        double[] edges = LatencyHistogram.edgesMs();
        for (long ms = 2; ms <= 65536; ms++) {
            int bucket = LatencyHistogram.bucketOf(ms);
            assertTrue(edges[bucket - 1] < ms && ms <= edges[bucket], ms + " ms in bucket " + bucket);
        }
    }
}
