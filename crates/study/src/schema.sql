-- Results of one run. docs/results.md describes every table; this file is what makes them.
PRAGMA user_version = 2;

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
    status TEXT NOT NULL CHECK (status IN ('done', 'failed')),
    plan TEXT NOT NULL,             -- JSON, what the board was told
    outcome TEXT,                   -- JSON, what the board answered
    digest TEXT,                    -- SHA-256 of the logs of calls and flash operations
    host_ms REAL NOT NULL,          -- wall-clock time that the cell cost
    message TEXT, hint TEXT, console TEXT,
    UNIQUE (experiment, point, seed, traced)
);

CREATE TABLE call (
    cell INTEGER NOT NULL REFERENCES cell (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    start_ns INTEGER NOT NULL,
    latency_ns INTEGER NOT NULL,
    PRIMARY KEY (cell, number)
) WITHOUT ROWID;

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

-- Over the seeds of a point: median, mean, and the 90% bootstrap interval of the median.
CREATE TABLE statistic (
    experiment TEXT NOT NULL,
    point TEXT NOT NULL,
    metric TEXT NOT NULL,
    n INTEGER NOT NULL,
    median REAL NOT NULL,
    mean REAL NOT NULL,
    low REAL NOT NULL,
    high REAL NOT NULL,
    PRIMARY KEY (experiment, point, metric)
) WITHOUT ROWID;

-- 1 - candidate / baseline of the factor that an experiment compares, paired by seed.
CREATE TABLE comparison (
    experiment TEXT NOT NULL,
    point TEXT NOT NULL,            -- JSON object of the other factors
    metric TEXT NOT NULL,
    n INTEGER NOT NULL,
    median REAL NOT NULL,
    mean REAL NOT NULL,
    low REAL NOT NULL,
    high REAL NOT NULL,
    PRIMARY KEY (experiment, point, metric)
) WITHOUT ROWID;
