//! The volume under test: making it, filling it, and where its files are.

mod android;
mod block;
pub mod guarded;
mod kept;
mod kernel_log;
mod loop_device;
mod mtd;
pub mod preloaded;
pub mod recovered;
pub mod served;
mod squashfs;
mod ubi;
mod volatile;
pub mod worn;

use pocketstone_core::board::{BoardDescription, Places};
use pocketstone_core::database::DATABASE_FOLDER;
use pocketstone_core::error::Context;
use pocketstone_core::outcome::Facts;
use pocketstone_core::volume::{Access, Medium, Volume};
use pocketstone_core::{Error, Result};
use pocketstone_engine::{DirectTree, KernelTree, ScmfsTree, Tree, Yaffs2Tree, populate};
use pocketstone_workload::plan::{IMAGE_FILE, Step};
use pocketstone_workload::population::FILES_FOLDER;
use pocketstone_workload::{Caches, Population};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

pub use block::set_scheduler;
pub use volatile::{serve_null_anonymous, serve_scmfs, serve_yaffs2_anonymous};

/// Where the files of a volume are.
pub enum Home {
    /// In a folder that the kernel serves.
    Kernel(PathBuf),
    /// In such a folder, to be opened past the page cache.
    Direct(PathBuf),
    /// In an SCMFS volume, open in this process.
    Scmfs(Box<ScmfsTree>),
    /// In a YAFFS2 volume, open in this process.
    Yaffs2(Box<Yaffs2Tree>),
    /// In an SCMFS volume in this file, for one program to open.
    Region(PathBuf),
}

/// What is done on a volume's files, whatever way leads to them.
pub trait OnTree {
    /// What it gives.
    type Out;

    /// Does it.
    ///
    /// # Errors
    /// `ErrorKind::Board` if the volume refuses; otherwise the error of what is done.
    fn on<T: Tree>(self, tree: &T) -> Result<Self::Out>;
}

impl Home {
    /// Does something on the files below the folder of a population.
    ///
    /// # Errors
    /// `ErrorKind::Board` if the folder cannot be opened; otherwise as [`OnTree::on`].
    pub fn with<W: OnTree>(&self, population: &Population, work: W) -> Result<W::Out> {
        let within = |root: &Path| population.folder().map_or_else(|| root.to_owned(), |folder| root.join(folder));
        match (self, population.folder()) {
            (Home::Kernel(root), _) => work.on(&KernelTree::open(&within(root))?),
            (Home::Direct(root), _) => work.on(&DirectTree::open(&within(root))?),
            // Nobody else has anything on such a volume.
            (Home::Scmfs(tree), _) => work.on(&**tree),
            (Home::Yaffs2(tree), _) => work.on(&**tree),
            (Home::Region(_), _) => Err(Error::bug("files were wanted in a volume that a program opens")),
        }
    }

    /// Where the engine's process finds a database: its folder, or the file that the volume is in.
    ///
    /// # Errors
    /// `ErrorKind::User` if the volume is open in this process, where programs cannot open its files.
    pub fn of_database(&self) -> Result<PathBuf> {
        match self {
            Home::Kernel(path) => Ok(path.join(DATABASE_FOLDER)),
            Home::Region(file) => Ok(file.clone()),
            Home::Direct(_) => Err(opened_by_others()),
            Home::Scmfs(_) | Home::Yaffs2(_) => {
                Err(Error::user("a database needs files visible to the kernel; the volume is open in this process")
                    .hint("set volume_access = \"fuse\""))
            }
        }
    }

    /// Where a command runs.
    ///
    /// # Errors
    /// `ErrorKind::User` if the volume is open in this process, where programs cannot open its files.
    pub fn of_command(&self) -> Result<PathBuf> {
        match self {
            Home::Kernel(path) => Ok(path.join(FILES_FOLDER)),
            Home::Direct(_) => Err(opened_by_others()),
            Home::Scmfs(_) | Home::Yaffs2(_) | Home::Region(_) => {
                Err(Error::user("a command needs files visible to the kernel; the volume is open in process")
                    .hint("set volume_access = \"fuse\""))
            }
        }
    }

