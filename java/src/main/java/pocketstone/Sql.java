package pocketstone;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;

/** SQL text: values written into it, and the types that H2 understands otherwise than SQLite. */
final class Sql {
    /**
     * What SQLite stores for a type, in H2's words. SQLite's integers have 64 bits, its reals are doubles, its text has
     * no limit. H2's own INTEGER has 32 bits, REAL 32 bits, DECIMAL no digits after the point, and TEXT and BLOB are
     * large objects that cannot be keys.
     */
    private static final Map<String, String> TYPES = Map.ofEntries(
            Map.entry("INT", "BIGINT"),
            Map.entry("INTEGER", "BIGINT"),
            Map.entry("REAL", "DOUBLE PRECISION"),
            Map.entry("NUMERIC", "DOUBLE PRECISION"),
            Map.entry("DECIMAL", "DOUBLE PRECISION"),
            Map.entry("DEC", "DOUBLE PRECISION"),
            Map.entry("TEXT", "VARCHAR"),
            Map.entry("BLOB", "VARBINARY"));

    /** What starts a constraint of a table, where a column's name would be. */
    private static final Set<String> CONSTRAINTS = Set.of("CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN");

    /** What calculates with the values beside it. */
    private static final Set<String> OPERATORS = Set.of("+", "-", "*", "/", "%");

    private Sql() {
    }

    /**
     * {@code sql} with each question mark replaced by a value: null, Long, Double or String. A literal that would be
     * read as one word with its neighbour is parted from it by a blank: {@code x-?} with -5 would begin a comment.
     *
     * @throws Failure when there are not as many question marks as values
     */
    static String withValues(String sql, Object[] values) throws Failure {
        StringBuilder text = new StringBuilder(sql.length() + 16 * values.length);
        int used = 0;
        boolean behindLiteral = false;
        for (int at = 0; at < sql.length(); ) {
            int end = tokenEnd(sql, at);
            boolean mark = sql.charAt(at) == '?';
            boolean apart = mark ? endsJoining(text) : behindLiteral && startsJoining(sql.charAt(at));
            text.append(apart ? " " : "");
            if (!mark) {
                text.append(sql, at, end);
            } else if (used++ < values.length) {
                text.append(literal(values[used - 1]));
            }
            behindLiteral = mark;
            at = end;
        }
        if (used != values.length) {
            throw new Failure("`" + sql + "` has " + used + " question marks and " + values.length + " values",
                    "prepare the workload again");
        }
        return text.toString();
    }

    /** Whether a literal behind {@code text} could become one token with its end. */
    private static boolean endsJoining(CharSequence text) {
        char last = text.isEmpty() ? ' ' : text.charAt(text.length() - 1);
        return isName(last) || last == '-' || last == '\'';
    }

    /** Whether a token that starts like this could become one with a literal before it. */
    private static boolean startsJoining(char first) {
        return isName(first) || first == '\'';
    }

    /** A value as SQL text that H2 reads back as the same value. */
    private static String literal(Object value) {
        if (value == null) {
            return "NULL";
        }
        if (value instanceof String text) {
            return "'" + text.replace("'", "''") + "'";
        }
        // Java's text of a double is read back as that double; the others have no literal.
        boolean named = value instanceof Double number && !Double.isFinite(number);
        return named ? "CAST('" + value + "' AS DOUBLE PRECISION)" : value.toString();
    }

    /**
     * {@code sql}; if it creates a table, with the types of its columns in H2's words (see the table above), else with a
     * cast of each of {@code texts}, names of columns of text in upper case, that is calculated with.
     *
     * <p>SQLite takes the number that a text begins with, or 0; H2 refuses a text that is no number. The cast takes the
     * whole number that a text begins with, or 0, as H2's expressions have one type.
     */
    static String forH2(String sql, Set<String> texts) {
        return makesTable(sql) ? withTypes(sql) : withCasts(sql, texts);
    }

    /** The names in upper case of the columns of text that statements make. */
    static Set<String> texts(Iterable<String> statements) {
        Set<String> texts = new HashSet<>();
        for (String sql : statements) {
            if (makesTable(sql)) {
                List<String> tokens = tokens(sql);
                for (int n = 1; n < tokens.size(); n++) {
                    String type = tokens.get(n).toUpperCase(Locale.ROOT);
                    boolean first = "(,".contains(n < 2 ? " " : tokens.get(n - 2));
                    if (first && (type.contains("CHAR") || type.contains("CLOB") || type.contains("TEXT"))) {
                        texts.add(tokens.get(n - 1).toUpperCase(Locale.ROOT));
                    }
                }
            }
        }
        return texts;
    }

