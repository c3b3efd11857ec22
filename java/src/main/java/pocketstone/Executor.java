package pocketstone;

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Types;
import java.util.Set;
import java.util.stream.IntStream;

/** Executes steps of a workload on one connection. */
final class Executor {
    private final Connection connection;
    private final Trace trace;
    private final boolean text;
    /** What brings a commit to the device; null where a commit does not wait for it. */
    private final PreparedStatement sync;
    private final Statement statement;
    private final PreparedStatement[] prepared;
    /** By step, of those that were made ready: the text, or the values. */
    private final String[] texts;
    private final Object[][] values;
    /** Names in upper case of the columns of text that the workload makes. */
    private final Set<String> textColumns;

    Executor(Connection connection, Trace trace, Task task) throws SQLException {
        this.connection = connection;
        this.trace = trace;
        text = task.text();
        // By itself H2 gives a commit to the kernel and never waits for the device.
        sync = task.configuration().durable() ? connection.prepareStatement("CHECKPOINT SYNC") : null;
        statement = connection.createStatement();
        prepared = new PreparedStatement[trace.statements()];
        texts = new String[trace.steps()];
        values = new Object[trace.steps()][];
        textColumns = Sql.texts(IntStream.range(0, trace.statements()).mapToObj(trace::statementText).toList());
    }

    /** Does ahead of time what can be done without executing the step: its text or its values, its statement. */
    void makeReady(int step) throws Failure {
        if (text) {
            texts[step] = sql(step);
            return;
        }
        values[step] = trace.values(step);
        try {
            prepare(step);
        } catch (SQLException e) {
            // An earlier step may make what it needs. If none does, executing it says what is wrong.
            prepared[trace.statement(step)] = null;
        }
    }

    private String sql(int step) throws Failure {
        return Sql.withValues(Sql.forH2(trace.statementText(trace.statement(step)), textColumns), trace.values(step));
    }

    private PreparedStatement prepare(int step) throws SQLException {
        int n = trace.statement(step);
        if (prepared[n] == null) {
            prepared[n] = connection.prepareStatement(Sql.forH2(trace.statementText(n), textColumns));
        }
        return prepared[n];
    }

    /**
     * Executes a step, reads everything that it returns and adds it to {@code digest}.
     *
     * @throws Failure when H2 refuses it; the message has the statement
     */
    void execute(int step, ResultDigest digest) throws Failure {
        try {
            if (text) {
                boolean returns = statement.execute(texts[step] == null ? sql(step) : texts[step]);
                take(statement, returns, digest);
            } else {
                PreparedStatement one = prepare(step);
                bind(one, step);
                take(one, one.execute(), digest);
            }
        } catch (SQLException | Failure e) {
            String sql = trace.statementText(trace.statement(step));
            throw new Failure("`" + (sql.length() > 200 ? sql.substring(0, 200) + "..." : sql) + "`", e);
        }
    }

    private void bind(PreparedStatement one, int step) throws SQLException {
        int place = 0;
        for (Object value : values[step] == null ? trace.values(step) : values[step]) {
            place++;
            if (value instanceof Long n) {
                one.setLong(place, n);
            } else if (value instanceof String s) {
                one.setString(place, s);
            } else if (value instanceof Double x) {
                one.setDouble(place, x);
            } else {
                one.setNull(place, Types.NULL);
            }
        }
    }

    private void take(Statement done, boolean returnsRows, ResultDigest digest) throws SQLException, Failure {
        if (returnsRows) {
            try (ResultSet rows = done.getResultSet()) {
                int columns = rows.getMetaData().getColumnCount();
                while (rows.next()) {
                    digest.row(columns);
                    for (int column = 1; column <= columns; column++) {
                        digest.value(rows.getObject(column));
                    }
                }
            }
        } else {
            // 0 for what changes no rows, such as CREATE TABLE.
            digest.changed(done.getLargeUpdateCount());
            if (sync != null && connection.getAutoCommit()) {
                sync.execute();
            }
        }
        digest.end();
    }
}
