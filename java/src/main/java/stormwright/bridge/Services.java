package stormwright.bridge;

import java.net.URI;
import java.util.List;
import java.util.StringJoiner;
import stormwright.access.Credentials;

/**
 * The services of a cluster, of which one leads: who answered last is asked first, then the others, all within the
 * deadline.
 */
public final class Services {
    /** Part of the deadline that is left for the others where the first one does not answer. */
    private static final double FOR_OTHERS = 0.2;

    /** Takes an answer, or says why it counts for nothing. */
    @FunctionalInterface
    public interface Reader {
        Answer read(String body) throws ServiceException;
    }

    private final List<String> addresses;
    private final List<ServiceClient> clients;
    private final long deadlineMs;
    private int first;

    /**
     * Makes a client of each.
     *
     * @param addresses where they are, at least one
     * @param deadlineMs how long asking all of them may take
     * @param credentials how they know us, and we know them
     */
    public Services(List<String> addresses, long deadlineMs, Credentials credentials) {
        this.addresses = addresses;
        this.deadlineMs = deadlineMs;
        clients = addresses.stream()
                .map(each -> new ServiceClient(URI.create(each + "/v1/schedule"), deadlineMs, credentials)).toList();
    }

    /**
     * The first answer that counts.
     *
     * @throws ServiceException there is none; why not of each
     */
    public Answer ask(String question, Reader reader) throws ServiceException {
        long endNs = System.nanoTime() + deadlineMs * 1_000_000;
        StringJoiner why = new StringJoiner("; ");
        ServiceException last = null;
        for (int i = 0; i < clients.size(); i++) {
            int asked = (first + i) % clients.size();
            try {
                Answer answer = reader.read(clients.get(asked).post(question, limitMs(i, endNs)));
                first = asked;
                return answer;
            } catch (ServiceException e) {
                why.add(clients.size() == 1 ? e.getMessage() : addresses.get(asked) + ": " + e.getMessage());
                last = e;
            }
        }
        first = (first + 1) % clients.size(); // who took all of the time is asked last
        throw new ServiceException(why.toString(), last);
    }

    private long limitMs(int before, long endNs) {
        if (clients.size() == 1) {
            return deadlineMs;
        }
        double share = before == 0 ? 1 - FOR_OTHERS : 1.0 / (clients.size() - before);
        return Math.max(1, Math.round(share * (endNs - System.nanoTime()) / 1_000_000));
    }
}
