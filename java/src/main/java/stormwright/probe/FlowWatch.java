package stormwright.probe;

/**
 * Detects that a steady flow of tuples has stopped: two samples without new tuples after mostly such with some. Sparse
 * traffic is no flow, as it would stop again and again.
 */
final class FlowWatch {
    /** Milliseconds from one sample to the next. */
    static final long SAMPLE_MS = 100;

    /** Latest samples, and how many of them have new tuples while a flow stops, the last ones of which may straggle. */
    private static final int SAMPLES = 20;
    private static final int STEADY_SAMPLES = 14;

    private long tuples;
    /** A bit for each sample, the newest one the lowest: whether it has new tuples. */
    private int samples;

    /** Takes a sample, the number of tuples so far; returns whether the flow has just stopped. */
    boolean hasStopped(long now) {
        samples = (samples << 1 | (now == tuples ? 0 : 1)) & (1 << SAMPLES) - 1;
        tuples = now;
        return (samples & 0b111) == 0b100 && Integer.bitCount(samples) >= STEADY_SAMPLES;
    }
}
