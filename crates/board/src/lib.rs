//! Boards: this machine, and virtual ones in QEMU.
