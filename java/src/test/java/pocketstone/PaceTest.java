package pocketstone;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

class PaceTest {
    @Test
    void a_closed_pace_counts_from_ends_and_an_open_one_from_intended_starts() {
        long start = System.nanoTime() - 1_000_000_000;
        for (boolean open : new boolean[] {false, true}) {
            Pace pace = new Pace(false, open, start);
            assertTrue(pace.await(100) >= start + 100);
            assertEquals(start + 100, pace.intended());
            pace.ended(start + 5_000);
            pace.await(200);
            assertEquals(open ? start + 300 : start + 5_200, pace.intended());
        }
    }

    @Test
    void nothing_starts_before_its_time() {
        for (boolean busy : new boolean[] {false, true}) {
            Pace pace = new Pace(busy, false, System.nanoTime());
            for (int n = 0; n < 20; n++) {
                long began = pace.await(2_000_000);
                assertTrue(began >= pace.intended());
                // It says the truth: the clock has not yet gone on by much, and is not behind.
                assertTrue(System.nanoTime() - began >= 0);
                pace.ended(began);
            }
        }
    }
}
