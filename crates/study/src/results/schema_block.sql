-- Requests to the board's block device, of traced cells that are on it. New in version 8.
PRAGMA user_version = 8;

CREATE TABLE block_request (
    cell INTEGER NOT NULL REFERENCES cell (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    time_ns INTEGER NOT NULL,       -- when the device got it
    op TEXT NOT NULL,               -- read, write, flush, discard
    sector INTEGER NOT NULL,        -- of 512 bytes; 0 for a flush
    bytes INTEGER NOT NULL,
    pid INTEGER NOT NULL,           -- of the thread that asked for it
    task TEXT NOT NULL,
    call INTEGER,                   -- number of the call, or query, in which it was made; NULL between them
    PRIMARY KEY (cell, number)
) WITHOUT ROWID;
