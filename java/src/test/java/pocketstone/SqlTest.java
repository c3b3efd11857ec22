package pocketstone;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.Test;

class SqlTest {
    @Test
    void values_replace_question_marks_outside_of_quotes_and_comments() throws Failure {
        assertEquals("SELECT '?''?', \"?\" /* ? */ WHERE a = 'it''s?' AND b > -5 AND c = NULL AND d < 15.0187 -- ?",
                Sql.withValues("SELECT '?''?', \"?\" /* ? */ WHERE a = ? AND b > ? AND c = ? AND d < ? -- ?",
                        new Object[] {"it's?", -5L, null, 15.0187}));
        assertEquals("VALUES (CAST('Infinity' AS DOUBLE PRECISION))",
                Sql.withValues("VALUES (?)", new Object[] {Double.POSITIVE_INFINITY}));
    }

    @Test
    void a_literal_stays_apart_from_what_is_beside_it() throws Failure {
        assertEquals("UPDATE t SET x = x- -5 WHERE id = 3",
                Sql.withValues("UPDATE t SET x = x-? WHERE id = ?", new Object[] {-5L, 3L}));
        assertEquals("id=1 AND x<>7", Sql.withValues("id=?AND x<>?", new Object[] {1L, 7L}));
        assertEquals("SELECT 'a' 'b',- -0.5 FROM t",
                Sql.withValues("SELECT?'b',-?FROM t", new Object[] {"a", -0.5}));
        assertEquals("(-5,-5)-(-5)||'a'", Sql.withValues("(?,?)-(?)||?", new Object[] {-5L, -5L, -5L, "a"}));
    }

    @Test
    void a_wrong_number_of_values_is_refused() {
        for (String sql : new String[] {"SELECT 1", "SELECT ?, ?"}) {
            Failure failure = assertThrows(Failure.class, () -> Sql.withValues(sql, new Object[] {1L}));
            assertTrue(failure.getMessage().contains("question marks and 1 values"), failure.getMessage());
        }
    }

    @Test
    void types_of_columns_are_put_into_words_of_h2() {
        assertEquals("create table T(key BIGINT, text VARCHAR not null, a DOUBLE PRECISION, b decimal(9, 4),"
                        + " c varchar(60), \"real\"\"\" DOUBLE PRECISION, PRIMARY KEY (key, text))",
                Sql.forH2("create table T(key int, text TEXT not null, a decimal, b decimal(9, 4),"
                        + " c varchar(60), \"real\"\"\" real, PRIMARY KEY (key, text))", Set.of()));
        assertEquals("CREATE TABLE t (k BIGINT PRIMARY KEY, v VARBINARY DEFAULT (int), w VARCHAR)",
                Sql.forH2("CREATE TABLE t (k INTEGER PRIMARY KEY, v BLOB DEFAULT (int), w text)", Set.of()));
    }

    @Test
    void other_statements_stay_as_they_are() {
        for (String sql : new String[] {"SELECT text, int FROM real", "CREATE INDEX i ON t(a int)", ""}) {
            assertEquals(sql, Sql.forH2(sql, Set.of("S")));
        }
    }

    @Test
    void texts_that_are_calculated_with_are_cast_to_the_number_that_they_begin_with() {
        List<String> made = List.of("CREATE TABLE t (k int, s varchar(60), \"u\" TEXT, d decimal(9, 4))", "SELECT varchar");
        Set<String> texts = Sql.texts(made);
        assertEquals(Set.of("S", "\"U\""), texts);
        String cast = "CASE WHEN s IS NULL THEN NULL ELSE COALESCE(CAST(REGEXP_SUBSTR(s, '^\\s*[-+]?[0-9]+') AS BIGINT), 0) END";
        assertEquals("UPDATE t SET s = " + cast + " + 5 /* + s */, k=2*" + cast + " WHERE s = 's + 1'",
                Sql.forH2("UPDATE t SET s = s + 5 /* + s */, k=2*s WHERE s = 's + 1'", texts));
        for (String sql : new String[] {"SELECT s, k + 1 FROM t", "SELECT * FROM t ORDER BY s", "SELECT s || s FROM t"}) {
            assertEquals(sql, Sql.forH2(sql, texts));
        }
    }
}
