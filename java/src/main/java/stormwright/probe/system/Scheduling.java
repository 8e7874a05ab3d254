package stormwright.probe.system;

/**
 * How the kernel scheduled a thread in an interval.
 *
 * @param waitedNs how long it could have run and had no core, in ns
 * @param runs how often it was given a core: mostly because it had slept
 */
public record Scheduling(long waitedNs, long runs) { }
