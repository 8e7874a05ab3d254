package stormwright.topologies;

import java.util.Iterator;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;

/**
 * The tuples of one key: how many there were, and which of them.
 *
 * <p>The numbers of a key are counted from 0 for each spout task: with K keys, number n is the one of rank n div K of key
 * n mod K. All ranks below {@code mark} were applied, and those of {@code later}. As text:
 * {@code COUNT TASK:MARK:RANK,RANK TASK:MARK:}, for example {@code 12 0:5: 1:4:6,7}.
 */
final class Tally {
    private long count;
    private final Map<Integer, Progress> progress = new TreeMap<>();

    /** Counts a tuple once more, whether or not it was counted before. */
    void add(int task, long rank) {
        count++;
        progress.computeIfAbsent(task, key -> new Progress()).add(rank);
    }

    static Tally parse(String text) {
        Tally tally = new Tally();
        String[] parts = text.split(" ");
        tally.count = Long.parseLong(parts[0]);
        for (int i = 1; i < parts.length; i++) {
            String[] fields = parts[i].split(":", 3);
            Progress progress = new Progress();
            progress.mark = Long.parseLong(fields[1]);
            if (!fields[2].isEmpty()) {
                for (String rank : fields[2].split(",")) {
                    progress.later.add(Long.parseLong(rank));
                }
            }
            tally.progress.put(Integer.parseInt(fields[0]), progress);
        }
        return tally;
    }

    @Override
    public String toString() {
        return count + progress.entrySet().stream()
                .map(entry -> " " + entry.getKey() + ":" + entry.getValue()).collect(Collectors.joining());
    }

    private static final class Progress {
        private long mark;
        private final TreeSet<Long> later = new TreeSet<>();

        void add(long rank) {
            if (rank < mark) {
                return;
            }
            later.add(rank);
            for (Iterator<Long> ranks = later.iterator(); ranks.hasNext() && ranks.next() == mark; mark++) {
                ranks.remove();
            }
        }

        @Override
        public String toString() {
            return mark + ":" + later.stream().map(String::valueOf).collect(Collectors.joining(","));
        }
    }
}
