package stormwright.bridge;

import java.util.function.LongSupplier;

/** After some failures in a row nobody is asked for a while; then one try decides. */
public final class CircuitBreaker {
    private static final int MAX_FAILURES = 3;
    private static final long REST_NS = 20_000_000_000L;

    private final LongSupplier clockNs;
    private int failures;
    private long restUntilNs;

    /** Makes a closed one on a monotonic clock. */
    public CircuitBreaker(LongSupplier clockNs) {
        this.clockNs = clockNs;
    }

    /** Whether a try may be made now. */
    public boolean allows() {
        return failures < MAX_FAILURES || clockNs.getAsLong() - restUntilNs >= 0;
    }

    /** A try went well. */
    public void succeeded() {
        failures = 0;
    }

    /** A try failed. */
    public void failed() {
        failures++;
        restUntilNs = clockNs.getAsLong() + REST_NS;
    }

    /** For example "3 failures, next try in 20 s". */
    public String describe() {
        String text = failures + (failures == 1 ? " failure" : " failures");
        if (allows()) {
            return text;
        }
        long seconds = (restUntilNs - clockNs.getAsLong() + 999_999_999L) / 1_000_000_000L;
        return text + ", next try in " + seconds + " s";
    }
}
