package stormwright.bridge;

import java.util.function.LongSupplier;

/** After some failures in a row nobody is asked for a while; then one try decides. */
public final class CircuitBreaker {
    private static final int MAX_FAILURES = 3;
    /** For how long nobody is asked: where there is one to ask; where there are several, one of them soon leads. */
    public static final long REST_NS = 20_000_000_000L;
    public static final long SHORT_REST_NS = 3_000_000_000L;

    private final LongSupplier clockNs;
    private final long restNs;
    private int failures;
    private long restUntilNs;

    /** Makes a closed one on a monotonic clock. */
    public CircuitBreaker(LongSupplier clockNs, long restNs) {
        this.clockNs = clockNs;
        this.restNs = restNs;
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
        restUntilNs = clockNs.getAsLong() + restNs;
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
