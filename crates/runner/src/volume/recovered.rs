//! A chip's raw contents, and a volume on a chip whose power was cut.

use super::kernel_log::KernelLog;
use super::{kept, mtd, ubi};
use crate::block;
use pocketstone_core::block_record::{BLOCK_IMAGE_FILE, BlockImage};
use pocketstone_core::board::BoardDescription;
use pocketstone_core::chip::{CHIP_FILE, Found, SURVIVORS_FILE, Survivor, encode_survivors};
use pocketstone_core::database::{DATABASE_FOLDER, DatabaseEngine};
use pocketstone_core::error::Context;
use pocketstone_core::outcome::Failure;
use pocketstone_core::volume::{Medium, Volume};
use pocketstone_core::{Error, Result};
use pocketstone_engine::database::inspect_rows;
use pocketstone_engine::now_ns;
use pocketstone_media::nand::{RawChip, RawGeometry};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

/// The program's word for [`inspect`].
pub const INSPECT: &str = "inspect-database";
/// A file that shows whether the volume can still be written to.
const NEW_FILE: &str = "pocketstone-after-the-cut";

/// The sizes of the board's chip.
///
/// # Errors
/// `ErrorKind::Board` if there is none.
pub fn chip_geometry(board: &BoardDescription) -> Result<RawGeometry> {
    mtd::chip(board.places.mtd).map(|chip| chip.raw_geometry())
}

/// Leaves the raw contents of the board's chip in `folder`.
///
/// # Errors
/// `ErrorKind::Board` if there is no chip, or it cannot be read.
pub fn read_chip(board: &BoardDescription, folder: &Path) -> Result<()> {
    let chip = mtd::chip(board.places.mtd)?.read_raw().board(|| "cannot read the chip".into())?;
    let path = folder.join(CHIP_FILE);
    fs::write(&path, chip.encode()).board(|| format!("cannot write {}", path.display()))
}

/// Leaves the contents of the board's block device in `folder`.
///
/// # Errors
/// `ErrorKind::Board` if there is none.
pub fn read_block(folder: &Path) -> Result<()> {
    let path = folder.join(BLOCK_IMAGE_FILE);
    fs::write(&path, block::asked::image()?.encode()).board(|| format!("cannot write {}", path.display()))
}

/// Gives the board's chip, which is erased, or its block device, which is all zeros, the contents beside the order,
/// mounts the volume on them, reads all of its files, writes one more, and has the engine open its database, if there
/// is one.
///
/// # Errors
/// `ErrorKind::Board` if the chip has other sizes, or cannot be programmed. What the file system refuses is a finding.
pub fn recover(
    volume: &Volume,
    engine: Option<DatabaseEngine>,
    board: &BoardDescription,
    beside: &Path,
    folder: &Path,
) -> Result<Found> {
    if !board.capabilities.disposable {
        return Err(Error::bug("contents of a chip were sent to a board that goes on with its own"));
    }
    let contents = |name: &str| {
        let path = beside.join(name);
        fs::read(&path).board(|| format!("cannot read {}", path.display()))
    };
    match volume.medium {
        Medium::Block => block::load(&BlockImage::decode(&contents(BLOCK_IMAGE_FILE)?)?, &board.places.block)?,
        _ => load(&RawChip::decode(&contents(CHIP_FILE)?).board(|| format!("{CHIP_FILE} holds no chip"))?, board)?,
    }
    mount_and_look(volume, engine, board, folder)
}

/// Mounts a volume, whose UBI is not attached either, reads all of its files, writes one more, and has the engine open
/// its database, if there is one.
///
/// # Errors
/// `ErrorKind::Board` if what was read cannot be left in `folder`. What the file system refuses is a finding.
pub(super) fn mount_and_look(
    volume: &Volume,
    engine: Option<DatabaseEngine>,
    board: &BoardDescription,
    folder: &Path,
) -> Result<Found> {
    let mut kernel = KernelLog::from_here_on();
    let begin_ns = now_ns();
    let attached = match volume.medium {
        Medium::Ubi => ubi::attach(board.places.mtd),
        _ => Ok(()),
    };
    let mounted = attached.and_then(|()| kept::attach(volume, board));
    let mount_ns = now_ns() - begin_ns;
    let mut found = Found { mount_ns, refused: None, unwritable: None, database: None };
    let mut survivors = Vec::new();
    match mounted {
        Ok(()) => {
            let root = kept::folder(volume, board)?;
            survivors_in(&root, "", &mut survivors);
            kernel.explain(&mut survivors);
            found.unwritable = write_one_more(&root).err().as_ref().map(Failure::from);
            found.database = engine.map(|engine| opened(engine, &root.join(DATABASE_FOLDER)));
        }
        Err(error) => found.refused = Some(Failure { message: error.chain(), hint: kernel.last_words() }),
    }
    let path = folder.join(SURVIVORS_FILE);
    fs::write(&path, encode_survivors(&survivors)).board(|| format!("cannot write {}", path.display()))?;
    Ok(found)
}

