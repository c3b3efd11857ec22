//! The parts of a virtual board: kernel, modules, busybox, runner, initramfs.

use super::packages::{self, Apt};
use super::{idle, initramfs, makers, runner};
use crate::cache::digest;
use crate::profile::{Architecture, Kernel};
use crate::{BoardContext, Cache, VirtualProfile};
use pocketstone_core::error::Context;
use pocketstone_core::outcome::Facts;
use pocketstone_core::{Error, Result};
use std::cell::OnceCell;
use std::fs;
use std::path::{Path, PathBuf};

/// A bootable image.
pub struct Image {
    /// Kernel image.
    pub kernel: PathBuf,
    /// Initramfs.
    pub initramfs: PathBuf,
    /// What runs when the processor has nothing to do, where that is no matter of the kernel ([`super::idle`]).
    pub idle: Option<PathBuf>,
    /// Digest of all.
    pub digest: String,
    /// Files and folders that it was made from, and itself; those in the cache are what another machine needs.
    pub parts: Vec<PathBuf>,
    /// Where they come from.
    pub facts: Facts,
}

/// Kernel files, unpacked.
struct KernelFiles {
    image: PathBuf,
    modules: PathBuf,
    origin: String,
}

impl Image {
    /// Builds what is missing.
    ///
    /// # Errors
    /// `ErrorKind::Board` if a part is unavailable.
    pub fn build(profile: &VirtualProfile, context: &BoardContext) -> Result<Self> {
        // Packages come from the network while the runner is compiled.
        let (packages, runner) = std::thread::scope(|scope| {
            let runner = scope.spawn(|| runner::build(profile.machine.architecture.debian(), context));
            let packages = from_packages(profile, context);
            (packages, runner.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        });
        let ((busybox, kernel, makers), runner) = (packages?, runner?);
        let initramfs = initramfs::build(profile, &runner, &busybox, &kernel.modules, makers.as_deref())?;
        let image = fs::read(&kernel.image).board(|| format!("cannot read {}", kernel.image.display()))?;
        let idle = (profile.machine.architecture == Architecture::Aarch64).then(idle::program);
        let all: Vec<&[u8]> = [image.as_slice(), &initramfs].into_iter().chain(idle.as_deref()).collect();
        let key = digest(&all);
        let path = put(&context.cache, &format!("{key}.cpio"), &initramfs)?;
        let idle = idle.map(|idle| put(&context.cache, &format!("{key}.idle"), &idle)).transpose()?;
        let mut facts = Facts::new();
        facts.insert("image.kernel".into(), kernel.origin);
        facts.insert("image.digest".into(), key.clone());
        let parts = [kernel.image.clone(), kernel.modules, busybox, runner, path.clone()];
        let parts = parts.into_iter().chain(makers).chain(idle.clone()).collect();
        Ok(Image { kernel: kernel.image, initramfs: path, idle, digest: key, parts, facts })
    }
}

/// Keeps a file beside the images, under a name that is made of its content.
fn put(cache: &Cache, name: &str, content: &[u8]) -> Result<PathBuf> {
    let path = cache.folder("initramfs")?.join(name);
    let _lock = cache.lock("initramfs")?;
    if !path.exists() {
        let temporary = path.with_extension("new");
        fs::write(&temporary, content).board(|| format!("cannot write {}", temporary.display()))?;
        fs::rename(&temporary, &path).board(|| format!("cannot store {}", path.display()))?;
    }
    Ok(path)
}

/// Unpacks packages into a folder of the cache, once; `name` says which version it is.
fn unpacked(name: &str, context: &BoardContext, fetch: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let folder = context.cache.folder("packages")?.join(name);
    let temporary = folder.with_extension("new");
    let _ = fs::remove_dir_all(&temporary);
    fs::create_dir_all(&temporary).board(|| format!("cannot create {}", temporary.display()))?;
    fetch(&temporary)?;
    fs::rename(&temporary, &folder).board(|| format!("cannot store {}", folder.display()))?;
    Ok(folder)
}

/// The folder that a former download of `package` left, if there was one.
fn kept(package: &str, context: &BoardContext) -> Result<Option<PathBuf>> {
    let folder = context.cache.folder("packages")?;
    let entries = fs::read_dir(&folder).board(|| format!("cannot list {}", folder.display()))?;
    let matching = entries.flatten().map(|e| e.path()).filter(|p| {
        let name = p.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.strip_prefix(package).is_some_and(|rest| rest.starts_with('_')) && !name.ends_with(".new")
    });
    Ok(matching.max())
}

/// Busybox, the kernel, and the folder of the programs that make file systems, where the board needs them. The
/// archive's index is read once for all, and not at all where all are kept.
fn from_packages(profile: &VirtualProfile, context: &BoardContext) -> Result<(PathBuf, KernelFiles, Option<PathBuf>)> {
    let _lock = context.cache.lock(packages::LOCK)?;
    let archive = Archive { context, architecture: profile.machine.architecture, apt: OnceCell::new() };
    let makers = makers::needed(profile).then(|| file_system_makers(&archive)).transpose()?;
    Ok((busybox(&archive)?, kernel(&profile.kernel, &archive)?, makers))
}

fn file_system_makers(archive: &Archive) -> Result<PathBuf> {
    let name = archive.architecture.packages("file-system-makers");
    if let Some(folder) = kept(&name, archive.context)? {
        return Ok(folder);
    }
    let apt = archive.apt()?;
    // Several packages: the first one stands for all.
    let all = makers::packages();
    let record = apt.show(all[0])?;
    let version = packages::field(&record, "Version").unwrap_or("unknown").replace([':', '/'], "-");
    (archive.context.progress)("downloading the programs that make file systems");
    unpacked(&format!("{name}_{version}"), archive.context, |target| apt.unpack(&all, target))
}

/// The board's packages.
struct Archive<'a> {
    context: &'a BoardContext,
    architecture: Architecture,
    apt: OnceCell<Apt>,
}

