-- Results of one run. docs/results.md describes every table; this file is what makes them.

-- Facts of the run: study (its text), command, git.revision, board.*, host.*, ...
CREATE TABLE run (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

-- One row per cell that ran: a point of the study's matrix, a seed, and whether it was traced.
CREATE TABLE cell (
    id INTEGER PRIMARY KEY,
    experiment TEXT NOT NULL,
    point TEXT NOT NULL,            -- JSON object of its factors
    repetition INTEGER NOT NULL,
    seed INTEGER NOT NULL,
    traced INTEGER NOT NULL,        -- 1: a traced twin, whose latencies are not used
    status TEXT NOT NULL CHECK (status IN ('done', 'failed', 'lost')),
    plan TEXT NOT NULL,             -- JSON, what the board was told
    outcome TEXT,                   -- JSON, what the board answered
    digest TEXT,                    -- SHA-256 of the logs of calls, flash operations and kernel events
    host_ms REAL NOT NULL,          -- wall-clock time that the cell cost
    message TEXT, hint TEXT, console TEXT,
    UNIQUE (experiment, point, seed, traced)
);

CREATE TABLE call (
    cell INTEGER NOT NULL REFERENCES cell (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    start_ns INTEGER NOT NULL,
    latency_ns INTEGER NOT NULL,    -- until it returned
    intended_ns INTEGER NOT NULL,   -- when it was to start
    PRIMARY KEY (cell, number)
) WITHOUT ROWID;

-- What the kernel did in a traced twin with a database: docs/tracing.md has the form.
CREATE TABLE event_log (
    cell INTEGER PRIMARY KEY REFERENCES cell (id) ON DELETE CASCADE,
    bytes BLOB NOT NULL
);

-- What each operation of a traced twin with a database cost, by the kernel's events.
CREATE TABLE operation_cost (
    cell INTEGER NOT NULL REFERENCES cell (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    on_core_ns INTEGER, off_core_ns INTEGER, waiting_ns INTEGER, sleeping_ns INTEGER, blocked_ns INTEGER,
    switches INTEGER, wakeups INTEGER, frequency_changes INTEGER, idle_entries INTEGER,
    reads INTEGER, read_bytes INTEGER, read_ns INTEGER,
    writes INTEGER, written_bytes INTEGER, write_ns INTEGER, syncs INTEGER, sync_ns INTEGER,
    cache_misses INTEGER, block_reads INTEGER, block_writes INTEGER, block_ns INTEGER,
    PRIMARY KEY (cell, number)
) WITHOUT ROWID;

-- The same by file; the file is NULL for those whose name is not known.
CREATE TABLE file_cost (
    cell INTEGER NOT NULL REFERENCES cell (id) ON DELETE CASCADE,
    file TEXT,
    role TEXT,                      -- journal, wal, shared-memory, other
    reads INTEGER NOT NULL, read_bytes INTEGER NOT NULL, read_ns INTEGER NOT NULL,
    writes INTEGER NOT NULL, written_bytes INTEGER NOT NULL, write_ns INTEGER NOT NULL,
    syncs INTEGER NOT NULL, sync_ns INTEGER NOT NULL,
    cache_misses INTEGER            -- NULL where they could not be recorded
);
CREATE INDEX file_cost_cell ON file_cost (cell);

CREATE TABLE flash_op (
    cell INTEGER NOT NULL REFERENCES cell (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    time_ns INTEGER NOT NULL,
    kind TEXT NOT NULL,             -- sense, program, erase, read (a request to MTD), column_change
    page INTEGER NOT NULL,
    pages INTEGER NOT NULL,
    pid INTEGER NOT NULL,
    task TEXT NOT NULL,
    PRIMARY KEY (cell, number)
) WITHOUT ROWID;

CREATE TABLE metric (
    cell INTEGER NOT NULL REFERENCES cell (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    value REAL NOT NULL,
    PRIMARY KEY (cell, name)
) WITHOUT ROWID;

-- What the run could not have, why, and what cures it.
CREATE TABLE left_out (
    what TEXT NOT NULL,
    why TEXT NOT NULL,
    cure TEXT NOT NULL,
    PRIMARY KEY (what, why)
) WITHOUT ROWID;
