package pocketstone;

import java.sql.SQLException;
import java.util.HashSet;
import java.util.Set;
import org.h2.jdbc.JdbcException;

/** Why a task failed, in words for a person, and what cures it. */
final class Failure extends Exception {
    private static final long serialVersionUID = 1L;

    /** H2's error code where another process has the database. */
    private static final int ALREADY_OPEN = 90020;
    /** Its code where a database to be opened is not there. */
    private static final int NOT_FOUND = 90146;

    /** The cure; null where none is known. */
    private final String hint;

    Failure(String message) {
        super(message);
        hint = null;
    }

    Failure(String message, String hint) {
        super(message);
        this.hint = hint;
    }

    /** As {@code message: cause: cause of it}, with the cure of a cause that has one. */
    Failure(String message, Throwable cause) {
        super(message + ": " + chain(cause), cause);
        this.hint = cure(cause);
    }

    /** The cure; null where none is known. */
    String hint() {
        return hint;
    }

    /** The cure that is known for {@code problem}; null where none is. */
    static String cure(Throwable problem) {
        if (problem instanceof Failure failure) {
            return failure.hint;
        }
        if (problem instanceof OutOfMemoryError) {
            return "give Java more memory (JAVA_TOOL_OPTIONS=-Xmx2g), or prepare a smaller workload";
        }
        if (!(problem instanceof SQLException sql)) {
            return null;
        }
        String state = sql.getSQLState();
        if (sql.getErrorCode() == ALREADY_OPEN) {
            return "end the other process that has the database open";
        }
        if (sql.getErrorCode() == NOT_FOUND) {
            return "load the database before measuring on it";
        }
        // Class 42: the statement is wrong, in H2's eyes.
        if (state != null && state.startsWith("42")) {
            return "H2 has a dialect of its own: write the statement in standard SQL, or leave the engine h2 out";
        }
        return null;
    }

    /** The messages of {@code problem} and its causes, on one line. */
    static String chain(Throwable problem) {
        if (problem instanceof Failure failure) {
            return failure.getMessage();
        }
        StringBuilder text = new StringBuilder();
        Set<String> said = new HashSet<>();
        for (Throwable cause = problem; cause != null; cause = cause.getCause()) {
            String message = messageOf(cause);
            if (said.add(message)) {
                text.append(text.isEmpty() ? "" : ": ").append(message);
            }
        }
        return text.toString();
    }

    private static String messageOf(Throwable problem) {
        // H2 appends the SQL statement to its messages; who reports it says which one it was.
        String message = problem instanceof JdbcException h2 ? h2.getOriginalMessage() : problem.getMessage();
        String line = message == null ? "" : message.lines().findFirst().orElse("").strip();
        boolean clear = problem instanceof SQLException && !line.isEmpty();
        return clear ? line : problem.getClass().getSimpleName() + (line.isEmpty() ? "" : " (" + line + ")");
    }
}
