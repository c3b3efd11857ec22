package pocketstone;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.grack.nanojson.JsonObject;
import com.grack.nanojson.JsonParser;
import com.grack.nanojson.JsonWriter;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Whole tasks, on databases in a temporary folder. */
class MainTest {
    @TempDir
    private Path folder;
    private JsonObject spec;
    private TraceFile trace;
    private String said;
    private String complained;

    @BeforeEach
    void a_plain_task() {
        spec = JsonObject.builder().value("engine", "h2").value("sql", "prepared").object("configuration").end()
                .value("threads", 1).value("waiting", "sleep").value("arrival", "closed").done();
        trace = new TraceFile();
    }

    /** Runs a task whose input is {@code input}, and returns its result; null where none was written. */
    private JsonObject run(String work, String input) throws Exception {
        Files.write(folder.resolve("trace"), trace.bytes());
        JsonObject task = JsonObject.builder().value("work", work).value("directory", folder.resolve("d").toString())
                .value("trace", folder.resolve("trace").toString()).value("calls", folder.resolve("calls").toString())
                .value("result", folder.resolve("result").toString()).value("spec", spec).done();
        Files.createDirectories(folder.resolve("d"));
        Files.writeString(folder.resolve("task.json"), JsonWriter.string(task));
        return run(input);
    }

    private JsonObject run(String input) throws Exception {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream error = new ByteArrayOutputStream();
        Files.deleteIfExists(folder.resolve("result"));
        int status = Main.run(new String[] {folder.resolve("task.json").toString()},
                new ByteArrayInputStream(input.getBytes(StandardCharsets.UTF_8)), out, new PrintStream(error), 5);
        said = out.toString(StandardCharsets.UTF_8);
        complained = error.toString(StandardCharsets.UTF_8);
        if (!Files.exists(folder.resolve("result"))) {
            assertEquals(1, status);
            return null;
        }
        JsonObject result = JsonParser.object().from(Files.readString(folder.resolve("result")));
        assertEquals(result.has("failure") ? 1 : 0, status);
        return result;
    }

    private String failure(String work, String input) throws Exception {
        JsonObject failure = run(work, input).getObject("failure");
        return failure.getString("message") + " / " + failure.getString("hint");
    }

    /** Loads rows 1 and 2, and measures a read of 2 with an update joined, a delay of 3 ms, and a scan. */
    private void small() {
        int create = trace.statement("CREATE TABLE t (key int PRIMARY KEY, v decimal, w TEXT)");
        int insert = trace.statement("INSERT INTO t VALUES (?, ?, ?)");
        int read = trace.statement("SELECT v, w FROM T WHERE \"KEY\" = ?");
        int update = trace.statement("UPDATE t SET v = ? WHERE key = ?");
        int scan = trace.statement("SELECT * FROM t WHERE key >= ? ORDER BY key LIMIT ?");
        trace.load(create).load(insert, 1, 0.5, "it's").load(insert, 2, 15.0187, null);
        trace.measure(0, read, 2).join(update, 7.0, 2).measure(3_000_000, scan, 1, 10);
    }

    /** What {@link #small} returns, folded in the order of its description. */
    private static String expected() throws Exception {
        ResultDigest digest = new ResultDigest();
        Object[][] rows = {{15.0187, null}, null, {1, 0.5, "it's"}, {2, 7, null}};
        for (int n = 0; n < rows.length; n++) {
            if (rows[n] == null) {
                digest.changed(1);
            } else {
                digest.row(rows[n].length);
                for (Object value : rows[n]) {
                    digest.value(value);
                }
            }
            if (n != 2) {
                digest.end();
            }
        }
        return digest.text();
    }

