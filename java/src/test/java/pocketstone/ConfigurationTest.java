package pocketstone;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.grack.nanojson.JsonParser;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;

class ConfigurationTest {
    private static Configuration of(String json) throws Exception {
        return Configuration.of(JsonParser.object().from(json));
    }

    private static Failure refused(String json) {
        return assertThrows(Failure.class, () -> of(json));
    }

    @Test
    void what_is_not_set_stays_as_h2_has_it() throws Exception {
        String address = of("{\"journal_mode\":null,\"cache_bytes\":null}").address(Path.of("/d"), true);
        assertTrue(address.startsWith("jdbc:h2:file:/d/database;"), address);
        assertTrue(address.contains(";IFEXISTS=TRUE"), address);
        assertFalse(address.contains("CACHE_SIZE") || address.contains("WRITE_DELAY"), address);
    }

    @Test
    void cache_and_synchronous_are_put_into_words_of_h2() throws Exception {
        Configuration full = of("{\"cache_bytes\":2097152,\"synchronous\":\"full\"}");
        assertEquals(new Configuration(2048L, true), full);
        String address = full.address(Path.of("/d"), false);
        assertTrue(address.endsWith(";CACHE_SIZE=2048;WRITE_DELAY=0"), address);
        assertFalse(address.contains("IFEXISTS"), address);
        assertEquals(new Configuration(null, true), of("{\"synchronous\":\"extra\"}"));
        assertEquals(new Configuration(null, false), of("{\"synchronous\":\"off\"}"));
        assertEquals(new Configuration(null, false), of("{\"synchronous\":\"normal\"}"));
    }

    @Test
    void settings_that_h2_does_not_have_are_refused_by_name() {
        for (String name : new String[] {"journal_mode", "locking_mode", "page_bytes", "colour"}) {
            Failure failure = refused("{\"" + name + "\":\"wal\"}");
            assertEquals("h2 has no " + name + ", which is set to wal", failure.getMessage());
            assertTrue(failure.hint().contains("leave it out"), failure.hint());
        }
        assertTrue(refused("{\"synchronous\":\"sometimes\"}").getMessage().contains("sometimes"));
        for (String bytes : new String[] {"0", "-1048576", "1048577", "1024", "\"x\"", "9223372036853727232"}) {
            assertTrue(refused("{\"cache_bytes\":" + bytes + "}").getMessage().contains("cache of"), bytes);
        }
    }

    @Test
    void a_directory_that_would_end_the_address_is_refused() {
        Failure failure = assertThrows(Failure.class, () -> of("{}").address(Path.of("/a;INIT=x"), true));
        assertTrue(failure.hint().contains("`;`"), failure.hint());
    }
}
