//! What the cache keeps of a virtual board, as one checked archive: another machine, one without network, then has the
//! board's packages and its saved states.
//!
//! The archive is a tar file, compressed by gzip: first `manifest.json`, then the files under their names in the cache.
//! The manifest has the SHA-256 of each; nothing gets into a cache before all of them are found right.

use crate::cache::{digest_of_file, files_below};
use crate::qemu::Qemu;
use crate::{BoardContext, Cache, Profile, ProfileKind, temporary_folder};
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

/// The version of the archive's format.
const FORMAT: u32 = 1;
/// The manifest's name in the archive.
const MANIFEST: &str = "manifest.json";
/// Folders of a cache that an archive may have files for.
const FOLDERS: [&str; 4] = ["initramfs", "packages", "runners", "states"];

/// What an archive says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    format: u32,
    /// The board's name.
    pub board: String,
    /// The text of its profile.
    pub profile: String,
    /// Digest of the image that its states were saved with.
    pub image_digest: String,
    /// What QEMU said of its version.
    pub qemu_version: String,
    /// SHA-256 of each file, by its name in the cache.
    files: BTreeMap<PathBuf, String>,
}

impl Manifest {
    /// Number of saved states.
    pub fn states(&self) -> usize {
        self.files.keys().filter(|name| name.extension().is_some_and(|extension| extension == "state")).count()
    }
}

/// Writes what the cache keeps of a board to the archive `file`, having made what is missing: its image, and the state
/// after its boot.
///
/// # Errors
/// `ErrorKind::User` if it is no virtual board, or has a kernel of its own, or the archive cannot be written;
/// `ErrorKind::Board` if the board does not start, or there is no tar; `ErrorKind::Interrupted`.
pub fn export(profile: &Profile, file: &Path, context: &BoardContext) -> Result<Manifest> {
    let ProfileKind::Virtual(machine) = &profile.kind else {
        return Err(Error::user(format!("the board {} has no saved states", profile.name))
            .hint("choose a virtual board: pocketstone board list"));
    };
    if machine.kernel.image.is_some() {
        return Err(Error::user(format!("the board {} has a kernel that is not Debian's", profile.name))
            .hint("copy its profile, and the kernel and modules that it names, to the other machine yourself"));
    }
    let qemu = Qemu::open(&profile.name, machine, false, context)?;
    let names = qemu.kept()?;
    let root = context.cache.root();
    let mut files = BTreeMap::new();
    for name in names {
        (context.progress)(&format!("packing {}", name.display()));
        context.check()?;
        let digest = digest_of_file(&root.join(&name))?;
        files.insert(name, digest);
    }
    let manifest = Manifest {
        format: FORMAT,
        board: profile.name.clone(),
        profile: profile.text.clone(),
        image_digest: qemu.image_digest().to_owned(),
        qemu_version: qemu.version().to_owned(),
        files,
    };
    pack(&manifest, root, file)?;
    Ok(manifest)
}

/// Puts an archive's files into a cache; those that it has already stay as they are.
///
/// # Errors
/// `ErrorKind::User` if the file is no such archive, or damaged, and `ErrorKind::Board` if there is no tar: nothing is
/// in the cache then. `ErrorKind::User` also if the cache cannot be written.
pub fn import(file: &Path, cache: &Cache) -> Result<Manifest> {
    let failed = || format!("cannot unpack {}", file.display());
    let unpacked = tempfile::Builder::new().prefix("import-").tempdir_in(cache.root()).user(failed)?;
    File::open(file).user(|| format!("cannot open {}", file.display()))?;
    tar(
        Command::new("tar").args(["--force-local", "--no-same-owner", "-xf"]).arg(file).arg("-C").arg(unpacked.path()),
        file,
    )?;
    let manifest = checked(file, unpacked.path())?;
    let (mut packages, mut others) = (Vec::new(), Vec::new());
    for name in manifest.files.keys() {
        let mut parts = name.iter();
        match (parts.next(), parts.next()) {
            // A package is there with all its files, or not at all.
            (Some(folder), Some(package)) if folder == "packages" => packages.push(Path::new(folder).join(package)),
            _ => others.push(name.clone()),
        }
    }
    packages.dedup();
    // A state's description comes before it: a state without one is not used.
    others.sort_by_key(|name| name.extension().is_some_and(|extension| extension == "state"));
    for name in packages.into_iter().chain(others) {
        let target = cache.root().join(&name);
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent).user(|| format!("cannot create {}", parent.display()))?;
        }
        if !target.exists() {
            fs::rename(unpacked.path().join(&name), &target).user(|| format!("cannot store {}", target.display()))?;
        }
    }
    Ok(manifest)
}

