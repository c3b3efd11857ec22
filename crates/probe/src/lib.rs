//! What is measured beside the workload: flash operations, read-ahead, facts of the machine.
