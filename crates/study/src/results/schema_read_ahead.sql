-- Reads under other rules of read-ahead. New in version 5.
PRAGMA user_version = 5;

-- A cell's reads on the model of read-ahead, with the setting that the cell was measured with. Nothing here is
-- measured; what pages cost comes from the cells without read-ahead that start from the same state.
CREATE TABLE read_ahead_model (
    name TEXT NOT NULL,             -- the study's [[read_ahead_model]]
    cell INTEGER NOT NULL REFERENCES cell (id) ON DELETE CASCADE,
    rules TEXT NOT NULL,            -- 2.6.37-32bit, 3.12-32bit, 6.1
    page_reads INTEGER NOT NULL,    -- pages of the file read from the medium
    prefetched_pages INTEGER NOT NULL, -- those of them that a call before the first request read
    page_senses REAL,               -- of the chip; NULL where no cell was traced
    total_ns REAL NOT NULL,         -- time in the requests
    page_saving REAL NOT NULL,      -- 1 - pages without read-ahead / pages with it, prefetched ones apart
    time_saving REAL NOT NULL,      -- the same of the time
    PRIMARY KEY (name, cell, rules)
) WITHOUT ROWID;
CREATE INDEX read_ahead_model_cell ON read_ahead_model (cell);
