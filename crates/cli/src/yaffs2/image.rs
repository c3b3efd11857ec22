//! `image`: a folder becomes an image.

use crate::arguments::{ImageArguments, SpareLayout, Times};
use crate::chip::page_and_spare;
use crate::unfinished::Nameless;
use pocketstone_core::error::Context;
use pocketstone_core::units::format_bytes_rounded;
use pocketstone_core::words::counted;
use pocketstone_core::{Error, Result};
use pocketstone_media::nand::ImageLayout;
use pocketstone_vfs::{FileType, Ino, ROOT, shown};
use pocketstone_yaffs2::{ImageForm, ImageMeta, ImageWriter};
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

pub fn image(arguments: &ImageArguments) -> Result<u8> {
    let (folder, file) = (&arguments.folder, &arguments.file);
    let top = folder.metadata().user(|| format!("cannot examine {}", folder.display()))?;
    if !top.is_dir() {
        return Err(Error::user(format!("{} is not a folder", folder.display())).hint("specify a folder"));
    }
    let form = form(arguments)?;
    let exists = file.symlink_metadata().is_ok();
    if exists && !arguments.force {
        return Err(Error::user(format!("{} exists", file.display())).hint("--force overwrites it"));
    }
    let (nameless, out) = Nameless::create(file)?;
    let own = match nameless.folder().map(Path::metadata) {
        Some(own) => {
            own.map(|own| Some((own.dev(), own.ino()))).user(|| format!("cannot create {}", file.display()))?
        }
        None => None,
    };
    let mut builder = Builder { arguments, time_s: fixed_time(arguments.times)?, own, names: HashMap::new() };
    let (objects, bytes) = builder.build(BufWriter::new(out), &form, &top)?;
    nameless.finish(arguments.force)?;
    say!("{}: {}, {}", file.display(), counted(objects, "object"), format_bytes_rounded(bytes));
    Ok(0)
}

fn form(arguments: &ImageArguments) -> Result<ImageForm> {
    let (page, spare) = page_and_spare(arguments.page, arguments.spare)?;
    let spare = if arguments.inband_tags { 0 } else { spare };
    let offset = match arguments.spare_layout {
        _ if arguments.inband_tags => 0,
        SpareLayout::Mkyaffs2image => 0,
        SpareLayout::Linux | SpareLayout::Yaffs2utils => 2,
    };
    let layout = ImageLayout::with_spare(page, spare, offset, arguments.pages_per_block);
    Ok(ImageForm::new(layout)
        .tags_ecc(!arguments.no_tags_ecc)
        .inband_tags(arguments.inband_tags)
        .whole_blocks(arguments.spare_layout == SpareLayout::Linux))
}

/// The time of all files, if they are all to have the same.
fn fixed_time(times: Times) -> Result<i64> {
    match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(text) if times == Times::Fixed => {
            text.parse().user(|| format!("SOURCE_DATE_EPOCH is not a number of seconds: `{text}`"))
        }
        _ => Ok(0),
    }
}

struct Builder<'a> {
    arguments: &'a ImageArguments,
    time_s: i64,
    /// The folder that the image is made in, if there is one: it may lie in the one that is packed.
    own: Option<(u64, u64)>,
    /// Objects with several names, by device and inode.
    names: HashMap<(u64, u64), Ino>,
}

