package pocketstone;

import java.util.concurrent.atomic.AtomicBoolean;

/** A thread's share of the operations: executes them at their pace and times each of them. */
final class Worker implements Runnable {
    private final Executor executor;
    private final Trace trace;
    private final int[] operations;
    private final int first;
    private final Task task;
    private final AtomicBoolean stop;
    private final ResultDigest digest = new ResultDigest();
    private final long[] calls;
    private long start;
    private long firstStart;
    private long lastEnd;
    private Failure failure;

    /**
     * A worker for the operations {@code first}, {@code first} + threads, ...
     *
     * @param operations first steps of all operations, and the number of steps
     * @param stop set when a worker fails: the others end too
     */
    Worker(Executor executor, Trace trace, int[] operations, int first, Task task, AtomicBoolean stop) {
        this.executor = executor;
        this.trace = trace;
        this.operations = operations;
        this.first = first;
        this.task = task;
        this.stop = stop;
        int count = operations.length - 1;
        int own = first < count ? (count - first - 1) / task.threads() + 1 : 0;
        calls = new long[own * CallLog.WORDS];
        for (int n = first; n < count; n += task.threads()) {
            for (int step = operations[n]; step < operations[n + 1]; step++) {
                executor.makeReady(step);
            }
        }
    }

    /** Says what the first delay counts from, and what an idle worker's times are. */
    void startAt(long now) {
        start = now;
        firstStart = now;
        lastEnd = now;
    }

    @Override
    public void run() {
        int n = first;
        try {
            Pace pace = new Pace(task.busy(), task.open(), start);
            for (int place = 0; place < calls.length && !stop.get(); place += CallLog.WORDS, n += task.threads()) {
                // The delay of an operation is that of its first step.
                long began = pace.await(trace.pause(operations[n]));
                for (int step = operations[n]; step < operations[n + 1]; step++) {
                    executor.execute(step, digest);
                }
                long ended = System.nanoTime();
                pace.ended(ended);
                calls[place] = began;
                calls[place + 1] = ended - began;
                calls[place + 2] = pace.intended();
                firstStart = place == 0 ? began : firstStart;
                lastEnd = ended;
            }
        } catch (Failure | RuntimeException | OutOfMemoryError e) {
            stop.set(true);
            failure = new Failure("operation " + n + " failed", e);
        }
    }

    /** Why it ended early; null if it did not. */
    Failure failure() {
        return failure;
    }

    /** The digest of what its operations returned. */
    ResultDigest digest() {
        return digest;
    }

    /** Its calls, in order: start, latency, intended start. */
    long[] calls() {
        return calls;
    }

    /** Start of its first operation. */
    long firstStart() {
        return firstStart;
    }

    /** End of its last operation. */
    long lastEnd() {
        return lastEnd;
    }
}
