package stormwright.probe;

import java.util.List;
import org.apache.storm.tuple.Tuple;

/** Where a task counts what came by one of several streams: tuples, and ms of the executions that were sampled. */
final class InputCells {
    static final InputCells[] NONE = new InputCells[0];

    final Edge edge;
    final int tuples;
    final int sampledMs;
    private final String source;
    private final String stream;

    private InputCells(Edge edge, int firstCell) {
        this.edge = edge;
        this.source = edge.source().intern();
        this.stream = edge.stream().intern();
        this.tuples = firstCell;
        this.sampledMs = firstCell + 1;
    }

    /** Those of a task; none where there is nothing to tell apart. */
    static InputCells[] layOut(List<Edge> edges, int firstCell) {
        if (edges.size() < 2) {
            return NONE;
        }
        InputCells[] inputs = new InputCells[edges.size()];
        for (int i = 0; i < inputs.length; i++) {
            inputs[i] = new InputCells(edges.get(i), firstCell + 2 * i);
        }
        return inputs;
    }

    /** The one that a tuple came by; null for none of them. */
    @SuppressWarnings("StringEquality")
    static InputCells find(InputCells[] inputs, Tuple tuple) {
        String source = tuple.getSourceComponent();
        String stream = tuple.getSourceStreamId();
        for (InputCells input : inputs) {
            if (input.source == source && input.stream == stream) {
                return input;
            }
        }
        for (InputCells input : inputs) {
            if (input.source.equals(source) && input.stream.equals(stream)) {
                return input;
            }
        }
        return null;
    }

    int endCell() {
        return sampledMs + 1;
    }
}
