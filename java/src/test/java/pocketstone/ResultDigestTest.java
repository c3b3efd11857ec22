package pocketstone;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.sql.Date;
import org.junit.jupiter.api.Test;

class ResultDigestTest {
    private static String of(Object... values) throws Exception {
        ResultDigest digest = new ResultDigest();
        digest.row(values.length);
        for (Object value : values) {
            digest.value(value);
        }
        digest.end();
        return digest.text();
    }

    /** The digests were folded by hand with Python's integers from the description. */
    @Test
    void known_digests_are_made() throws Exception {
        // crates/workload/src/database/result.rs has the same two.
        assertEquals("c326eeab0e941794", of(-1, "abcdefghi", null, 0.5));
        assertEquals("048ffd49a9743be5", of("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTU"));
        assertEquals("8a325449956a46e1", of(-(1L << 53) + 1, Long.MIN_VALUE, "grüße€"));
        ResultDigest digest = new ResultDigest();
        digest.row(2);
        digest.value(new BigDecimal("15.0187"));
        digest.value(1L << 53);
        digest.end();
        digest.changed(3);
        digest.end();
        assertEquals("efd660f96a4a03e2", digest.text());
        assertEquals(1, digest.rows());
    }

    @Test
    void numbers_are_told_apart_by_value_and_not_by_type() throws Exception {
        String expected = of(31);
        for (Object same : new Object[] {31L, (short) 31, (byte) 31, 31.0, 31f, new BigDecimal("31.0000"),
                BigInteger.valueOf(31)}) {
            assertEquals(expected, of(same), same.getClass().getName());
        }
        assertEquals(of(1), of(true));
        assertEquals(of(0), of(-0.0));
        assertEquals(of(15.0187), of(new BigDecimal("15.0187")));
        assertEquals(of(1L << 53), of(0x1p53));
        assertNotEquals(expected, of(31.5));
        assertNotEquals(expected, of("31"));
        assertNotEquals(of(0), of((Object) null));
    }

    @Test
    void texts_are_told_apart_by_every_byte() throws Exception {
        assertEquals(of("12345678"), of((Object) "12345678".getBytes(StandardCharsets.UTF_8)));
        assertNotEquals(of("a", "b"), of("ab", ""));
        assertNotEquals(of("0123456789"), of("0123456788"));
        assertNotEquals(of("a\0"), of("a"));
    }

    @Test
    void a_type_without_digest_is_refused() {
        Failure failure = assertThrows(Failure.class, () -> of(new Date(0)));
        assertTrue(failure.getMessage().contains("Date"), failure.getMessage());
        assertTrue(failure.hint().contains("CAST"), failure.hint());
    }
}