/// Whether a board here is the one whose states an archive has; if not, the reason. Its states are made anew then.
///
/// # Errors
/// `ErrorKind::Board` if the board cannot be built here.
pub fn difference(profile: &Profile, manifest: &Manifest, context: &BoardContext) -> Result<Option<String>> {
    let ProfileKind::Virtual(machine) = &profile.kind else {
        return Ok(Some(format!("{} is no virtual board here", profile.name)));
    };
    let qemu = Qemu::open(&profile.name, machine, false, context)?;
    let pairs = [
        ("the profile", profile.text.as_str(), manifest.profile.as_str()),
        ("QEMU", qemu.version(), &manifest.qemu_version),
        ("the image (kernel, runner)", qemu.image_digest(), &manifest.image_digest),
    ];
    let other = pairs.into_iter().find(|(_, here, there)| here != there);
    Ok(other.map(|(what, here, there)| match what {
        "the profile" => "the profile is another one here".to_owned(),
        _ => format!("{what} is {here} here, and was {there} where they were saved"),
    }))
}

fn pack(manifest: &Manifest, root: &Path, file: &Path) -> Result<()> {
    let failed = || format!("cannot write {}", file.display());
    let lists = temporary_folder().map_err(|e| Error::user(failed()).because(e))?;
    let text =
        serde_json::to_vec_pretty(manifest).map_err(|e| Error::bug("a manifest is not valid JSON").because(e))?;
    fs::write(lists.path().join(MANIFEST), text).user(failed)?;
    let names: Vec<u8> =
        manifest.files.keys().flat_map(|name| [name.as_os_str().as_encoded_bytes(), b"\0"].concat()).collect();
    fs::write(lists.path().join("names"), names).user(failed)?;
    let new = tempfile::NamedTempFile::new_in(file.parent().filter(|p| *p != Path::new("")).unwrap_or(Path::new(".")));
    let new = new.user(failed)?;
    let mut command = Command::new("tar");
    // States are gigabytes, and shrink little further with more effort.
    command
        .args(["--force-local", "--format=gnu", "--owner=0", "--group=0", "--numeric-owner", "-I", "gzip -1", "-cf"])
        .arg(new.path());
    command.arg("-C").arg(lists.path()).arg(MANIFEST).arg("-C").arg(root);
    command.args(["--null", "--verbatim-files-from", "-T"]).arg(lists.path().join("names"));
    tar(&mut command, file)?;
    fs::set_permissions(new.path(), Permissions::from_mode(0o644)).user(failed)?;
    new.persist(file).map_err(|e| e.error).user(failed)?;
    Ok(())
}

/// The manifest of an unpacked archive whose files are all what it says they are, and no others.
fn checked(archive: &Path, folder: &Path) -> Result<Manifest> {
    let wrong = |what: String| {
        Error::user(format!("{}: {what}", archive.display()))
            .hint("copy the archive again, or write it again: pocketstone board export NAME FILE")
    };
    let text = fs::read(folder.join(MANIFEST)).map_err(|e| wrong("it is no archive of a board".into()).because(e))?;
    let manifest: Manifest =
        serde_json::from_slice(&text).map_err(|e| wrong(format!("its {MANIFEST} cannot be read")).because(e))?;
    if manifest.format != FORMAT {
        return Err(wrong(format!("its format is {}, not {FORMAT}", manifest.format)));
    }
    let mut found = files_below(folder, folder)?;
    found.retain(|name| name != Path::new(MANIFEST));
    if let Some(name) = found.iter().find(|name| !manifest.files.contains_key(*name)) {
        return Err(wrong(format!("its manifest does not know {}", name.display())));
    }
    for (name, digest) in &manifest.files {
        if !allowed(name) {
            return Err(wrong(format!("{} is no name of a board's file", name.display())));
        }
        let path = folder.join(name);
        let plain = fs::symlink_metadata(&path).is_ok_and(|found| found.is_file());
        if !plain || digest_of_file(&path)? != *digest {
            return Err(wrong(format!("{} is damaged or missing", name.display())));
        }
        let mode = fs::metadata(&path).map_or(0, |found| found.permissions().mode());
        let mode = if mode & 0o111 == 0 { 0o644 } else { 0o755 };
        fs::set_permissions(&path, Permissions::from_mode(mode)).user(|| format!("cannot open {}", path.display()))?;
    }
    Ok(manifest)
}

/// Whether a file of this name may be put into a cache.
fn allowed(name: &Path) -> bool {
    let plain = name.components().all(|part| matches!(part, Component::Normal(_)));
    plain && name.iter().count() > 1 && FOLDERS.iter().any(|folder| name.starts_with(folder))
}

