//! Stopping the virtual machine at an exact instruction, from inside it.
//!
//! QEMU's pvpanic device stops the machine while the store to it is being executed. Whatever the
//! host does then (save a snapshot, put down the next order) takes no virtual time, and where the
//! machine stopped does not depend on the host. A `stop` from outside would land anywhere.

use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use std::fs;

/// PCI identity of QEMU's pvpanic device (docs/specs/pvpanic in QEMU's sources).
const VENDOR: &str = "0x1b36";
const DEVICE: &str = "0x0011";
/// Bit 0 of the event register: "a panic has happened".
const PANICKED: u8 = 1;

/// The register that stops the machine.
pub struct StopRegister {
    register: *mut u8,
}

impl StopRegister {
    /// Finds and maps the register.
    ///
    /// # Errors
    /// `ErrorKind::Board` if the kernel has no such PCI device, or its register cannot be enabled or mapped.
    pub fn map() -> Result<Self> {
        let missing = || {
            Error::board("the machine has no pvpanic PCI device")
                .hint("the board's kernel requires CONFIG_PCI_HOST_GENERIC=y and sysfs")
        };
        let is = |folder: &std::path::Path, file: &str, value: &str| {
            fs::read_to_string(folder.join(file)).is_ok_and(|text| text.trim() == value)
        };
        let devices = fs::read_dir("/sys/bus/pci/devices").map_err(|e| missing().because(e))?;
        let folder = devices
            .flatten()
            .map(|entry| entry.path())
            .find(|f| is(f, "vendor", VENDOR) && is(f, "device", DEVICE))
            .ok_or_else(missing)?;
        fs::write(folder.join("enable"), "1").board(|| "cannot enable the pvpanic device".into())?;
        let resource = fs::File::options()
            .read(true)
            .write(true)
            .open(folder.join("resource0"))
            .board(|| "cannot open the pvpanic device's register".into())?;
        // SAFETY: a fresh mapping of a device's register at an address of the kernel's choice; it
        // aliases no Rust object and stays mapped for the life of the process.
        let address = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                rustix::param::page_size(),
                rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE,
                rustix::mm::MapFlags::SHARED,
                &resource,
                0,
            )
        };
        Ok(StopRegister { register: address.board(|| "cannot map the pvpanic device's register".into())?.cast() })
    }

    /// Stops the machine; returns when the host lets it go on.
    pub fn stop(&self) {
        // SAFETY: `register` is the first byte of the mapping made in `map`, which is never undone.
        unsafe { self.register.write_volatile(PANICKED) }
    }
}