    /// Makes the folder of a population, empty, and its files; the free space before those, in bytes.
    fn populate(&self, population: &Population) -> Result<u64> {
        self.empty(population)?;
        let free_bytes = self.with(population, FreeBytes)?;
        let Home::Direct(root) = self else {
            self.with(population, Populate(population))?;
            // What is still to be written back would be the run's.
            let written_back = if let Home::Kernel(root) = self { kept::write_back(root, true) } else { Ok(()) };
            return written_back.map(|()| free_bytes);
        };
        // Nothing of them is cached when they are used past the page cache.
        let cached = Home::Kernel(root.clone());
        cached.with(population, Populate(population))?;
        cached.with(population, EvictAll(population)).map(|()| free_bytes)
    }

    /// Removes the files of an earlier cell, and makes the folder of a population.
    fn empty(&self, population: &Population) -> Result<()> {
        match (self, population.folder()) {
            (Home::Kernel(root) | Home::Direct(root), Some(folder)) => empty_folder(&root.join(folder)),
            (Home::Kernel(root) | Home::Direct(root), None) => remove_files(root, population),
            _ => Ok(()),
        }
    }
}

fn opened_by_others() -> Error {
    Error::user("a program opens its files by itself, with O_DIRECT or without").hint("omit direct")
}

struct FreeBytes;

impl OnTree for FreeBytes {
    type Out = u64;

    fn on<T: Tree>(self, tree: &T) -> Result<u64> {
        tree.free_bytes()
    }
}

struct Populate<'a>(&'a Population);

impl OnTree for Populate<'_> {
    type Out = ();

    fn on<T: Tree>(self, tree: &T) -> Result<()> {
        populate(tree, self.0)
    }
}

struct EvictAll<'a>(&'a Population);

impl OnTree for EvictAll<'_> {
    type Out = ();

    fn on<T: Tree>(self, tree: &T) -> Result<()> {
        for file in self.0.list() {
            let name = std::ffi::CString::new(file.name).map_err(|e| Error::bug("a NUL in a name").because(e))?;
            tree.evict(&name).board(|| format!("{} stays in the page cache", name.to_string_lossy()))?;
        }
        Ok(())
    }
}

/// Makes a folder that is empty.
///
/// # Errors
/// `ErrorKind::Board` if what was there cannot be removed, or it cannot be made.
pub fn empty_folder(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(Error::board(format!("cannot remove {}", path.display())).because(error).hint(
                "look whether something is mounted in there (umount), or a file cannot be changed (chattr -i), and \
                 remove it",
            ));
        }
        _ => {}
    }
    fs::create_dir(path).board(|| format!("cannot create {}", path.display()))
}

/// Removes files of these names that an earlier cell left.
fn remove_files(root: &Path, population: &Population) -> Result<()> {
    let filler = population.filler().map(|(filler, _)| filler);
    for file in population.list().into_iter().chain(filler) {
        let path = root.join(file.name);
        if path.exists() {
            fs::remove_file(&path).board(|| format!("cannot remove {}", path.display()))?;
        }
    }
    Ok(())
}

/// A volume as a cell finds it. Dropping it ends who serves it, if it lives only as long as this process.
pub struct Opened {
    /// Where its files are.
    pub home: Home,
    volatile: Option<volatile::Made>,
}

impl Opened {
    /// Facts of a volatile volume: what it is made of, and how much of it is worn by now.
    pub fn facts(&self) -> Facts {
        self.volatile.as_ref().map(volatile::Made::facts).unwrap_or_default()
    }

    /// Puts the files of a population on it, if it is volatile; else they are there. The space that was free before
    /// them, in bytes; `None`: unknown.
    ///
    /// # Errors
    /// `ErrorKind::Board` if the file system refuses.
    pub fn populate(&self, population: &Population) -> Result<Option<u64>> {
        if self.volatile.is_some() { self.home.populate(population).map(Some) } else { Ok(None) }
    }

    /// Whether this process made it, empty.
    pub fn is_new(&self) -> bool {
        self.volatile.is_some()
    }
}

