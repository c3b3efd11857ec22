package pocketstone;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/** The call log: for each operation start_ns, latency_ns and intended_ns, little-endian, without a header. */
final class CallLog {
    /** 64-bit words of a call. */
    static final int WORDS = 3;

    private CallLog() {
    }

    /**
     * Writes the calls of all threads, in order of the operations: thread t of n had t, t + n, ...
     *
     * @throws Failure when the file cannot be written
     */
    static void write(Path path, List<long[]> threads) throws Failure {
        int words = threads.stream().mapToInt(calls -> calls.length).sum();
        ByteBuffer log = ByteBuffer.allocate(words * Long.BYTES).order(ByteOrder.LITTLE_ENDIAN);
        for (int n = 0; n < words / WORDS; n++) {
            long[] calls = threads.get(n % threads.size());
            int place = n / threads.size() * WORDS;
            log.putLong(calls[place]).putLong(calls[place + 1]).putLong(calls[place + 2]);
        }
        try {
            Files.write(path, log.array());
        } catch (IOException e) {
            throw new Failure("the call log " + path + " cannot be written", e);
        }
    }
}
