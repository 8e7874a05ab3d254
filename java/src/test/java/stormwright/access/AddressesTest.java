package stormwright.access;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import org.junit.jupiter.api.Test;

class AddressesTest {
    @Test
    void oneOrSeveralOrNone() {
        assertEquals(List.of(), Addresses.of(null));
        assertEquals(List.of(), Addresses.of(" "));
        assertEquals(List.of("http://a:1"), Addresses.of("http://a:1/"));
        assertEquals(List.of("http://a:1", "http://b:2"), Addresses.of("http://a:1, http://b:2//,http://a:1"));
        assertEquals(List.of("http://a:1", "http://b:2"), Addresses.of(List.of("http://a:1", "http://b:2/")));
    }
}
