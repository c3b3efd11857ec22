package pocketstone;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;

/**
 * A prepared workload: statements, steps and their values, read from its file and checked.
 *
 * <p>docs/workload-format.md draws the file. Steps are numbered through: those that load the database come first, then
 * the measured ones. Reading takes the whole file into memory; at most 2 GiB.
 */
final class Trace {
    private static final byte[] MAGIC = "PKTTRACE".getBytes(StandardCharsets.US_ASCII);
    private static final int FORMAT = 1;
    private static final int HEADER = 64;
    private static final int STATEMENT = 24;
    private static final int STEP = 24;
    private static final int VALUE = 16;
    private static final int DIGEST = 32;
    /** Flag of a step: it belongs to the same operation as the step before. */
    private static final int JOINED = 1;
    /** Of a text value's payload: the low bits are its bytes, the others its offset. */
    private static final int BYTES_BITS = 24;

    private final ByteBuffer file;
    private final String[] statements;
    private final int loading;
    private final int steps;
    private final int stepsAt;
    private final int valuesAt;
    private final int textAt;
    private final boolean image;

    /**
     * Reads the workload in {@code path}.
     *
     * @throws Failure when it cannot be read, is no prepared workload or is damaged; the message names the place
     */
    static Trace read(Path path) throws Failure {
        byte[] bytes;
        try {
            bytes = Files.readAllBytes(path);
        } catch (IOException | OutOfMemoryError e) {
            throw new Failure("the workload " + path + " cannot be read", e);
        }
        try {
            return new Trace(bytes);
        } catch (Failure e) {
            throw new Failure("the workload " + path + " cannot be used", e);
        }
    }

    /**
     * Takes a file's bytes.
     *
     * @throws Failure when they are no prepared workload, or a damaged one
     */
    Trace(byte[] bytes) throws Failure {
        file = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
        if (bytes.length < HEADER + DIGEST || !Arrays.equals(MAGIC, Arrays.copyOf(bytes, MAGIC.length))) {
            throw new Failure("it is not a prepared workload (PKTTRACE is not at its start)", "prepare it");
        }
        if (file.getInt(8) != FORMAT) {
            throw new Failure("it has format " + Integer.toUnsignedString(file.getInt(8)) + ", this pocketstone knows "
                    + FORMAT, "prepare it again with this version");
        }
        int end = bytes.length - DIGEST;
        if (!Arrays.equals(sha256(bytes, end), Arrays.copyOfRange(bytes, end, bytes.length))) {
            throw new Failure("its SHA-256 is wrong: it is damaged or cut off", "prepare it again");
        }
        int statementCount = count("statements", Integer.toUnsignedLong(file.getInt(12)), HEADER, STATEMENT, end);
        stepsAt = HEADER + statementCount * STATEMENT;
        loading = count("steps", file.getLong(16), stepsAt, STEP, end);
        int measured = count("steps", file.getLong(24), stepsAt + loading * STEP, STEP, end);
        steps = loading + measured;
        valuesAt = stepsAt + steps * STEP;
        int values = count("values", file.getLong(32), valuesAt, VALUE, end);
        textAt = valuesAt + values * VALUE;
        int text = count("text", file.getLong(40), textAt, 1, end);
        int imageBytes = count("image", file.getLong(48), textAt + text, 1, end);
        if (textAt + text + imageBytes != end) {
            throw damaged("end", textAt + text + imageBytes);
        }
        image = imageBytes > 0;
        checkText(text);
        for (int n = 0; n < values; n++) {
            checkValue(n, text);
        }
        for (int step = 0; step < steps; step++) {
            long first = file.getLong(stepsAt + step * STEP + 8);
            boolean fits = first >= 0 && first <= values - valueCount(step);
            boolean joins = joined(step) && (step == 0 || step == loading);
            if (!fits || joins || statement(step) < 0 || statement(step) >= statementCount || pause(step) < 0) {
                throw damaged("step", step);
            }
        }
        statements = new String[statementCount];
        for (int n = 0; n < statementCount; n++) {
            int at = HEADER + n * STATEMENT;
            long offset = file.getLong(at);
            long length = Integer.toUnsignedLong(file.getInt(at + 8));
            if (!isText(offset, length, text)) {
                throw damaged("statement", at);
            }
            statements[n] = text(offset, length);
        }
    }