/// Opens the volume that a cell measures; a volatile one is made, with what it needs in `folder`. `for_engine`: it is
/// the engine's process that opens it, where the kernel has no files of it.
///
/// # Errors
/// `ErrorKind::User` as [`Volume::check`], or if the plan names no directory; `ErrorKind::Board` if a kept volume
/// cannot be opened; otherwise as [`volatile::make`].
pub fn open(volume: &Volume, board: &BoardDescription, folder: &Path, for_engine: bool) -> Result<Opened> {
    volume.check()?;
    if volume.volatile() {
        let (home, made) = volatile::make(volume, folder, for_engine)?;
        return Ok(Opened { home, volatile: Some(made) });
    }
    let home = match volume.access {
        Access::InProcess => Home::Yaffs2(Box::new(kept::open_yaffs2(board)?)),
        Access::Kernel | Access::Fuse | Access::Preload => Home::Kernel(kept::folder(volume, board)?),
    };
    Ok(Opened { home, volatile: None })
}

/// Carries out a step of preparation; what it needs is beside the order, in `beside`.
///
/// # Errors
/// `ErrorKind::Board` if the medium or the kernel refuses, or the board does not become idle; `ErrorKind::User` if the
/// volume cannot hold what is asked for, or its directory cannot be created; `ErrorKind::Bug` for [`Step::Load`] and
/// [`Step::Unpack`].
pub fn prepare(step: &Step, board: &BoardDescription, beside: &Path, folder: &Path) -> Result<()> {
    match step {
        // A volatile volume is gone with this process: making it shows that it can be had.
        Step::Format { volume } if volume.volatile() => volatile::make(volume, folder, false).map(|_| ()),
        Step::Format { volume } => kept::format(volume, board),
        Step::Populate { volume, .. } if volume.read_only() => {
            squashfs::install(volume, board, &beside.join(IMAGE_FILE), &kept::folder(volume, board)?)
        }
        Step::Populate { volume, population } => kept::fill(volume, board, population),
        Step::Unpack { .. } => Err(Error::bug("a command's files are unpacked where it is measured")),
        Step::Load { .. } => Err(Error::bug("a database is loaded by its engine")),
        Step::Wear { volume, faults, seed } => worn::wear(volume, board, faults, *seed),
    }
}

/// Waits until what a step left on a volume that is kept is on its medium, and the board is quiet.
///
/// # Errors
/// `ErrorKind::Board` if the volume cannot be synced, or the board does not become idle; `ErrorKind::User` if the plan
/// names no directory.
pub fn settle(volume: &Volume, board: &BoardDescription) -> Result<()> {
    kept::settle(volume, board)
}

/// Makes cold what a workload wants cold: all of the caches on a board that is thrown away and on a phone that does so
/// for anybody, the population's part of the page cache elsewhere.
///
/// # Errors
/// `ErrorKind::Board` if the kernel refuses.
pub fn drop_caches_of(home: &Home, population: &Population, board: &BoardDescription) -> Result<()> {
    let level = match population.caches {
        Caches::Warm => return Ok(()),
        Caches::ColdPages => "1",
        Caches::Cold => "3",
    };
    drop_caches(level, board, || home.with(population, EvictAll(population)))
}

/// Empties caches of the kernel, pages (1) or names and inodes, too (3): all of them on a board that is thrown away and
/// on a phone that does so for anybody; elsewhere what `evict` evicts.
///
/// # Errors
/// `ErrorKind::Board` if the kernel refuses; the `Error` of `evict`.
pub fn drop_caches(level: &str, board: &BoardDescription, evict: impl FnOnce() -> Result<()>) -> Result<()> {
    if board.capabilities.disposable {
        return fs::write("/proc/sys/vm/drop_caches", level).board(|| "cannot drop the kernel's caches".into());
    }
    // What is the cell's own is evicted in any case.
    android::drop_caches();
    evict()
}

/// Name of the backing device, for file systems that have one by a name of their own; others have that of the mount.
pub fn bdi(volume: &Volume, board: &BoardDescription) -> Option<String> {
    kept::bdi(volume, board)
}

/// The threads of the process that serves a volume of the board; none where the kernel does itself. What they do to
/// the flash they do for the workload.
pub fn serving_threads(volume: &Volume, places: &Places) -> Vec<u32> {
    match (volume.access, volume.medium) {
        (Access::Fuse, Medium::Mtd | Medium::Ubi | Medium::None) => served::threads(&places.notes),
        _ => Vec::new(),
    }
}
