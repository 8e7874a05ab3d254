package stormwright.topologies;

import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Values;

/** Emits the sentences or the words of a book over and over; each task starts at its own place in the book. */
class BookSpout extends PacedSpout {
    /** What one tuple holds. */
    enum Unit { SENTENCE, WORD }

    private final Unit unit;
    private final String text;
    private transient String[] tuples;

    BookSpout(Unit unit, Arguments arguments) {
        super(arguments.rate("rate"));
        this.unit = unit;
        this.text = arguments.text("text");
    }

    @Override
    long first(int task, int tasks) {
        tuples = unit == Unit.SENTENCE ? Book.sentences(text) : Book.words(text);
        return (long) tuples.length * task / tasks;
    }

    @Override
    Values tuple(long number) {
        return new Values(tuples[(int) (number % tuples.length)]);
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        declarer.declare(new Fields(unit == Unit.SENTENCE ? "sentence" : "word"));
    }
}
