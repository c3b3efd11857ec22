package pocketstone;

import com.grack.nanojson.JsonObject;
import java.nio.file.Path;
import java.util.Map;

/**
 * The settings that a study makes, in H2's words.
 *
 * @param cacheKib size of the page cache in KiB; null leaves H2's default
 * @param durable whether each commit is on the device when it returns
 */
record Configuration(Long cacheKib, boolean durable) {
    /** Where the database is, in its folder; H2 adds `.mv.db`. */
    private static final String NAME = "database";

    /**
     * Takes a configuration.
     *
     * @throws Failure when it sets something that H2 does not have
     */
    static Configuration of(JsonObject configuration) throws Failure {
        Long cacheKib = null;
        boolean durable = false;
        for (Map.Entry<String, Object> setting : configuration.entrySet()) {
            if (setting.getValue() == null) {
                continue;
            }
            switch (setting.getKey()) {
                case "cache_bytes" -> cacheKib = cacheKib(setting.getValue());
                case "synchronous" -> durable = isDurable(setting.getValue());
                default -> throw new Failure("h2 has no " + setting.getKey() + ", which is set to "
                        + setting.getValue(), "leave it out for h2; h2 has cache_bytes and synchronous");
            }
        }
        return new Configuration(cacheKib, durable);
    }

    /** H2 counts its cache in whole MiB, whatever unit the setting is in. */
    private static long cacheKib(Object bytes) throws Failure {
        long mib = bytes instanceof Number number ? number.longValue() >> 20 : 0;
        if (mib < 1 || mib > Integer.MAX_VALUE >> 10 || ((Number) bytes).longValue() != mib << 20) {
            throw new Failure("h2 cannot have a cache of " + bytes + " bytes",
                    "h2's cache is a whole number of MiB, 1 or more");
        }
        return mib << 10;
    }

    private static boolean isDurable(Object word) throws Failure {
        return switch (word.toString()) {
            case "off", "normal" -> false;
            case "full", "extra" -> true;
            default -> throw new Failure("h2 does not know synchronous = " + word, "off, normal, full or extra");
        };
    }

    /**
     * The address of the database in {@code directory}.
     *
     * @param mustExist whether to fail, instead of making one, where there is none
     * @throws Failure when no address can say that directory
     */
    String address(Path directory, boolean mustExist) throws Failure {
        String path = directory.toAbsolutePath().resolve(NAME).toString();
        if (path.contains(";")) {
            throw new Failure("h2 cannot open a database in " + path, "use a directory without `;` in its name");
        }
        StringBuilder address = new StringBuilder("jdbc:h2:file:").append(path);
        // Words that SQLite takes as names, and names in any case, quoted or not.
        address.append(";NON_KEYWORDS=KEY,VALUE,USER,YEAR,MONTH,DAY,HOUR,MINUTE,SECOND");
        address.append(";CASE_INSENSITIVE_IDENTIFIERS=TRUE");
        // Nothing but the database in its folder; and what loading wrote stays as it was written.
        address.append(";TRACE_LEVEL_FILE=0;MAX_COMPACT_TIME=0");
        if (mustExist) {
            address.append(";IFEXISTS=TRUE");
        }
        if (cacheKib != null) {
            address.append(";CACHE_SIZE=").append(cacheKib);
        }
        if (durable) {
            address.append(";WRITE_DELAY=0");
        }
        return address.toString();
    }
}