fn tar(command: &mut Command, file: &Path) -> Result<()> {
    let done = command.output().board(|| "cannot start tar".into()).map_err(|e| e.hint("apt-get install tar gzip"))?;
    match done.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&done.stderr);
            Err(Error::user(format!("tar fails on {}: {}", file.display(), said.trim()))
                .hint("is it an archive of `pocketstone board export`, complete, and is there room on the disk?"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cache with a package, an image and a state, and an archive of it.
    fn exported(folder: &Path) -> (PathBuf, Manifest) {
        let cache = folder.join("from");
        let contents = [
            ("packages/busybox-static_1.35/bin/busybox", "\x7fELF"),
            ("initramfs/0123.cpio", "070701"),
            ("states/abcd.state", "a machine"),
            ("states/abcd.json", "{}"),
            // SHA-256 of `abc`, as published in FIPS 180-2, appendix B.1.
            ("runners/77", "abc"),
        ];
        let mut files = BTreeMap::new();
        for (name, content) in contents {
            let path = cache.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, content).unwrap();
            files.insert(PathBuf::from(name), digest_of_file(&path).unwrap());
        }
        fs::set_permissions(cache.join("runners/77"), Permissions::from_mode(0o4755)).unwrap();
        let manifest = Manifest {
            format: FORMAT,
            board: "virt".into(),
            profile: "kind = \"virtual\"".into(),
            image_digest: "0123".into(),
            qemu_version: "QEMU 7.2".into(),
            files,
        };
        let archive = folder.join("board.tar.gz");
        pack(&manifest, &cache, &archive).unwrap();
        (archive, manifest)
    }

    /// An archive with the same manifest and other files: `change` gets the folder of what was in it.
    fn altered(folder: &Path, change: impl FnOnce(&Path)) -> PathBuf {
        let (archive, _) = exported(folder);
        let opened = folder.join("opened");
        fs::create_dir(&opened).unwrap();
        tar(Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(&opened), &archive).unwrap();
        change(&opened);
        tar(Command::new("tar").arg("-czf").arg(&archive).arg("-C").arg(&opened).arg("."), &archive).unwrap();
        archive
    }

    fn refused(what: &str, change: impl FnOnce(&Path)) {
        let folder = tempfile::tempdir().unwrap();
        let archive = altered(folder.path(), change);
        let to = Cache::at(&folder.path().join("to")).unwrap();
        let error = import(&archive, &to).unwrap_err();
        assert!(error.message().contains(what), "{}", error.chain());
        assert_eq!(fs::read_dir(to.root()).unwrap().count(), 0, "{what}: nothing is left in the cache");
    }

    #[test]
    fn what_was_exported_is_imported() {
        let folder = tempfile::tempdir().unwrap();
        let (archive, manifest) = exported(folder.path());
        assert_eq!(manifest.states(), 1);
        let digest = &manifest.files[Path::new("runners/77")];
        assert_eq!(digest, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        let to = Cache::at(&folder.path().join("to")).unwrap();
        // What is there already is what its users are working with.
        fs::create_dir_all(to.root().join("states")).unwrap();
        fs::write(to.root().join("states/abcd.json"), "its own").unwrap();
        assert_eq!(import(&archive, &to).unwrap(), manifest);
        let read = |name: &str| fs::read_to_string(to.root().join(name)).unwrap();
        assert_eq!(read("packages/busybox-static_1.35/bin/busybox"), "\x7fELF");
        assert_eq!((read("states/abcd.state").as_str(), read("states/abcd.json").as_str()), ("a machine", "its own"));
        let mode = fs::metadata(to.root().join("runners/77")).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o755, "nothing becomes the superuser's by an archive");
        assert!(
            fs::read_dir(to.root()).unwrap().flatten().all(|e| !e.file_name().to_string_lossy().contains("import"))
        );
    }

    #[test]
    fn a_damaged_archive_is_refused_whole() {
        refused("states/abcd.state is damaged", |opened| fs::write(opened.join("states/abcd.state"), "b").unwrap());
        refused("initramfs/0123.cpio is damaged", |opened| {
            fs::remove_file(opened.join("initramfs/0123.cpio")).unwrap()
        });
        refused("does not know states/more", |opened| fs::write(opened.join("states/more"), "b").unwrap());
        refused("is no archive of a board", |opened| fs::remove_file(opened.join(MANIFEST)).unwrap());
        refused("states/abcd.json is damaged", |opened| {
            fs::remove_file(opened.join("states/abcd.json")).unwrap();
            std::os::unix::fs::symlink("/etc/passwd", opened.join("states/abcd.json")).unwrap();
        });
        let folder = tempfile::tempdir().unwrap();
        let (archive, _) = exported(folder.path());
        let bytes = fs::read(&archive).unwrap();
        fs::write(&archive, &bytes[..bytes.len() / 2]).unwrap();
        let to = Cache::at(&folder.path().join("to")).unwrap();
        assert!(import(&archive, &to).unwrap_err().message().contains("tar fails on"), "a copy that broke off");
    }

    #[test]
    fn files_go_into_the_boards_folders_only() {
        for name in ["states/a", "packages/a_1/boot/vmlinuz"] {
            assert!(allowed(Path::new(name)), "{name}");
        }
        for name in ["../states/a", "states/../../a", "/states/a", "states", "costs/cells.json", ""] {
            assert!(!allowed(Path::new(name)), "{name}");
        }
    }
}
