-- The text of operations on databases, for queries: what was executed is in workloads/. New in version 7.
PRAGMA user_version = 7;

CREATE TABLE statement (
    workload TEXT NOT NULL,         -- digest of the prepared workload, as in the plans of cells
    number INTEGER NOT NULL,        -- of the operation, as in `call`
    sql TEXT NOT NULL,              -- with its values, the first 1000 characters; joined steps are parted by "; "
    PRIMARY KEY (workload, number)
) WITHOUT ROWID;
