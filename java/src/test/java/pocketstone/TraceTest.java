package pocketstone;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Path;
import java.util.Arrays;
import org.junit.jupiter.api.Test;

class TraceTest {
    /** 2 statements, 2 + 3 steps, 6 values: steps start at 112, values at 232, text at 328. */
    private static TraceFile small() {
        TraceFile file = new TraceFile();
        int insert = file.statement("INSERT INTO t VALUES (?, ?)");
        int read = file.statement("SELECT * FROM t WHERE k = ?");
        file.load(insert, -1, "grüße").load(insert, 2, null);
        return file.measure(7, read, 0.5).join(insert).measure(1_000_000, read, "");
    }

    private static String complaint(byte[] file) {
        Failure failure = assertThrows(Failure.class, () -> new Trace(file));
        assertNotNull(failure.hint());
        return failure.getMessage();
    }

    @Test
    void everything_in_a_workload_is_read() throws Failure {
        Trace trace = new Trace(small().bytes());
        assertEquals(2, trace.loading());
        assertEquals(5, trace.steps());
        assertEquals(2, trace.statements());
        assertEquals("SELECT * FROM t WHERE k = ?", trace.statementText(trace.statement(2)));
        assertArrayEquals(new Object[] {-1L, "grüße"}, trace.values(0));
        assertArrayEquals(new Object[] {2L, null}, trace.values(1));
        assertArrayEquals(new Object[] {0.5}, trace.values(2));
        assertArrayEquals(new Object[] {}, trace.values(3));
        assertArrayEquals(new Object[] {""}, trace.values(4));
        assertEquals(7, trace.pause(2));
        assertEquals(1_000_000, trace.pause(4));
        assertTrue(trace.joined(3));
        assertFalse(trace.hasImage());
        // Operations: step 2 with step 3, and step 4.
        assertArrayEquals(new int[] {2, 4, 5}, trace.operations());
    }

    @Test
    void every_changed_byte_is_noticed() {
        byte[] file = small().bytes();
        for (int at = 0; at < file.length; at++) {
            byte[] bad = file.clone();
            bad[at] ^= 1;
            complaint(bad);
        }
        assertTrue(complaint(Arrays.copyOf(file, file.length - 1)).contains("damaged or cut off"));
    }

    @Test
    void what_is_no_workload_is_told_from_a_damaged_one() {
        assertTrue(complaint(new byte[500]).contains("PKTTRACE is not at its start"));
        assertTrue(complaint(new byte[5]).contains("PKTTRACE is not at its start"));
        byte[] newer = small().bytes();
        newer[8] = 2;
        assertTrue(complaint(newer).contains("format 2, this pocketstone knows 1"));
    }

    /** A file whose SHA-256 is right, with {@code word} in its 8 bytes at {@code at}. */
    private static byte[] with(int at, long word) {
        byte[] file = small().bytes();
        ByteBuffer.wrap(file).order(ByteOrder.LITTLE_ENDIAN).putLong(at, word);
        return TraceFile.signed(file);
    }

    @Test
    void nothing_outside_the_file_is_looked_at() {
        // Counts of the header: loading steps, measured steps, values, text, image.
        for (int at = 16; at <= 48; at += 8) {
            for (long count : new long[] {-1, Long.MIN_VALUE, 1L << 32, 1000, Long.MAX_VALUE / 24 + 1}) {
                assertTrue(complaint(with(at, count)).contains("damaged"), at + " " + count);
            }
        }
        assertTrue(complaint(with(48, 1)).contains("image at"));
        // The first statement's text begins behind the text's end.
        assertTrue(complaint(with(64, 60)).contains("statement at 64"));
        // A step's first value; its statement (and 1 value, no flags).
        assertTrue(complaint(with(112 + 8, 5)).contains("step at 0"));
        assertTrue(complaint(with(112 + 2 * 24 + 16, 2 | 1L << 32)).contains("step at 2"));
        // The first measured step cannot be joined to a loading one.
        assertTrue(complaint(with(112 + 2 * 24 + 16, 1 | 1L << 32 | 1L << 48)).contains("step at 2"));
        // A value of an unknown kind; a text that ends outside; one that ends within the character ü.
        assertTrue(complaint(with(232, 4)).contains("value at 0"));
        assertTrue(complaint(with(232 + 24, 54L << 24 | 8)).contains("value at 1"));
        assertTrue(complaint(with(232 + 24, 54L << 24 | 3)).contains("value at 1"));
        // Text that is no UTF-8.
        assertTrue(complaint(with(328, 0xffffffffffffffffL)).contains("text at 328"));
    }

    @Test
    void a_missing_file_is_named() {
        Failure failure = assertThrows(Failure.class, () -> Trace.read(Path.of("/no/such/workload")));
        assertTrue(failure.getMessage().contains("/no/such/workload cannot be read"), failure.getMessage());
    }
}
