package stormwright.probe;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class FlowWatchTest {
    private final FlowWatch watch = new FlowWatch();

    /** The samples at which the flow had stopped; a digit is the number of new tuples of a sample. */
    private List<Integer> stops(String tuples) {
        List<Integer> found = new ArrayList<>();
        long total = 0;
        for (int sample = 0; sample < tuples.length(); sample++) {
            total += Character.digit(tuples.charAt(sample), 10);
            if (watch.hasStopped(total)) {
                found.add(sample);
            }
        }
        return found;
    }

    @Test
    void aSteadyFlowStopsOnceAtTheSecondEmptySample() {
        assertEquals(List.of(21), stops("55555555555555555555000000"));
    }

    @Test
    void aFlowWithStragglersStopsAfterEach() {
        assertEquals(List.of(21, 24, 27), stops("55555555555555555555" + "00100100100100"));
    }

    @Test
    void aWorkerThatHasHadNoTupleHasNoFlow() {
        assertEquals(List.of(), stops("0000"));
    }

    @Test
    void sparseTrafficDoesNotStop() {
        assertEquals(List.of(), stops("900900900900900900900900900900900"));
    }

    @Test
    void oneEmptySampleIsNoStop() {
        assertEquals(List.of(), stops("111111111111111111110101"));
    }
}
