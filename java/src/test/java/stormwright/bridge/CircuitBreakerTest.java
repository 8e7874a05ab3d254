package stormwright.bridge;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;

class CircuitBreakerTest {
    private static final long SECOND_NS = 1_000_000_000L;
    private final AtomicLong clock = new AtomicLong(Long.MAX_VALUE - SECOND_NS); // a monotonic clock may overflow
    private final CircuitBreaker breaker = new CircuitBreaker(clock::get, CircuitBreaker.REST_NS);

    private void fail(int times) {
        for (int i = 0; i < times; i++) {
            breaker.failed();
        }
    }

    @Test
    void opensAfterThreeFailuresInARow() {
        fail(2);
        breaker.succeeded();
        fail(2);
        assertTrue(breaker.allows());
        assertEquals("2 failures", breaker.describe());
        fail(1);
        assertFalse(breaker.allows());
        assertEquals("3 failures, next try in 20 s", breaker.describe());
    }

    @Test
    void oneTryDecides() {
        fail(3);
        clock.addAndGet(19 * SECOND_NS);
        assertEquals("3 failures, next try in 1 s", breaker.describe());
        clock.addAndGet(SECOND_NS);
        assertTrue(breaker.allows());
        fail(1);
        assertFalse(breaker.allows());
        clock.addAndGet(20 * SECOND_NS);
        breaker.succeeded();
        fail(2);
        assertTrue(breaker.allows());
    }
}
