package pocketstone;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.sql.Clob;
import java.sql.Blob;
import java.sql.SQLException;

/**
 * The digest of what a database returned: the same for every engine that tells the truth.
 *
 * <p>A stream of 64-bit words is folded one by one, {@code state = (rotl(state, 5) ^ word) * K}, from 0. A step that
 * returns rows gives, for each row, the number of its values and then each value; a step that changes rows gives their
 * number. Every step ends with the word 0xff. A value's words: null is 0; a number without fraction below 2^53 is 1 and
 * the integer; any other number is 2 and the bits of the double; text or bytes are 3 and the hash of the bytes. That
 * hash is a state, from the number of bytes, and takes little-endian words of 8 bytes: while there are 16 bytes,
 * {@code (state ^ first) * (second ^ K)} in 128 bits, the halves of which are combined by xor; what is left is folded,
 * the last word padded with zeros.
 */
final class ResultDigest {
    private static final long K = 0x9e3779b97f4a7c15L;
    /** Integers below this are told apart by a double. */
    private static final long EXACT = 1L << 53;

    private long state;
    private long rows;

    private static long fold(long state, long word) {
        return (Long.rotateLeft(state, 5) ^ word) * K;
    }

    /** Two words of bytes. */
    private static long multiply(long state, long first, long second) {
        long a = state ^ first;
        long b = second ^ K;
        // The product is signed: what that takes from the upper half is given back.
        long high = Math.multiplyHigh(a, b) + (a >> 63 & b) + (b >> 63 & a);
        return a * b ^ high;
    }

    private static long hash(byte[] bytes) {
        ByteBuffer words = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
        long hash = bytes.length;
        while (words.remaining() >= 2 * Long.BYTES) {
            hash = multiply(hash, words.getLong(), words.getLong());
        }
        while (words.remaining() >= Long.BYTES) {
            hash = fold(hash, words.getLong());
        }
        if (!words.hasRemaining()) {
            return hash;
        }
        long last = 0;
        for (int shift = 0; words.hasRemaining(); shift += Byte.SIZE) {
            last |= Byte.toUnsignedLong(words.get()) << shift;
        }
        return fold(hash, last);
    }

    /** A row of {@code columns} values begins. */
    void row(int columns) {
        rows++;
        state = fold(state, columns);
    }

    /**
     * The next value of the row, as JDBC returns it.
     *
     * @throws Failure when it is of a type that has no digest, such as a date
     */
    void value(Object value) throws Failure, SQLException {
        if (value == null) {
            state = fold(state, 0);
        } else if (value instanceof String text) {
            bytes(text.getBytes(StandardCharsets.UTF_8));
        } else if (value instanceof Long || value instanceof Integer || value instanceof Short
                || value instanceof Byte) {
            integer(((Number) value).longValue());
        } else if (value instanceof Boolean truth) {
            integer(truth ? 1 : 0);
        } else if (value instanceof Double || value instanceof Float || value instanceof BigDecimal
                || value instanceof BigInteger) {
            real(((Number) value).doubleValue());
        } else if (value instanceof byte[] bytes) {
            bytes(bytes);
        } else if (value instanceof Clob clob) {
            bytes(clob.getSubString(1, Math.toIntExact(clob.length())).getBytes(StandardCharsets.UTF_8));
        } else if (value instanceof Blob blob) {
            bytes(blob.getBytes(1, Math.toIntExact(blob.length())));
        } else {
            throw new Failure("a result has a value of " + value.getClass().getSimpleName()
                    + ", which is no number, text or bytes", "select it with CAST(... AS VARCHAR)");
        }
    }

    private void integer(long n) {
        // Math.abs(Long.MIN_VALUE) is negative, and no small number.
        if (-EXACT < n && n < EXACT) {
            state = fold(fold(state, 1), n);
        } else {
            state = fold(fold(state, 2), Double.doubleToRawLongBits((double) n));
        }
    }

    private void real(double x) {
        if (x % 1 == 0 && Math.abs(x) < EXACT) {
            state = fold(fold(state, 1), (long) x);
        } else {
            state = fold(fold(state, 2), Double.doubleToRawLongBits(x));
        }
    }

    private void bytes(byte[] bytes) {
        state = fold(fold(state, 3), hash(bytes));
    }

    /** A step that changed rows instead of returning some. */
    void changed(long count) {
        state = fold(state, count);
    }

    /** A step ends. */
    void end() {
        state = fold(state, 0xff);
    }

    /** Rows so far. */
    long rows() {
        return rows;
    }

    /** 16 hexadecimal digits. */
    String text() {
        return String.format("%016x", state);
    }
}
