package pocketstone;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.List;

/** Writes the file of a prepared workload, field by field as docs/workload-format.md draws it. */
final class TraceFile {
    private record Record(long first, long second, int third, int fourth, int fifth) {
    }

    private final StringBuilder text = new StringBuilder();
    private final List<Record> statements = new ArrayList<>();
    private final List<Record> steps = new ArrayList<>();
    private final List<long[]> values = new ArrayList<>();
    private int loading;
    byte[] image = {};

    /** Adds SQL text, and returns its number. ASCII, so that characters are bytes. */
    int statement(String sql) {
        statements.add(new Record(text.length(), 0, sql.length(), 0, 0));
        text.append(sql);
        return statements.size() - 1;
    }

    TraceFile load(int statement, Object... with) {
        step(0, statement, 0, with);
        loading = steps.size();
        return this;
    }

    TraceFile measure(long pause, int statement, Object... with) {
        return step(pause, statement, 0, with);
    }

    TraceFile join(int statement, Object... with) {
        return step(0, statement, 1, with);
    }

    private TraceFile step(long pause, int statement, int flags, Object... with) {
        steps.add(new Record(pause, values.size(), statement, with.length, flags));
        for (Object value : with) {
            if (value instanceof Integer n) {
                values.add(new long[] {1, n});
            } else if (value instanceof Double x) {
                values.add(new long[] {2, Double.doubleToRawLongBits(x)});
            } else if (value instanceof String s) {
                int bytes = s.getBytes(StandardCharsets.UTF_8).length;
                values.add(new long[] {3, (long) textBytes().length << 24 | bytes});
                text.append(s);
            } else {
                values.add(new long[] {0, 0});
            }
        }
        return this;
    }

    private byte[] textBytes() {
        return text.toString().getBytes(StandardCharsets.UTF_8);
    }

    byte[] bytes() {
        int records = 24 * (statements.size() + steps.size()) + 16 * values.size();
        int body = 64 + records + textBytes().length + image.length;
        ByteBuffer file = ByteBuffer.allocate(body + 32).order(ByteOrder.LITTLE_ENDIAN);
        file.put("PKTTRACE".getBytes(StandardCharsets.US_ASCII)).putInt(1).putInt(statements.size());
        file.putLong(loading).putLong(steps.size() - loading).putLong(values.size()).putLong(textBytes().length);
        file.putLong(image.length).putLong(0);
        for (Record s : statements) {
            file.putLong(s.first).putInt(s.third).putShort((short) 0).putShort((short) 0).putLong(0);
        }
        for (Record s : steps) {
            file.putLong(s.first).putLong(s.second).putInt(s.third);
            file.putShort((short) s.fourth).putShort((short) s.fifth);
        }
        for (long[] value : values) {
            file.putLong(value[0]).putLong(value[1]);
        }
        file.put(textBytes()).put(image);
        return signed(file.array());
    }

    /** With the SHA-256 of everything before its last 32 bytes in these. */
    static byte[] signed(byte[] file) {
        try {
            MessageDigest digest = MessageDigest.getInstance("SHA-256");
            digest.update(file, 0, file.length - 32);
            System.arraycopy(digest.digest(), 0, file, file.length - 32, 32);
            return file;
        } catch (java.security.NoSuchAlgorithmException e) {
            throw new IllegalStateException(e);
        }
    }
}
