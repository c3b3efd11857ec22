package pocketstone;

import com.grack.nanojson.JsonObject;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;

/**
 * The engine's process for H2. It is started with the path of a task and talks in lines on its standard input and
 * output; {@code crates/engine/src/database/task.rs} describes both. {@code --version} prints what it is.
 */
public final class Main {
    private final InputStream in;
    private final OutputStream out;
    private final TaskResult result = new TaskResult();

    private Main(InputStream in, OutputStream out, long mainNs) {
        this.in = in;
        this.out = out;
        result.mainNs = mainNs;
    }

    /**
     * Carries out one task.
     *
     * @param arguments the path of task.json, or --version
     */
    public static void main(String[] arguments) {
        // On Linux, HotSpot reads CLOCK_MONOTONIC for it, the clock of every time here and in the other processes.
        long mainNs = System.nanoTime();
        InputStream in = new FileInputStream(FileDescriptor.in);
        OutputStream out = new FileOutputStream(FileDescriptor.out);
        System.exit(run(arguments, in, out, System.err, mainNs));
    }

    /** As {@link #main}, with other streams; returns the exit status. */
    static int run(String[] arguments, InputStream in, OutputStream out, PrintStream complaints, long mainNs) {
        Main process = new Main(in, out, mainNs);
        try {
            if (arguments.length != 1) {
                throw new Failure("one argument is needed: the path of a task, or --version");
            }
            if (arguments[0].equals("--version")) {
                process.say(TaskResult.engine());
                return 0;
            }
            JsonObject task = Task.json(Path.of(arguments[0]));
            return process.answer(task, Task.result(task));
        } catch (Failure e) {
            // There is no result to write it to.
            complaints.println("error: " + e.getMessage());
            return 1;
        }
    }

    private int answer(JsonObject json, Path path) throws Failure {
        Failure failure = null;
        try {
            carryOut(Task.of(json));
        } catch (Failure e) {
            failure = e;
        } catch (RuntimeException | OutOfMemoryError e) {
            failure = new Failure("the task failed", e);
        }
        result.write(path, failure);
        return failure == null ? 0 : 1;
    }

    private void carryOut(Task task) throws Failure {
        Trace trace = Trace.read(task.trace());
        if (trace.hasImage()) {
            throw new Failure("the workload " + task.trace() + " starts from a database file of SQLite",
                    "h2 cannot read it: run this workload on sqlite");
        }
        StepInputs inputs = new StepInputs(trace);
        if (task.load()) {
            load(task, trace, inputs);
        } else {
            measure(task, trace, inputs);
        }
    }

    private void load(Task task, Trace trace, StepInputs inputs) throws Failure {
        result.loadedNs = System.nanoTime();
        try (Database database = new Database(task, trace, inputs)) {
            result.openedNs = System.nanoTime();
            meet();
            result.startNs = System.nanoTime();
            database.load();
        }
        // A database is loaded when it is closed: everything is in its file.
        result.endNs = System.nanoTime();
        say("done");
        awaitEnd();
    }

    private void measure(Task task, Trace trace, StepInputs inputs) throws Failure {
        inputs.makeMeasured(task.text());
        result.loadedNs = System.nanoTime();
        Database database = new Database(task, trace, inputs);
        try (database) {
            database.makeReady();
            result.openedNs = System.nanoTime();
            meet();
            database.measure();
            say("done");
            awaitEnd();
        }
        CallLog.write(task.calls(), database.calls());
        result.digest = database.digest();
        result.rows = database.rows();
        result.startNs = database.startNs();
        result.endNs = database.endNs();
    }

    private void meet() throws Failure {
        say("ready");
        StringBuilder line = new StringBuilder();
        for (int c = read(); c != '\n'; c = read()) {
            if (c < 0) {
                throw new Failure("the input ended before `go`");
            }
            line.append((char) c);
        }
        if (!line.toString().strip().equals("go")) {
            throw new Failure("`" + line + "` came instead of `go`");
        }
    }

    private void awaitEnd() throws Failure {
        while (read() >= 0) {
            // Nothing more is expected.
        }
    }

    private int read() throws Failure {
        try {
            return in.read();
        } catch (IOException e) {
            throw new Failure("the input cannot be read", e);
        }
    }

    private void say(String line) throws Failure {
        try {
            out.write((line + "\n").getBytes(StandardCharsets.US_ASCII));
            out.flush();
        } catch (IOException e) {
            throw new Failure("the output cannot be written", e);
        }
    }
}
