package pocketstone;

import java.sql.Connection;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicBoolean;
import org.h2.Driver;

/** An H2 database that is open, embedded in this process, with a connection for each thread. */
final class Database implements AutoCloseable {
    private final Task task;
    private final Trace trace;
    private final StepInputs inputs;
    private final List<Connection> connections = new ArrayList<>();
    private final List<Worker> workers = new ArrayList<>();

    /**
     * Opens the database; makes it if the task is to load it.
     *
     * @throws Failure when that fails
     */
    Database(Task task, Trace trace, StepInputs inputs) throws Failure {
        this.task = task;
        this.trace = trace;
        this.inputs = inputs;
        Properties user = new Properties();
        user.setProperty("user", "sa");
        user.setProperty("password", "");
        String address = task.configuration().address(task.directory(), !task.load());
        try {
            for (int n = 0; n < (task.load() ? 1 : task.threads()); n++) {
                connections.add(new Driver().connect(address, user));
            }
        } catch (SQLException e) {
            throw new Failure("h2 cannot open the database in " + task.directory(), e);
        }
    }

    /**
     * Executes the loading steps in one transaction; a statement that makes a table commits what came before it.
     *
     * @throws Failure with the step that failed
     */
    void load() throws Failure {
        Connection connection = connections.get(0);
        int step = 0;
        try {
            connection.setAutoCommit(false);
            Executor executor = new Executor(connection, trace, inputs, task);
            ResultDigest unused = new ResultDigest();
            for (; step < trace.loading(); step++) {
                executor.execute(step, unused);
            }
            connection.commit();
        } catch (SQLException | Failure e) {
            throw new Failure("loading step " + step + " failed", e);
        }
    }

    /**
     * Prepares everything that can be prepared before the clock starts.
     *
     * @throws Failure when that fails
     */
    void makeReady() throws Failure {
        int[] operations = trace.operations();
        AtomicBoolean stop = new AtomicBoolean();
        try {
            for (int n = 0; n < task.threads(); n++) {
                Executor executor = new Executor(connections.get(n), trace, inputs, task);
                workers.add(new Worker(executor, trace, operations, n, task, stop));
            }
        } catch (SQLException e) {
            throw new Failure("the statements cannot be prepared", e);
        }
    }

    /**
     * Executes the measured operations; the first thread is the calling one.
     *
     * @throws Failure of the first operation that failed
     */
    void measure() throws Failure {
        long start = System.nanoTime();
        workers.forEach(worker -> worker.startAt(start));
        List<Thread> others = workers.stream().skip(1).map(Thread::new).toList();
        others.forEach(Thread::start);
        workers.get(0).run();
        for (Thread other : others) {
            try {
                other.join();
            } catch (InterruptedException e) {
                throw new Failure("a thread was interrupted", e);
            }
        }
        for (Worker worker : workers) {
            if (worker.failure() != null) {
                throw worker.failure();
            }
        }
    }

    /** The digest of all results; null with several threads, whose results depend on who came first. */
    String digest() {
        return workers.size() == 1 ? workers.get(0).digest().text() : null;
    }

    /** Rows returned. */
    long rows() {
        return workers.stream().mapToLong(worker -> worker.digest().rows()).sum();
    }

    /** The calls of each thread. */
    List<long[]> calls() {
        return workers.stream().map(Worker::calls).toList();
    }

    /** Start of the first operation. */
    long startNs() {
        return workers.stream().mapToLong(Worker::firstStart).min().orElseThrow();
    }

    /** End of the last operation. */
    long endNs() {
        return workers.stream().mapToLong(Worker::lastEnd).max().orElseThrow();
    }

    /** Closes the connections; H2 closes its file with the last one. */
    @Override
    public void close() throws Failure {
        for (Connection connection : connections) {
            try {
                connection.close();
            } catch (SQLException e) {
                throw new Failure("h2 cannot close the database in " + task.directory(), e);
            }
        }
    }
}
