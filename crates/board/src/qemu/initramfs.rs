//! The board's initramfs: the runner as its first process, busybox, and kernel modules.
//!
//! Format: cpio "newc", drawn in the kernel's Documentation/driver-api/early-userspace/buffer-format.rst.

use super::makers;
use crate::VirtualProfile;
use pocketstone_core::block::BLOCK_FILE;
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const FILE: u32 = 0o100_644;
const LINK: u32 = 0o120_777;
const DEVICE: u32 = 0o020_600;

/// A cpio archive being written. Times and owners are 0: the same content gives the same bytes.
#[derive(Default)]
struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    fn add(&mut self, name: &str, mode: u32, device: (u32, u32), content: &[u8]) {
        self.entries += 1;
        let fields =
            [self.entries, mode, 0, 0, 1, 0, content.len() as u32, 0, 0, device.0, device.1, name.len() as u32 + 1, 0];
        self.bytes.extend(b"070701");
        fields.iter().for_each(|f| self.bytes.extend(format!("{f:08x}").bytes()));
        self.bytes.extend(name.bytes().chain([0]));
        self.pad();
        self.bytes.extend(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn finish(mut self) -> Vec<u8> {
        self.add("TRAILER!!!", 0, (0, 0), &[]);
        self.bytes
    }
}

/// Builds the initramfs.
///
/// # Errors
/// `ErrorKind::Board` if a file or a module is missing.
pub fn build(
    profile: &VirtualProfile,
    runner: &Path,
    busybox: &Path,
    modules: &Path,
    unpacked_makers: Option<&Path>,
) -> Result<Vec<u8>> {
    let read = |path: &Path| fs::read(path).board(|| format!("cannot read {}", path.display()));
    let mut archive = Archive::default();
    let of_makers = unpacked_makers.map_or(&[][..], |_| &["lib", "sbin"]);
    for folder in ["bin", "dev", "mnt", "modules", "proc", "run", "sys", "tmp"].iter().chain(of_makers) {
        archive.add(folder, FOLDER, (0, 0), &[]);
    }
    // A program must not start without standard streams; devtmpfs comes later.
    archive.add("dev/console", DEVICE, (5, 1), &[]);
    archive.add("dev/null", DEVICE, (1, 3), &[]);
    archive.add("init", PROGRAM, (0, 0), &read(runner)?);
    archive.add("bin/pocketstone-runner", LINK, (0, 0), b"/init");
    archive.add("bin/busybox", PROGRAM, (0, 0), &read(busybox)?);
    archive.add("bin/sh", LINK, (0, 0), b"busybox");
    let mut order = String::new();
    for (name, path) in resolve(modules, &profile.modules.load)? {
        archive.add(&format!("modules/{name}.ko"), FILE, (0, 0), &read(&path)?);
        let mut parameters = profile.modules.parameters.get(&name).cloned().unwrap_or_default();
        if let (Some(nand), "nandsim") = (&profile.nand, name.as_str()) {
            parameters = format!("{} {parameters}", nand.module_parameters());
        }
        order.push_str(&format!("{name}.ko {}\n", parameters.trim()));
    }
    archive.add("modules/order", FILE, (0, 0), order.as_bytes());
    if let Some(device) = &profile.block {
        let text = serde_json::to_vec(device).map_err(|e| Error::bug("a device is not valid JSON").because(e))?;
        archive.add(BLOCK_FILE, FILE, (0, 0), &text);
    }
    if let Some(unpacked) = unpacked_makers {
        makers::of(profile, unpacked)?.iter().for_each(|(name, file)| archive.add(name, PROGRAM, (0, 0), file));
    }
    Ok(archive.finish())
}

/// The modules to load, dependencies first, each once; built-in ones are left out.
fn resolve(folder: &Path, wanted: &[String]) -> Result<Vec<(String, PathBuf)>> {
    let files = index(folder)?;
    let builtin = fs::read_to_string(folder.join("modules.builtin")).unwrap_or_default();
    let builtin: Vec<String> = builtin.lines().map(|l| module_name(Path::new(l))).collect();
    let mut order = Vec::new();
    for name in wanted {
        add(&name.replace('-', "_"), &files, &builtin, &mut order)?;
    }
    Ok(order)
}

fn add(
    name: &str,
    files: &BTreeMap<String, PathBuf>,
    builtin: &[String],
    order: &mut Vec<(String, PathBuf)>,
) -> Result<()> {
    if order.iter().any(|(n, _)| n == name) || builtin.iter().any(|b| b == name) {
        return Ok(());
    }
    let path = files.get(name).ok_or_else(|| {
        Error::board(format!("the kernel has no module `{name}`"))
            .hint("change [modules] load in the board's profile, or use a kernel that has it")
    })?;
    let module = fs::read(path).board(|| format!("cannot read {}", path.display()))?;
    for dependency in dependencies(&module) {
        add(&dependency, files, builtin, order)?;
    }
    order.push((name.to_owned(), path.clone()));
    Ok(())
}

/// Every module file below a folder, by module name.
fn index(folder: &Path) -> Result<BTreeMap<String, PathBuf>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).board(|| format!("cannot list the modules in {}", folder.display()))?;
        for entry in entries.flatten() {
            let path = entry.path();
            if entry.file_type().is_ok_and(|t| t.is_dir()) {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "ko") {
                files.insert(module_name(&path), path);
            }
        }
    }
    Ok(files)
}

