package stormwright;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import java.util.Map;
import org.apache.storm.networktopography.DNSToSwitchMapping;
import org.junit.jupiter.api.Test;

class RackMappingTest {
    @Test
    void hostsHaveTheirRackOrStormsDefaultOne() {
        RackMapping mapping = new RackMapping(Map.of(RackMapping.RACKS, Map.of("h1", "a")));
        assertEquals(
                Map.of("h1", "a", "h2", DNSToSwitchMapping.DEFAULT_RACK), mapping.resolve(List.of("h1", "h2")));
        assertEquals(Map.of("h1", DNSToSwitchMapping.DEFAULT_RACK), new RackMapping(Map.of()).resolve(List.of("h1")));
    }
}