/// Programs the board's chip, which is erased, with these contents.
///
/// # Errors
/// `ErrorKind::Board` if it has other sizes, or cannot be programmed.
pub(super) fn load(chip: &RawChip, board: &BoardDescription) -> Result<()> {
    let mut device = mtd::chip(board.places.mtd)?;
    let (own, wanted) = (device.raw_geometry(), chip.geometry());
    if own != wanted {
        return Err(Error::board(format!("the board's chip is {own:?}, the contents are of {wanted:?}")));
    }
    for (page, bytes) in chip.pages() {
        let (data, oob) = bytes.split_at(wanted.page_bytes as usize);
        device
            .program_raw(page, data, oob)
            .map_err(|fault| Error::board(format!("cannot program page {page}: {fault}")))?;
    }
    Ok(())
}

/// What another process of this program finds in a database: damage may kill it.
fn opened(engine: DatabaseEngine, folder: &Path) -> std::result::Result<String, String> {
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let output =
        Command::new(program).args([INSPECT, engine.name()]).arg(folder).output().map_err(|e| e.to_string())?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).trim().to_owned();
    match output.status.success() {
        true => Ok(text(output.stdout)),
        false => Err(format!("{} ({})", text([output.stdout, output.stderr].concat()), output.status)),
    }
}

/// Says the state of the database in a folder.
///
/// # Errors
/// `ErrorKind::User` if there is no such engine; `ErrorKind::Board` if the database cannot be opened or read.
pub fn inspect(engine: &str, folder: &Path, say: impl Fn(&str)) -> Result<()> {
    let known = DatabaseEngine::ALL.into_iter().find(|known| known.name() == engine);
    let engine = known.ok_or_else(|| Error::user(format!("there is no engine `{engine}`")))?;
    inspect_rows(engine, folder).map(|state| say(&format!("{state}\n")))
}

/// Reads everything below a folder; `within` is its path from the volume's root, with a slash at its end.
fn survivors_in(folder: &Path, within: &str, survivors: &mut Vec<Survivor>) {
    let unreadable = |name: String, error: std::io::Error| Survivor { name, content: Err(error.to_string()) };
    let mut entries = match fs::read_dir(folder).and_then(Iterator::collect::<std::io::Result<Vec<_>>>) {
        Ok(entries) => entries,
        Err(error) => return survivors.push(unreadable(format!("{within}."), error)),
    };
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let name = format!("{within}{}", entry.file_name().to_string_lossy());
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => survivors_in(&entry.path(), &format!("{name}/"), survivors),
            Ok(_) => {
                let content = fs::read(entry.path());
                survivors.push(match content {
                    Ok(content) => Survivor { name, content: Ok(content) },
                    Err(error) => unreadable(name, error),
                });
            }
            Err(error) => survivors.push(unreadable(name, error)),
        }
    }
}

fn write_one_more(root: &Path) -> Result<()> {
    let path = root.join(NEW_FILE);
    let written = fs::File::create(&path).and_then(|mut file| {
        file.write_all(&[0xa5; 4096])?;
        file.sync_all()
    });
    written.board(|| format!("cannot write {} and make it durable", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_files_are_read_in_order_with_their_folders() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("b/c")).unwrap();
        for (name, content) in [("a", "1"), ("b/c/d", "2"), ("b/a", ""), ("z", "3")] {
            fs::write(folder.path().join(name), content).unwrap();
        }
        let mut found = Vec::new();
        survivors_in(folder.path(), "", &mut found);
        let short: Vec<_> = found.iter().map(|s| (s.name.as_str(), s.content.as_deref().unwrap())).collect();
        assert_eq!(short, [("a", &b"1"[..]), ("b/a", b""), ("b/c/d", b"2"), ("z", b"3")]);
        write_one_more(folder.path()).unwrap();
        assert!(write_one_more(&folder.path().join("missing")).is_err());
    }
}
