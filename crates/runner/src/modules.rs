//! The kernel modules that a virtual board's initramfs has.

use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use std::ffi::CString;
use std::fs;
use std::path::Path;

/// The list of them.
const ORDER: &str = "/modules/order";

/// Loads the modules listed in /modules/order: lines of file name and parameters.
///
/// # Errors
/// As [`load`]; `ErrorKind::Board` if there is no such list.
pub fn load_all() -> Result<()> {
    read_order()?.lines().try_for_each(load)
}

/// Loads a module by a line of that file.
///
/// # Errors
/// `ErrorKind::Board` if there is no such module, or the kernel rejects it.
pub fn load(line: &str) -> Result<()> {
    let (file, parameters) = line.split_once(' ').unwrap_or((line, ""));
    let path = Path::new("/modules").join(file);
    let module = fs::File::open(&path).board(|| format!("cannot open {}", path.display()))?;
    let parameters = CString::new(parameters).map_err(|e| Error::bug("a NUL in parameters").because(e))?;
    rustix::system::finit_module(&module, &parameters, 0)
        .board(|| format!("the kernel rejected the module {file} with parameters {parameters:?}"))
        .map_err(|e| e.hint("see the console's last lines; check [modules] in the board's profile"))
}

/// Loads a module again that was removed, as the list has it and with more parameters.
///
/// # Errors
/// As [`load`]; `ErrorKind::Board` if it is not in the list.
pub fn load_again(name: &str, more: &str) -> Result<()> {
    let order = read_order()?;
    let line = order.lines().find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(".ko")));
    let line = line.ok_or_else(|| {
        Error::board(format!("the board loads no module {name}"))
            .hint("add it to [modules] load in the board's profile, as that of virt-nand has it")
    })?;
    load(&format!("{line} {more}"))
}

fn read_order() -> Result<String> {
    fs::read_to_string(ORDER).board(|| format!("the initramfs has no {ORDER}"))
}
