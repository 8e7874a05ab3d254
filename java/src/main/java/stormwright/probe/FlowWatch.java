package stormwright.probe;

/**
 * Notices that a steady flow of tuples has ceased, from their number at regular looks. A flow with gaps is none: it would
 * cease again and again.
 */
final class FlowWatch {
    /** Milliseconds from one look to the next. */
    static final long LOOK_MS = 100;

    /** Looks that are remembered, and how many of them have new tuples in a steady flow, which may end in drops. */
    private static final int LOOKS = 20;
    private static final int STEADY_LOOKS = 14;

    private long tuples;
    /** A bit for each look, the newest one the lowest: whether it had new tuples. */
    private int looks;

    /** Takes the number of tuples so far; whether the flow has just ceased: the last two looks have no new ones. */
    boolean hasCeased(long now) {
        looks = (looks << 1 | (now == tuples ? 0 : 1)) & (1 << LOOKS) - 1;
        tuples = now;
        return (looks & 0b111) == 0b100 && Integer.bitCount(looks) >= STEADY_LOOKS;
    }
}
