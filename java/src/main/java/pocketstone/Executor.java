package pocketstone;

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Types;

/** Executes steps of a workload on one connection. */
final class Executor {
    private final Connection connection;
    private final Trace trace;
    private final StepInputs inputs;
    private final boolean text;
    /** What brings a commit to the device; null where a commit does not wait for it. */
    private final PreparedStatement sync;
    private final Statement statement;
    private final PreparedStatement[] prepared;

    Executor(Connection connection, Trace trace, StepInputs inputs, Task task) throws SQLException {
        this.connection = connection;
        this.trace = trace;
        this.inputs = inputs;
        text = task.text();
        // By itself H2 gives a commit to the kernel and never waits for the device.
        sync = task.configuration().durable() ? connection.prepareStatement("CHECKPOINT SYNC") : null;
        statement = connection.createStatement();
        prepared = new PreparedStatement[trace.statements()];
    }

    /** Prepares a step's statement, where steps are not executed as text. */
    void makeReady(int step) {
        if (text) {
            return;
        }
        try {
            prepare(step);
        } catch (SQLException e) {
            // An earlier step may make what it needs. If none does, executing it says what is wrong.
            prepared[trace.statement(step)] = null;
        }
    }

    private PreparedStatement prepare(int step) throws SQLException {
        int n = trace.statement(step);
        if (prepared[n] == null) {
            prepared[n] = connection.prepareStatement(inputs.statement(step));
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
                boolean returns = statement.execute(inputs.text(step));
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
        for (Object value : inputs.values(step)) {
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