impl Builder<'_> {
    /// Objects and bytes.
    fn build(&mut self, out: BufWriter<File>, form: &ImageForm, top: &Metadata) -> Result<(u64, u64)> {
        let folder = &self.arguments.folder;
        let mut image = ImageWriter::new(out, form, &self.meta(folder, top)?)?;
        let mut objects = 1;
        // Directories come before what is in them, in the order of their names.
        let mut folders = vec![(folder.clone(), ROOT)];
        while let Some((path, ino)) = folders.pop() {
            let mut deeper = Vec::new();
            for name in names(&path)? {
                let child = path.join(&name);
                let facts = child.symlink_metadata().user(|| format!("cannot examine {}", child.display()))?;
                if Some((facts.dev(), facts.ino())) == self.own {
                    continue;
                }
                if let Some(directory) = self.add(&mut image, ino, &name, &child, &facts)? {
                    deeper.push((child, directory));
                }
                objects += 1;
            }
            folders.extend(deeper.into_iter().rev());
        }
        let mut out = image.finish()?;
        let cannot = || format!("cannot write {}", self.arguments.file.display());
        out.flush().board(cannot)?;
        let file = out.into_inner().map_err(|e| Error::board(cannot()).because(e.into_error().to_string()))?;
        file.sync_all().board(cannot)?;
        Ok((objects, file.metadata().board(cannot)?.len()))
    }

    /// Adds an object; a directory's number.
    fn add(
        &mut self,
        image: &mut ImageWriter<BufWriter<File>>,
        parent: Ino,
        name: &OsStr,
        path: &Path,
        facts: &Metadata,
    ) -> Result<Option<Ino>> {
        let at = || format!("cannot add {} to the image", path.display());
        let bytes = name.as_bytes();
        let key = (facts.dev(), facts.ino());
        if let Some(&target) = self.names.get(&key) {
            image.hard_link(parent, bytes, target).user(at)?;
            return Ok(None);
        }
        let meta = self.meta(path, facts)?;
        let kind = facts.file_type();
        let ino = if kind.is_dir() {
            return image.directory(parent, bytes, &meta).user(at).map(Some);
        } else if kind.is_file() {
            let mut file = File::options()
                .read(true)
                .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32)
                .open(path)
                .user(|| format!("cannot open {}", path.display()))?;
            image.file(parent, bytes, &meta, facts.len(), &mut file).user(at)?
        } else if kind.is_symlink() {
            let target = std::fs::read_link(path).user(|| format!("cannot read {}", path.display()))?;
            image.symlink(parent, bytes, &meta, target.as_os_str().as_bytes()).user(at)?
        } else {
            let (kind, rdev) = match () {
                () if kind.is_fifo() => (FileType::Fifo, 0),
                () if kind.is_socket() => (FileType::Socket, 0),
                () if kind.is_block_device() => (FileType::BlockDevice, device(facts.rdev())),
                () => (FileType::CharDevice, device(facts.rdev())),
            };
            image.special(parent, bytes, &meta, kind, rdev).user(at)?
        };
        if facts.nlink() > 1 {
            self.names.insert(key, ino);
        }
        Ok(None)
    }

    fn meta(&self, path: &Path, facts: &Metadata) -> Result<ImageMeta> {
        let fixed = self.arguments.times == Times::Fixed;
        let time = |time_s: i64| if fixed { self.time_s } else { time_s };
        let (uid, gid) = if self.arguments.root_owned { (0, 0) } else { (facts.uid(), facts.gid()) };
        Ok(ImageMeta::default()
            .permissions((facts.mode() & 0o7777) as u16)
            .uid(uid)
            .gid(gid)
            .atime_s(time(facts.atime()))
            .mtime_s(time(facts.mtime()))
            .ctime_s(time(facts.ctime()))
            .xattrs(xattrs(path)?))
    }
}

/// A device's number as Linux stores it in 32 bits.
fn device(rdev: u64) -> u32 {
    let (major, minor) = (rustix::fs::major(rdev), rustix::fs::minor(rdev));
    minor & 0xFF | (major & 0xFFF) << 8 | (minor & !0xFF) << 12
}

/// The names in a folder, sorted by their bytes.
fn names(folder: &Path) -> Result<Vec<std::ffi::OsString>> {
    let cannot = || format!("cannot list {}", folder.display());
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).user(cannot)? {
        names.push(entry.user(cannot)?.file_name());
    }
    names.sort();
    Ok(names)
}

/// Extended attributes, sorted by name. File systems without them have none.
fn xattrs(path: &Path) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let cannot = |e: Errno, name: &[u8]| {
        Error::user(format!("cannot read the extended attribute {} of {}", shown(name), path.display())).because(e)
    };
    let mut list = vec![0; 64 << 10];
    let bytes = match rustix::fs::llistxattr(path, &mut list[..]) {
        Ok(bytes) => bytes,
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => 0,
        Err(e) => return Err(cannot(e, b"")),
    };
    let mut names: Vec<&[u8]> = list[..bytes].split(|&byte| byte == 0).filter(|name| !name.is_empty()).collect();
    names.sort_unstable();
    let mut found = Vec::new();
    for name in names {
        let mut value = vec![0; 64 << 10];
        let bytes = rustix::fs::lgetxattr(path, name, &mut value[..]).map_err(|e| cannot(e, name))?;
        value.truncate(bytes);
        found.push((name.to_vec(), value));
    }
    Ok(found)
}