    @Test
    void a_workload_returns_what_was_loaded_in_both_forms() throws Exception {
        small();
        for (String form : new String[] {"prepared", "text"}) {
            spec.put("sql", form);
            JsonObject loaded = run("load", "go\n");
            assertFalse(loaded.has("failure"), loaded.toString());
            assertEquals("ready\ndone\n", said);
            assertNull(loaded.get("digest"));
            JsonObject measured = run("measure", "go\n");
            assertEquals("ready\ndone\n", said);
            assertEquals(expected(), measured.getString("digest"));
            assertEquals(3, measured.getLong("rows"));
            assertEquals(5, measured.getLong("main_ns"));
            assertTrue(measured.getString("engine").matches("H2 2\\.[0-9.]+ on \\S+ \\d.*"), measured.toString());
            ByteBuffer calls = ByteBuffer.wrap(Files.readAllBytes(folder.resolve("calls")));
            calls.order(ByteOrder.LITTLE_ENDIAN);
            assertEquals(2 * 24, calls.capacity());
            // Start, latency, intended start: the second was to start 3 ms behind the first one's end.
            assertEquals(calls.getLong(0) + calls.getLong(8) + 3_000_000, calls.getLong(40));
            assertTrue(calls.getLong(24) >= calls.getLong(40));
            assertEquals(measured.getLong("start_ns"), calls.getLong(0));
            assertEquals(measured.getLong("end_ns"), calls.getLong(24) + calls.getLong(32));
            assertTrue(measured.getLong("loaded_ns") <= measured.getLong("opened_ns"));
            assertTrue(measured.getLong("opened_ns") <= measured.getLong("start_ns"));
            Files.delete(folder.resolve("d/database.mv.db"));
        }
    }

    @Test
    void durable_commits_return_the_same() throws Exception {
        small();
        spec.put("configuration",
                JsonObject.builder().value("synchronous", "full").value("cache_bytes", 1 << 20).done());
        run("load", "go\n");
        assertEquals(expected(), run("measure", "go\n").getString("digest"));
    }

    @Test
    void threads_share_the_operations_and_their_calls_stay_in_order() throws Exception {
        int create = trace.statement("CREATE TABLE t (k int PRIMARY KEY)");
        int insert = trace.statement("INSERT INTO t VALUES (?)");
        trace.load(create);
        for (int n = 0; n < 8; n++) {
            // Thread 0 of 3 has 0, 3 and 6; 20 ms each. Thread 1 has 1, 4 and 7; thread 2 has 2 and 5.
            trace.measure(20_000_000, insert, n);
        }
        run("load", "go\n");
        spec.put("threads", 3);
        spec.put("arrival", "open");
        JsonObject result = run("measure", "go\n");
        assertNull(result.get("digest"));
        ByteBuffer calls = ByteBuffer.wrap(Files.readAllBytes(folder.resolve("calls"))).order(ByteOrder.LITTLE_ENDIAN);
        assertEquals(8 * 24, calls.capacity());
        for (int n = 0; n < 8; n++) {
            assertEquals(calls.getLong(16) + n / 3 * 20_000_000L, calls.getLong(n * 24 + 16), "operation " + n);
        }
        trace = new TraceFile();
        trace.measure(0, trace.statement("SELECT count(*), sum(k) FROM t"));
        spec.put("threads", 1);
        // 8 rows, whose sum is 28.
        ResultDigest digest = new ResultDigest();
        digest.row(2);
        digest.value(8);
        digest.value(28);
        digest.end();
        assertEquals(digest.text(), run("measure", "go\n").getString("digest"));
    }

    @Test
    void a_table_may_be_made_by_a_measured_step() throws Exception {
        int create = trace.statement("CREATE TABLE t (k int)");
        int insert = trace.statement("INSERT INTO t VALUES (?), (?)");
        run("load", "go\n");
        trace.measure(0, create).measure(0, insert, 1, 2);
        ResultDigest digest = new ResultDigest();
        digest.changed(0);
        digest.end();
        digest.changed(2);
        digest.end();
        assertEquals(digest.text(), run("measure", "go\n").getString("digest"));
    }

    @Test
    void transactions_of_a_workload_are_transactions() throws Exception {
        int[] steps = {trace.statement("BEGIN"), trace.statement("INSERT INTO t VALUES (1)"),
            trace.statement("ROLLBACK"), trace.statement("SELECT k FROM t"), trace.statement("COMMIT")};
        int[] order = {0, 1, 2, 3, 0, 1, 4, 3};
        trace.load(trace.statement("CREATE TABLE t (k int)"));
        for (int step : order) {
            trace.measure(0, steps[step]);
        }
        ResultDigest digest = new ResultDigest();
        for (int n = 0; n < order.length; n++) {
            if (n == 7) {
                digest.row(1);
                digest.value(1);
            } else if (n != 3) {
                digest.changed(order[n] == 1 ? 1 : 0);
            }
            digest.end();
        }
        spec.put("configuration", JsonObject.builder().value("synchronous", "full").done());
        run("load", "go\n");
        assertEquals(digest.text(), run("measure", "go\n").getString("digest"));
    }