    private static byte[] sha256(byte[] bytes, int end) {
        try {
            MessageDigest digest = MessageDigest.getInstance("SHA-256");
            digest.update(bytes, 0, end);
            return digest.digest();
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("every Java has SHA-256", e);
        }
    }

    /** {@code count} records of {@code size} bytes at {@code at}, if they end before {@code end}. */
    private static int count(String what, long count, int at, int size, int end) throws Failure {
        if (count < 0 || count > (end - at) / size) {
            throw damaged(what, at);
        }
        return (int) count;
    }

    private static Failure damaged(String what, int place) {
        return new Failure("it is damaged: " + what + " at " + place, "prepare it again");
    }

    private void checkText(int bytes) throws Failure {
        try {
            StandardCharsets.UTF_8.newDecoder().decode(file.slice(textAt, bytes));
        } catch (CharacterCodingException e) {
            throw damaged("text", textAt);
        }
    }

    private void checkValue(int n, int text) throws Failure {
        int kind = Byte.toUnsignedInt(file.get(valuesAt + n * VALUE));
        long payload = file.getLong(valuesAt + n * VALUE + 8);
        boolean known = kind < 3 || kind == 3 && isText(payload >>> BYTES_BITS, bytesOf(payload), text);
        if (!known) {
            throw damaged("value", n);
        }
    }

    private static int bytesOf(long payload) {
        return (int) payload & (1 << BYTES_BITS) - 1;
    }

    /** Whether {@code bytes} at {@code offset} lie in the text and cut no character in two. */
    private boolean isText(long offset, long bytes, int text) {
        return offset >= 0 && offset <= text - bytes
                && startsCharacter(offset, text) && startsCharacter(offset + bytes, text);
    }

    private boolean startsCharacter(long offset, int text) {
        return offset == text || (file.get(textAt + (int) offset) & 0xc0) != 0x80;
    }

    private String text(long offset, long bytes) {
        return new String(file.array(), textAt + (int) offset, (int) bytes, StandardCharsets.UTF_8);
    }

    /** Steps that load the database: 0 to this, without it. */
    int loading() {
        return loading;
    }

    /** All steps; the measured ones start at {@link #loading}. */
    int steps() {
        return steps;
    }

    /** Number of statements. */
    int statements() {
        return statements.length;
    }

    /** Text of statement {@code n}, with a question mark for each value. */
    String statementText(int n) {
        return statements[n];
    }

    /** Whether it starts from a database file of SQLite. */
    boolean hasImage() {
        return image;
    }

    /** Delay before a step in ns. */
    long pause(int step) {
        return file.getLong(stepsAt + step * STEP);
    }

    /** Number of a step's statement. */
    int statement(int step) {
        return file.getInt(stepsAt + step * STEP + 16);
    }

    /** Number of a step's values. */
    int valueCount(int step) {
        return Short.toUnsignedInt(file.getShort(stepsAt + step * STEP + 20));
    }

    /** Whether a step belongs to the same operation as the step before it. */
    boolean joined(int step) {
        return (file.getShort(stepsAt + step * STEP + 22) & JOINED) != 0;
    }

    /** A step's values: null, Long, Double or String. */
    Object[] values(int step) {
        int first = (int) file.getLong(stepsAt + step * STEP + 8);
        Object[] values = new Object[valueCount(step)];
        for (int n = 0; n < values.length; n++) {
            int at = valuesAt + (first + n) * VALUE;
            long payload = file.getLong(at + 8);
            values[n] = switch (file.get(at)) {
                case 1 -> payload;
                case 2 -> Double.longBitsToDouble(payload);
                case 3 -> text(payload >>> BYTES_BITS, bytesOf(payload));
                default -> null;
            };
        }
        return values;
    }

    /** First steps of the measured operations, in order, and behind them the number of all steps. */
    int[] operations() {
        int[] first = new int[steps - loading + 1];
        int count = 0;
        for (int step = loading; step < steps; step++) {
            if (!joined(step)) {
                first[count++] = step;
            }
        }
        first[count++] = steps;
        return Arrays.copyOf(first, count);
    }
}
