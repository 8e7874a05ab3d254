package stormwright;

import java.io.PrintStream;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import stormwright.host.HostException;
import stormwright.host.Run;

/**
 * Runs Java schedulers for programs that are not Java: one JSON request a line on standard input, one response a line
 * on standard output, until the input ends.
 *
 * <p>A request has {@code id}, {@code class} (an {@code IScheduler}), {@code problem} (a {@code stormwright-problem/1})
 * and optionally {@code strategy}, {@code conf} (laid over that of the problem) and {@code seed} (of
 * {@code Collections.shuffle}). A response has the {@code id} and {@code assignments}, {@code heaps} (what Storm reckons
 * for the workers of a topology), {@code status} and {@code seconds}, or {@code error} and {@code cause}, the exceptions from the outermost to the first.
 */
public final class SchedulerHost extends RequestLoop {
    SchedulerHost() {
    }

    /** Serves standard input. */
    public static void main(String[] args) {
        PrintStream responses = takeStandardOutput();
        endWithParent();
        new SchedulerHost().serveAndEnd(responses);
    }

    @Override
    Map<String, Object> answer(Map<?, ?> request) throws HostException {
        return Run.of(request);
    }

    @Override
    Map<String, Object> refusal(Throwable thrown) {
        if (thrown instanceof HostException) {
            return Map.of("error", thrown.getMessage(), "cause", chain(thrown.getCause()));
        }
        // An Error, too, such as too little memory: the next request may do with it.
        return Map.of("error", "bad request: " + thrown, "cause", chain(thrown));
    }

    /** Every exception with where it was thrown. */
    private static List<String> chain(Throwable outermost) {
        List<String> chain = new ArrayList<>();
        for (Throwable e = outermost; e != null && chain.size() < 10; e = e.getCause()) {
            chain.add(Run.told(e));
        }
        return chain;
    }
}
