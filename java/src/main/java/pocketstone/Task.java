package pocketstone;

import com.grack.nanojson.JsonObject;
import com.grack.nanojson.JsonParser;
import com.grack.nanojson.JsonParserException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Set;

/**
 * What the process shall do: its file task.json, which {@code crates/engine/src/database/task.rs} describes.
 *
 * @param load whether to make the database; otherwise to execute the measured operations
 * @param directory where the database's files are
 * @param trace the prepared workload
 * @param calls where to write the call log, when measuring
 * @param text whether statements are handed over as text with their values in it, parsed each time
 * @param configuration the engine's settings
 * @param threads threads that share the operations
 * @param busy whether delays are waited for by looking at the clock
 * @param open whether delays count from intended starts instead of ends
 */
record Task(boolean load, Path directory, Path trace, Path calls, boolean text, Configuration configuration,
        int threads, boolean busy, boolean open) {

    private static final int MOST_THREADS = 1024;

    /**
     * The JSON in {@code file}.
     *
     * @throws Failure when it cannot be read
     */
    static JsonObject json(Path file) throws Failure {
        try {
            return JsonParser.object().from(Files.readString(file));
        } catch (IOException | JsonParserException e) {
            throw new Failure("the task " + file + " cannot be read", e);
        }
    }

    /**
     * Where the result goes; asked first, so that any other fault of the task can be told there.
     *
     * @throws Failure when the task does not say it
     */
    static Path result(JsonObject task) throws Failure {
        return Path.of(word(task, "result"));
    }

    /**
     * Takes a task.
     *
     * @throws Failure when something is missing or unknown, or is nothing that H2 can do
     */
    static Task of(JsonObject task) throws Failure {
        JsonObject spec = object(task, "spec");
        String engine = word(spec, "engine");
        if (!engine.equals("h2")) {
            throw new Failure("the task is for the engine " + engine + ", and this is h2");
        }
        int threads = spec.getInt("threads", 0);
        if (threads < 1 || threads > MOST_THREADS) {
            throw new Failure(threads + " threads cannot share the operations", "threads: 1 to " + MOST_THREADS);
        }
        return new Task(choice(task, "work", "measure", "load"), Path.of(word(task, "directory")),
                Path.of(word(task, "trace")), Path.of(word(task, "calls")), choice(spec, "sql", "prepared", "text"),
                Configuration.of(object(spec, "configuration")), threads, choice(spec, "waiting", "sleep", "busy"),
                choice(spec, "arrival", "closed", "open"));
    }

    private static JsonObject object(JsonObject in, String name) throws Failure {
        JsonObject object = in.getObject(name);
        if (object == null) {
            throw new Failure("the task has no object `" + name + "`");
        }
        return object;
    }

    private static String word(JsonObject in, String name) throws Failure {
        String word = in.getString(name);
        if (word == null) {
            throw new Failure("the task has no text `" + name + "`");
        }
        return word;
    }

    /** Whether {@code name} is {@code yes}; it is {@code no} otherwise. */
    private static boolean choice(JsonObject in, String name, String no, String yes) throws Failure {
        String word = word(in, name);
        if (!Set.of(no, yes).contains(word)) {
            throw new Failure("the task's `" + name + "` is " + word, "it is " + no + " or " + yes);
        }
        return word.equals(yes);
    }
}
