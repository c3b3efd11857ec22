-- What follows from the rest, and is computed again whenever that changes. New in version 6.
PRAGMA user_version = 6;

-- What each metric is; docs/results.md says more.
CREATE TABLE metric_definition (
    name TEXT PRIMARY KEY,
    unit TEXT NOT NULL,
    better TEXT NOT NULL CHECK (better IN ('less', 'more', 'neither')),
    source TEXT NOT NULL,           -- calls, process, meter, flash, events, ...
    origin TEXT NOT NULL CHECK (origin IN ('measured', 'modelled')),
    label TEXT NOT NULL
) WITHOUT ROWID;

-- Over the seeds of a point: the median, the mean, and two ends that depend on the number of values. From 5 on they are an
-- interval of the median by order statistics, of the coverage that is said, at least 0.9. Of fewer they are the smallest and
-- the largest value, and the coverage is NULL.
CREATE TABLE statistic (
    experiment TEXT NOT NULL,
    point TEXT NOT NULL,
    metric TEXT NOT NULL,
    n INTEGER NOT NULL,
    median REAL NOT NULL,
    mean REAL NOT NULL,
    low REAL NOT NULL,
    high REAL NOT NULL,
    coverage REAL,
    PRIMARY KEY (experiment, point, metric)
) WITHOUT ROWID;

-- By how much the candidate of the factor that an experiment compares is better than the baseline, as a fraction of the
-- baseline and paired by seed; below 0 it is worse. Metrics of which neither direction is better have no row.
CREATE TABLE comparison (
    experiment TEXT NOT NULL,
    point TEXT NOT NULL,            -- JSON object of the other factors
    metric TEXT NOT NULL,
    n INTEGER NOT NULL,
    median REAL NOT NULL,
    mean REAL NOT NULL,
    low REAL NOT NULL,
    high REAL NOT NULL,
    coverage REAL,
    PRIMARY KEY (experiment, point, metric)
) WITHOUT ROWID;

-- Over the cells of a point, as `statistic`. Nothing here is measured.
CREATE TABLE replay_statistic (
    name TEXT NOT NULL,
    experiment TEXT NOT NULL,
    point TEXT NOT NULL,
    device TEXT NOT NULL,
    governor TEXT NOT NULL,
    cluster TEXT NOT NULL,
    delay TEXT NOT NULL,
    cores NUMERIC NOT NULL,
    waiting TEXT NOT NULL,
    batch INTEGER NOT NULL,
    storage TEXT NOT NULL,
    memory_share NUMERIC NOT NULL,
    power_scale NUMERIC NOT NULL,
    metric TEXT NOT NULL,
    n INTEGER NOT NULL,
    median REAL NOT NULL,
    mean REAL NOT NULL,
    low REAL NOT NULL,
    high REAL NOT NULL,
    coverage REAL
);
CREATE INDEX replay_statistic_metric ON replay_statistic (name, metric);