fn module_name(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().replace('-', "_")
}

/// The names in a module's `depends=`, an entry of its `.modinfo` section: NUL-terminated strings.
fn dependencies(module: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(at) = module.windows(KEY.len()).position(|w| w == KEY) else { return Vec::new() };
    let value = module[at + KEY.len()..].split(|b| *b == 0).next().unwrap_or_default();
    let text = String::from_utf8_lossy(value);
    text.split(',').filter(|n| !n.is_empty()).map(|n| n.replace('-', "_")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    #[test]
    fn dependencies_come_first_and_builtins_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &[u8]| fs::write(folder.path().join(name), text).unwrap();
        write("ubifs.ko", b"ELF\0depends=ubi,crc16,lib-x\0name=ubifs\0");
        write("ubi.ko", b"ELF\0depends=\0name=ubi\0");
        write("lib-x.ko", b"ELF\0depends=ubi\0");
        write("modules.builtin", b"kernel/lib/crc16.ko\n");
        let names = |wanted: &[&str]| -> Result<Vec<String>> {
            let wanted: Vec<String> = wanted.iter().map(|w| w.to_string()).collect();
            Ok(resolve(folder.path(), &wanted)?.into_iter().map(|m| m.0).collect())
        };
        assert_eq!(names(&["ubifs", "ubi"]).unwrap(), ["ubi", "lib_x", "ubifs"]);
        let error = names(&["yaffs2"]).unwrap_err();
        assert!(error.to_string().contains("`yaffs2`") && error.cure().is_some());
    }

    #[test]
    fn cpio_reads_it_back() {
        let mut archive = Archive::default();
        archive.add("a", FOLDER, (0, 0), &[]);
        archive.add("a/file", FILE, (0, 0), b"hello");
        archive.add("a/link", LINK, (0, 0), b"file");
        let bytes = archive.finish();
        let program = pocketstone_testing::or_skip!(pocketstone_testing::program("cpio", "cpio"));
        let cpio = Command::new(program).args(["-itv", "--quiet"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut cpio = cpio.expect("cpio starts");
        cpio.stdin.take().unwrap().write_all(&bytes).unwrap();
        let output = cpio.wait_with_output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success());
        assert!(text.contains("drwxr-xr-x") && text.contains(" 5 ") && text.contains("a/link -> file"), "{text}");
    }
}
