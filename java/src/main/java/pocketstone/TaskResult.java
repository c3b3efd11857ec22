package pocketstone;

import com.grack.nanojson.JsonStringWriter;
import com.grack.nanojson.JsonWriter;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** What the process answers: its file result.json. All times are CLOCK_MONOTONIC in ns. */
final class TaskResult {
    /** 16 hexadecimal digits; null with several threads, and where nothing was measured. */
    String digest;
    /** Rows that the operations returned. */
    long rows;
    /** When main began. */
    long mainNs;
    /** When the workload was in memory. */
    long loadedNs;
    /** When the database was open; statements are prepared behind that, before the process is ready. */
    long openedNs;
    /** Start of the first operation. */
    long startNs;
    /** End of the last operation. */
    long endNs;

    /** H2, Java and their versions. */
    static String engine() {
        String machine = System.getProperty("java.vm.name").split(" ")[0];
        return "H2 " + org.h2.engine.Constants.VERSION + " on " + machine + " " + System.getProperty("java.version");
    }

    /**
     * Writes it.
     *
     * @param failure why the task failed; null if it did not
     * @throws Failure when the file cannot be written
     */
    void write(Path path, Failure failure) throws Failure {
        JsonStringWriter json = JsonWriter.string().object().value("digest", digest).value("engine", engine())
                .value("rows", rows).value("main_ns", mainNs).value("loaded_ns", loadedNs)
                .value("opened_ns", openedNs).value("start_ns", startNs).value("end_ns", endNs);
        if (failure != null) {
            json.object("failure").value("message", failure.getMessage()).value("hint", failure.hint()).end();
        }
        try {
            Files.writeString(path, json.end().done());
        } catch (IOException e) {
            throw new Failure("the result " + path + " cannot be written", e);
        }
    }
}
