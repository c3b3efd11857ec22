package pocketstone;

import java.util.concurrent.locks.LockSupport;

/** When operations start: their delays, and what they count from. Times are {@link System#nanoTime}. */
final class Pace {
    private final boolean busy;
    private final boolean open;
    private long intended;
    private long ended;

    /**
     * A pace.
     *
     * @param busy whether to look at the clock until it is time, instead of sleeping
     * @param open whether a delay counts from the intended start of the operation before, instead of from its end
     * @param start what the first delay counts from
     */
    Pace(boolean busy, boolean open, long start) {
        this.busy = busy;
        this.open = open;
        intended = start;
        ended = start;
    }

    /** Waits until the next operation is to start, {@code pause} ns behind the one before, and returns the time. */
    long await(long pause) {
        intended = (open ? intended : ended) + pause;
        long now = System.nanoTime();
        // A sleep may end early: only the clock says that it is time.
        while (now - intended < 0) {
            if (busy) {
                Thread.onSpinWait();
            } else {
                LockSupport.parkNanos(intended - now);
            }
            now = System.nanoTime();
        }
        return now;
    }

    /** When the operation that was waited for last was to start. */
    long intended() {
        return intended;
    }

    /** The operation ended. */
    void ended(long now) {
        ended = now;
    }
}
