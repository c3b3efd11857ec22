package pocketstone;

import java.util.Set;
import java.util.stream.IntStream;

/**
 * What H2 is given for each step: its statement in H2's words, and its values, apart or within the text. That of the
 * measured steps is made before the database is opened: none of it is H2's work.
 */
final class StepInputs {
    private final Trace trace;
    private final String[] statements;
    /** By step, of those that are made: the text, or the values. */
    private final String[] texts;
    private final Object[][] values;

    StepInputs(Trace trace) {
        this.trace = trace;
        Set<String> textColumns =
                Sql.texts(IntStream.range(0, trace.statements()).mapToObj(trace::statementText).toList());
        statements = new String[trace.statements()];
        for (int n = 0; n < statements.length; n++) {
            statements[n] = Sql.forH2(trace.statementText(n), textColumns);
        }
        texts = new String[trace.steps()];
        values = new Object[trace.steps()][];
    }

    /**
     * Makes what the measured steps need.
     *
     * @param text whether their values are within their texts
     * @throws Failure when a step has other values than its statement has question marks
     */
    void makeMeasured(boolean text) throws Failure {
        for (int step = trace.loading(); step < trace.steps(); step++) {
            if (text) {
                texts[step] = text(step);
            } else {
                values[step] = values(step);
            }
        }
    }

    /** A step's statement, with a question mark for each value. */
    String statement(int step) {
        return statements[trace.statement(step)];
    }

    /**
     * A step's statement with its values in it.
     *
     * @throws Failure when there are not as many question marks as values
     */
    String text(int step) throws Failure {
        return texts[step] == null ? Sql.withValues(statement(step), trace.values(step)) : texts[step];
    }

    /** A step's values. */
    Object[] values(int step) {
        return values[step] == null ? trace.values(step) : values[step];
    }
}