    @Test
    void a_failed_statement_is_named_with_its_operation() throws Exception {
        int create = trace.statement("CREATE TABLE t (k int PRIMARY KEY)");
        int insert = trace.statement("INSERT INTO t VALUES (?)");
        trace.load(create).measure(0, insert, 1).measure(0, insert, 1);
        run("load", "go\n");
        String twice = failure("measure", "go\n");
        assertTrue(twice.startsWith("operation 1 failed: `INSERT INTO t VALUES (?)`: Unique index"), twice);
        assertEquals("ready\n", said);
        String again = failure("load", "go\n");
        assertTrue(again.startsWith("loading step 0 failed: `CREATE TABLE"), again);
        trace = new TraceFile();
        trace.measure(0, trace.statement("PRAGMA foreign_keys"));
        String dialect = failure("measure", "go\n");
        assertTrue(dialect.contains("Syntax error") && dialect.contains("/ H2 has a dialect of its own"), dialect);
        assertFalse(dialect.contains("\n"), dialect);
    }

    @Test
    void opening_includes_preparing_and_not_the_texts_of_statements() throws Exception {
        run("load", "go\n");
        // It takes longer to prepare these than for the answer to `ready`.
        for (int n = 0; n < 2000; n++) {
            trace.measure(0, trace.statement("SELECT " + n + ", ? + ?, ? || ?"), n, 1, "a", "b");
        }
        JsonObject measured = run("measure", "go\n");
        long opening = measured.getLong("opened_ns") - measured.getLong("loaded_ns");
        long ready = measured.getLong("start_ns") - measured.getLong("opened_ns");
        assertTrue(opening > 2 * ready, opening + " " + ready);
        Files.delete(folder.resolve("d/database.mv.db"));
        trace = new TraceFile();
        trace.measure(0, trace.statement("SELECT ?, ?"), 1);
        spec.put("sql", "text");
        JsonObject wrong = run("measure", "go\n");
        String why = wrong.getObject("failure").getString("message");
        assertTrue(why.contains("2 question marks and 1 values"), why);
        assertEquals(0, wrong.getLong("loaded_ns"));
    }

    @Test
    void a_measurement_needs_a_loaded_database() throws Exception {
        String missing = failure("measure", "go\n");
        assertTrue(missing.contains("cannot open the database in"), missing);
        assertTrue(missing.endsWith("/ load the database before measuring on it"), missing);
        assertEquals("", said);
    }

    @Test
    void what_h2_cannot_do_is_refused_before_it_is_ready() throws Exception {
        trace.image = new byte[] {1};
        assertTrue(failure("load", "go\n").contains("database file of SQLite / h2 cannot read it"));
        trace = new TraceFile();
        spec.put("configuration", JsonObject.builder().value("journal_mode", "wal").done());
        assertTrue(failure("load", "go\n").startsWith("h2 has no journal_mode"));
        spec.put("configuration", new JsonObject());
        spec.put("threads", 0);
        assertTrue(failure("load", "go\n").contains("0 threads"));
        spec.put("threads", 1);
        spec.put("arrival", "soon");
        assertTrue(failure("load", "go\n").contains("`arrival` is soon / it is closed or open"));
        spec.put("engine", "redb");
        assertTrue(failure("load", "go\n").contains("for the engine redb"));
        assertEquals("", said);
    }

    @Test
    void a_parent_that_goes_away_ends_the_task() throws Exception {
        assertTrue(failure("load", "").contains("ended before `go`"));
        assertTrue(failure("load", "stop\n").contains("`stop` came instead of `go`"));
    }

    @Test
    void a_task_that_cannot_be_read_is_complained_about() throws Exception {
        Files.writeString(folder.resolve("task.json"), "{\"result\": ");
        assertNull(run("go\n"));
        assertTrue(complained.contains("task.json cannot be read"), complained);
        Files.writeString(folder.resolve("task.json"), "{}");
        assertNull(run("go\n"));
        assertTrue(complained.contains("the task has no text `result`"), complained);
    }
}
