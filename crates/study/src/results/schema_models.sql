-- What models give of a run's cells. New in version 4.
PRAGMA user_version = 4;

-- Replays: a cell's run, or that of a phone's log, on a model of a device. Nothing below is measured.
CREATE TABLE replay (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,             -- the study's [[replay]]
    cell INTEGER REFERENCES cell (id) ON DELETE CASCADE,
    device TEXT NOT NULL,
    governor TEXT NOT NULL,         -- bound: the offline optimum
    cluster TEXT NOT NULL,
    delay TEXT NOT NULL,
    cores NUMERIC NOT NULL,
    waiting TEXT NOT NULL,
    batch INTEGER NOT NULL,
    storage TEXT NOT NULL,
    memory_share NUMERIC NOT NULL,
    power_scale NUMERIC NOT NULL,
    cycles_scale REAL NOT NULL,     -- what a calibration multiplies cycles by
    seed INTEGER NOT NULL,
    source TEXT NOT NULL,           -- events, calls or log: what the activity was taken from
    profile TEXT NOT NULL,          -- SHA-256 of the device's profile
    input TEXT NOT NULL UNIQUE,     -- SHA-256 of everything that goes into it
    digest TEXT NOT NULL,           -- SHA-256 of everything that comes out of it
    recorded TEXT                   -- JSON object of what a log is of, where there is no cell
);
CREATE INDEX replay_cell ON replay (cell);

CREATE TABLE replay_metric (
    replay INTEGER NOT NULL REFERENCES replay (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    value REAL NOT NULL,
    PRIMARY KEY (replay, name)
) WITHOUT ROWID;

-- The offline optimum: least energy by mean latency.
CREATE TABLE replay_front (
    replay INTEGER NOT NULL REFERENCES replay (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    mean_latency_ns REAL NOT NULL,
    energy_mj REAL NOT NULL,
    PRIMARY KEY (replay, number)
) WITHOUT ROWID;

-- The model held against published tables: what it predicts of rows that it is not calibrated with.
CREATE TABLE validation (
    name TEXT NOT NULL,             -- the study's [[validation]]
    row TEXT NOT NULL,              -- the row, in words
    quantity TEXT NOT NULL,         -- what is predicted, with its unit last
    predicted REAL NOT NULL,        -- by the model
    measured REAL NOT NULL,         -- as published
    error REAL NOT NULL,            -- predicted / measured - 1
    PRIMARY KEY (name, row, quantity)
);
