//! The static binary that runs one plan on a board.
