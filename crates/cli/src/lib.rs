//! The pocketstone command.