impl Archive<'_> {
    fn apt(&self) -> Result<&Apt> {
        if self.apt.get().is_none() {
            let apt = Apt::new(&self.context.cache, self.architecture.debian(), self.context)?;
            let _ = self.apt.set(apt);
        }
        self.apt.get().ok_or_else(|| Error::bug("the archive's index is missing after the update"))
    }
}

fn busybox(archive: &Archive) -> Result<PathBuf> {
    let context = archive.context;
    let name = archive.architecture.packages("busybox-static");
    let folder = match kept(&name, context)? {
        Some(folder) => folder,
        None => {
            let apt = archive.apt()?;
            let record = apt.show("busybox-static")?;
            let version = packages::field(&record, "Version").unwrap_or("unknown").replace([':', '/'], "-");
            unpacked(&format!("{name}_{version}"), context, |target| apt.unpack(&["busybox-static"], target))?
        }
    };
    Ok(folder.join("bin/busybox"))
}

fn kernel(kernel: &Kernel, archive: &Archive) -> Result<KernelFiles> {
    let context = archive.context;
    if let Some(image) = &kernel.image {
        let modules = kernel.modules.clone().ok_or_else(|| {
            Error::user("[kernel] image requires `modules`, the folder of its modules (lib/modules/VERSION)")
        })?;
        let origin = image.display().to_string();
        return Ok(KernelFiles { image: image.clone(), modules, origin });
    }
    let package = kernel.package.as_deref().ok_or_else(|| Error::user("[kernel] names no package"))?;
    let folder = match kept(package, context)? {
        Some(folder) => folder,
        None => {
            let apt = archive.apt()?;
            let record = apt.show(package)?;
            let version = packages::field(&record, "Version").unwrap_or("unknown").replace([':', '/'], "-");
            // A package such as linux-image-armmp stands for the newest linux-image-VERSION-armmp.
            let real = packages::dependency(&record, "linux-image-").unwrap_or(package).to_owned();
            (context.progress)(&format!("downloading the board's kernel {real}"));
            unpacked(&format!("{package}_{version}"), context, |target| apt.unpack(&[&real], target))?
        }
    };
    let only = |folder: PathBuf, prefix: &str| -> Result<PathBuf> {
        let entries = fs::read_dir(&folder).board(|| format!("cannot list {}", folder.display()))?;
        let named = |p: &PathBuf| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with(prefix));
        entries
            .flatten()
            .map(|e| e.path())
            .find(named)
            .ok_or_else(|| Error::board(format!("the package {package} has no {prefix}* in {}", folder.display())))
    };
    let modules = ["lib/modules", "usr/lib/modules"].map(|m| folder.join(m)).into_iter().find(|m| m.exists());
    let origin = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(KernelFiles {
        image: only(folder.join("boot"), "vmlinu")?,
        modules: only(modules.ok_or_else(|| Error::board(format!("the package {package} has no modules")))?, "")?,
        origin,
    })
}