    private static boolean makesTable(String sql) {
        return sql.strip().toUpperCase(Locale.ROOT).matches("(?s)CREATE\\s+TABLE\\b.*");
    }

    /** The tokens but spaces and comments. */
    private static List<String> tokens(String sql) {
        List<String> tokens = new ArrayList<>();
        for (int at = 0; at < sql.length(); at = tokenEnd(sql, at)) {
            String token = sql.substring(at, tokenEnd(sql, at));
            if (!token.isBlank() && !token.startsWith("--") && !token.startsWith("/*")) {
                tokens.add(token);
            }
        }
        return tokens;
    }

    private static String withCasts(String sql, Set<String> texts) {
        List<String> tokens = texts.isEmpty() ? List.of() : tokens(sql);
        if (tokens.stream().noneMatch(token -> texts.contains(token.toUpperCase(Locale.ROOT)))) {
            return sql;
        }
        StringBuilder text = new StringBuilder(sql.length() + 128);
        int n = 0;
        for (int at = 0; at < sql.length(); ) {
            int end = tokenEnd(sql, at);
            String token = sql.substring(at, end);
            if (n < tokens.size() && token.equals(tokens.get(n))) {
                String before = n == 0 ? "" : tokens.get(n - 1);
                String behind = n + 1 == tokens.size() ? "" : tokens.get(n + 1);
                boolean calculated = OPERATORS.contains(before) || OPERATORS.contains(behind);
                if (calculated && texts.contains(token.toUpperCase(Locale.ROOT))) {
                    token = "CASE WHEN " + token + " IS NULL THEN NULL ELSE COALESCE(CAST(REGEXP_SUBSTR(" + token
                            + ", '^\\s*[-+]?[0-9]+') AS BIGINT), 0) END";
                }
                n++;
            }
            text.append(token);
            at = end;
        }
        return text.toString();
    }

    private static String withTypes(String sql) {
        StringBuilder text = new StringBuilder(sql.length() + 32);
        int depth = 0;
        // Words of the column's definition so far: its name, its type, the rest.
        int words = 0;
        for (int at = 0; at < sql.length(); ) {
            int end = tokenEnd(sql, at);
            String token = sql.substring(at, end);
            String upper = token.toUpperCase(Locale.ROOT);
            switch (token.charAt(0)) {
                case '(' -> words = ++depth == 1 ? 0 : words;
                case ')' -> depth--;
                case ',' -> words = depth == 1 ? 0 : words;
                default -> {
                    boolean word = isName(token.charAt(0)) || "\"`".indexOf(token.charAt(0)) >= 0;
                    if (depth == 1 && word) {
                        boolean constraint = words == 0 && CONSTRAINTS.contains(upper);
                        boolean sized = sql.substring(end).stripLeading().startsWith("(");
                        token = words == 1 && !sized ? TYPES.getOrDefault(upper, token) : token;
                        words += constraint ? 2 : 1;
                    }
                }
            }
            text.append(token);
            at = end;
        }
        return text.toString();
    }

    private static boolean isName(char c) {
        return Character.isLetterOrDigit(c) || c == '_' || c == '$';
    }

    /** Where the token that starts at {@code at} ends: a word, something quoted, a comment or one character. */
    private static int tokenEnd(String sql, int at) {
        char first = sql.charAt(at);
        if (first == '\'' || first == '"' || first == '`') {
            int end = behind(sql, String.valueOf(first), at + 1);
            // A doubled quote is part of what is quoted.
            while (end < sql.length() && sql.charAt(end) == first) {
                end = behind(sql, String.valueOf(first), end + 1);
            }
            return end;
        }
        if (sql.startsWith("--", at)) {
            return behind(sql, "\n", at);
        }
        if (sql.startsWith("/*", at)) {
            return behind(sql, "*/", at + 2);
        }
        int end = at + 1;
        while (isName(first) && end < sql.length() && isName(sql.charAt(end))) {
            end++;
        }
        return end;
    }

    /** The place behind the next {@code what}, or the end. */
    private static int behind(String sql, String what, int from) {
        int at = sql.indexOf(what, from);
        return at < 0 ? sql.length() : at + what.length();
    }
}
