package stormwright.probe;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class FlowWatchTest {
    private final FlowWatch watch = new FlowWatch();

    /** The looks at which the flow had ceased; a digit is the number of new tuples of a look. */
    private List<Integer> ceased(String tuples) {
        List<Integer> found = new ArrayList<>();
        long total = 0;
        for (int look = 0; look < tuples.length(); look++) {
            total += Character.digit(tuples.charAt(look), 10);
            if (watch.hasCeased(total)) {
                found.add(look);
            }
        }
        return found;
    }

    @Test
    void aSteadyFlowThatEndsHasCeasedOnceAtTheSecondLook() {
        assertEquals(List.of(21), ceased("55555555555555555555000000"));
    }

    @Test
    void aFlowThatEndsInDropsCeasesWithEach() {
        assertEquals(List.of(21, 24, 27), ceased("55555555555555555555" + "00100100100100"));
    }

    @Test
    void aWorkerThatHasHadNoTupleHasNoFlow() {
        assertEquals(List.of(), ceased("0000"));
    }

    @Test
    void aFlowWithGapsDoesNotCease() {
        assertEquals(List.of(), ceased("900900900900900900900900900900900"));
    }

    @Test
    void oneLookWithoutTuplesEndsNothing() {
        assertEquals(List.of(), ceased("111111111111111111110101"));
    }
}
