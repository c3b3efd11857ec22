//! What was synced, and by SCMFS's own promise all that has returned, is there after the server was killed. Each case
//! has a part before and a part after; one kill comes between all of the first and all of the second. On ext4 it is
//! unmounted and mounted in between.

use crate::ground::*;
use crate::groups::CrashCase;
use crate::system::Map;
use rustix::fs::{CWD, FallocateFlags, OFlags, XattrFlags, fallocate};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

const KEEP: FallocateFlags = FallocateFlags::KEEP_SIZE;
const PUNCH: FallocateFlags = FallocateFlags::PUNCH_HOLE.union(KEEP);
const P: u64 = PAGE as u64;

/// Syncs a file or a directory.
pub fn sync(path: &Path) -> std::io::Result<()> {
    File::open(path)?.sync_all()
}

/// Writes a file, and syncs it.
pub fn put(path: &Path, text: &[u8]) -> std::io::Result<()> {
    fs::write(path, text)?;
    sync(path)
}

/// There is no such name.
pub fn gone(path: &Path) {
    assert!(of(path).is_err(), "{} is still there", path.display());
}

fn set(path: &Path, name: &str, value: &[u8]) -> rustix::io::Result<()> {
    rustix::fs::setxattr(path, name, value, XattrFlags::empty())
}

fn get(path: &Path, name: &str) -> rustix::io::Result<Vec<u8>> {
    let mut value = vec![0; 4096];
    let len = rustix::fs::getxattr(path, name, &mut value[..])?;
    value.truncate(len);
    Ok(value)
}

/// Fills a file, clears a part of it somehow, and syncs it.
fn cleared(g: &Ground, how: FallocateFlags, offset: u64, len: u64) -> Done {
    let file = g.file("file", &bytes(offset, 16 * PAGE))?;
    file.sync_all()?;
    fallocate(&file, how, offset, len)?;
    Ok(file.sync_all()?)
}

fn is_cleared(g: &Ground, offset: u64, len: u64) -> Done {
    let mut wanted = bytes(offset, 16 * PAGE);
    wanted[offset as usize..(offset + len) as usize].fill(0);
    Ok(holds(&g.at("file"), &wanted))
}

/// Many files, each written in the same way; afterwards each is whole.
fn many(g: &Ground, write: impl Fn(&Path, &[u8]) -> std::io::Result<()>) -> Done {
    for n in 0..60 {
        write(&g.at(&n.to_string()), &bytes(n, 1000 + 100 * n as usize))?;
    }
    Ok(())
}

fn all_whole(g: &Ground) -> Done {
    assert_eq!(names(&g.folder)?.len(), 60);
    (0..60).for_each(|n| holds(&g.at(&n.to_string()), &bytes(n, 1000 + 100 * n as usize)));
    Ok(())
}

/// Contents, sizes and attributes.
pub const DATA: &[CrashCase] = &[
    (
        "generic_034_a_new_name_in_a_synced_directory",
        |g| {
            fs::create_dir(g.at("d"))?;
            put(&g.at("d/a"), b"a")?;
            fs::write(g.at("d/b"), b"b")?;
            Ok(sync(&g.at("d"))?)
        },
        |g| {
            assert_eq!(names(&g.at("d"))?, ["a", "b"]);
            fs::remove_dir_all(g.at("d"))?;
            Ok(())
        },
    ),
    (
        "generic_042_nothing_old_shows",
        |g| {
            put(&g.at("old"), &[b'S'; 64 * PAGE])?;
            fs::remove_file(g.at("old"))?;
            let file = g.file("new", b"")?;
            fallocate(&file, FallocateFlags::empty(), 0, 32 * P)?;
            fallocate(&file, FallocateFlags::ZERO_RANGE, 4 * P, P)?;
            fallocate(&file, PUNCH, 9 * P, P)?;
            Ok(file.sync_all()?)
        },
        |g| Ok(holds(&g.at("new"), &[0; 32 * PAGE])),
    ),
    (
        "generic_043_many_files",
        |g| {
            many(g, |path, text| fs::write(path, text))?;
            Ok(sync(&g.folder)?)
        },
        all_whole,
    ),
    (
        "generic_044_many_files_grown",
        |g| {
            many(g, |path, text| {
                let mut file = File::create(path)?;
                text.chunks(333).try_for_each(|part| file.write_all(part))
            })
        },
        all_whole,
    ),
    (
        "generic_045_many_files_truncated",
        |g| {
            many(g, |path, text| {
                fs::write(path, bytes(1, 20_000))?;
                File::create(path)?.write_all(text)
            })
        },
        all_whole,
    ),
    (
        "generic_046_many_files_sized_first",
        |g| {
            many(g, |path, text| {
                let file = File::create(path)?;
                file.set_len(text.len() as u64)?;
                file.write_all_at(text, 0)
            })
        },
        all_whole,
    ),
    ("generic_047_many_files_synced", |g| many(g, put), all_whole),
    (
        "generic_048_appended_and_synced",
        |g| {
            many(g, |path, text| {
                let mut file = open(path, OFlags::CREATE | OFlags::WRONLY | OFlags::APPEND)?;
                text.chunks(500).try_for_each(|part| {
                    file.write_all(part)?;
                    file.sync_data()
                })
            })
        },
        all_whole,
    ),
    (
        "generic_049_reserved_and_synced",
        |g| {
            many(g, |path, text| {
                let file = File::create(path)?;
                fallocate(&file, FallocateFlags::empty(), 0, text.len() as u64)?;
                file.write_all_at(text, 0)?;
                file.sync_all()
            })
        },
        all_whole,
    ),
    (
        "generic_056_another_link_beside",
        |g| {
            put(&g.at("a"), b"one")?;
            fs::hard_link(g.at("a"), g.at("b"))?;
            open(&g.at("a"), OFlags::WRONLY | OFlags::APPEND)?.write_all(b"two")?;
            Ok(sync(&g.at("a"))?)
        },
        |g| {
            holds(&g.at("a"), b"onetwo");
            Ok(holds(&g.at("b"), b"onetwo"))
        },
    ),
    ("generic_059_punched", |g| cleared(g, PUNCH, 5000, 3000), |g| is_cleared(g, 5000, 3000)),
    (
        "generic_066_attributes_removed",
        |g| {
            fs::write(g.at("a"), b"")?;
            for n in ["user.1", "user.2", "user.3"] {
                set(&g.at("a"), n, n.as_bytes())?;
            }
            sync(&g.at("a"))?;
            rustix::fs::removexattr(g.at("a"), "user.2")?;
            Ok(sync(&g.at("a"))?)
        },
        |g| {
            assert_eq!(
                (get(&g.at("a"), "user.1")?, get(&g.at("a"), "user.3")?),
                (b"user.1".to_vec(), b"user.3".to_vec())
            );
            Ok(fails(get(&g.at("a"), "user.2"), rustix::io::Errno::NODATA))
        },
    ),
    (
        "generic_090_a_link_and_more_bytes",
        |g| {
            put(&g.at("a"), &[1; 8192])?;
            fs::hard_link(g.at("a"), g.at("b"))?;
            rw(&g.at("a"))?.write_all_at(&[2; 8192], 8192)?;
            Ok(sync(&g.at("a"))?)
        },
        |g| Ok(holds(&g.at("b"), &[[1; 8192], [2; 8192]].concat())),
    ),
    (
        "generic_098_truncated_then_written",
        |g| {
            let file = g.file("a", &[1; 10_000])?;
            file.sync_all()?;
            file.set_len(4000)?;
            file.write_all_at(b"end", 20_000)?;
            Ok(file.sync_all()?)
        },
        |g| {
            let mut wanted = vec![1; 4000];
            wanted.resize(20_000, 0);
            wanted.extend(b"end");
            Ok(holds(&g.at("a"), &wanted))
        },
    ),
    (
        "generic_101_truncated_down_and_up",
        |g| {
            let file = g.file("a", &[1; 8192])?;
            file.sync_all()?;
            file.set_len(5000)?;
            file.set_len(9000)?;
            Ok(file.sync_all()?)
        },
        |g| {
            let mut wanted = vec![1; 5000];
            wanted.resize(9000, 0);
            Ok(holds(&g.at("a"), &wanted))
        },
    ),
    (
        "generic_311_one_file_in_all_ways",
        |g| {
            let file = g.file("a", b"")?;
            for n in 0..50u64 {
                file.write_all_at(&bytes(n, 5000), n * 5000)?;
                if n % 3 == 0 { file.sync_all()? } else { file.sync_data()? }
            }
            Ok(())
        },
        |g| Ok(holds(&g.at("a"), &(0..50).flat_map(|n| bytes(n, 5000)).collect::<Vec<_>>())),
    ),
    (
        "generic_322_renamed_after_a_write",
        |g| {
            let file = g.file("a", &[1; 5000])?;
            file.sync_all()?;
            file.write_all_at(&[2; 5000], 5000)?;
            fs::rename(g.at("a"), g.at("b"))?;
            Ok(file.sync_all()?)
        },
        |g| {
            gone(&g.at("a"));
            Ok(holds(&g.at("b"), &[[1; 5000], [2; 5000]].concat()))
        },
    ),
    (
        "generic_325_ranges_of_a_mapping",
        |g| {
            let file = g.file("a", &[0; 4 * PAGE])?;
            file.sync_all()?;
            let map = Map::shared(&file, 0, 4 * PAGE)?;
            map.write(0, &[1; PAGE]);
            map.write(3 * PAGE, &[2; PAGE]);
            map.sync(0, PAGE)?;
            Ok(map.sync(3 * PAGE, PAGE)?)
        },
        |g| Ok(holds(&g.at("a"), &[vec![1; PAGE], vec![0; 2 * PAGE], vec![2; PAGE]].concat())),
    ),
    (
        "generic_392_sizes_and_times",
        |g| {
            let file = g.file("a", &[1; 3000])?;
            file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000))?;
            chmod(&g.at("a"), 0o601)?;
            Ok(file.sync_all()?)
        },
        |g| {
            let found = of(&g.at("a"))?;
            Ok(assert_eq!((found.len(), found.mtime(), found.mode() & 0o7777), (3000, 1_000_000, 0o601)))
        },
    ),
    (
        "generic_468_kept_space",
        |g| {
            let file = g.file("a", &bytes(468, 3000))?;
            fallocate(&file, KEEP, 0, 32 * P)?;
            Ok(file.sync_data()?)
        },
        |g| {
            holds(&g.at("a"), &bytes(468, 3000));
            Ok(assert!(of(&g.at("a"))?.blocks() * 512 >= 32 * P))
        },
    ),
    (
        "generic_474_by_syncfs",
        |g| {
            fs::write(g.at("a"), bytes(474, 50_000))?;
            Ok(rustix::fs::syncfs(File::open(g.top)?)?)
        },
        |g| Ok(holds(&g.at("a"), &bytes(474, 50_000))),
    ),
    (
        "generic_483_kept_space_and_a_write",
        |g| {
            let file = g.file("a", &[1; PAGE])?;
            fallocate(&file, KEEP, 0, 64 * P)?;
            file.sync_all()?;
            file.write_all_at(&[2; PAGE], 3 * P)?;
            Ok(file.sync_data()?)
        },
        |g| Ok(holds(&g.at("a"), &[vec![1; PAGE], vec![0; 2 * PAGE], vec![2; PAGE]].concat())),
    ),
    (
        "generic_489_attributes_of_two",
        |g| {
            for n in ["a", "b"] {
                fs::write(g.at(n), b"")?;
                set(&g.at(n), "user.x", n.as_bytes())?;
            }
            set(&g.at("a"), "user.y", b"y")?;
            Ok(sync(&g.at("a"))?)
        },
        |g| {
            Ok(assert_eq!(
                (get(&g.at("a"), "user.x")?, get(&g.at("a"), "user.y")?, get(&g.at("b"), "user.x")?),
                (b"a".to_vec(), b"y".to_vec(), b"b".to_vec())
            ))
        },
    ),
    (
        "generic_505_owners",
        |g| {
            fs::write(g.at("a"), b"")?;
            std::os::unix::fs::chown(g.at("a"), Some(100), Some(200))?;
            Ok(sync(&g.at("a"))?)
        },
        |g| Ok(assert_eq!((of(&g.at("a"))?.uid(), of(&g.at("a"))?.gid()), (100, 200))),
    ),
    (
        "generic_509_a_nameless_file_named",
        |g| {
            use std::os::fd::AsRawFd;
            let file = open(&g.folder, OFlags::TMPFILE | OFlags::RDWR)?;
            file.write_all_at(b"text", 0)?;
            rustix::fs::linkat(
                CWD,
                format!("/proc/thread-self/fd/{}", file.as_raw_fd()),
                CWD,
                g.at("a"),
                rustix::fs::AtFlags::SYMLINK_FOLLOW,
            )?;
            Ok(file.sync_all()?)
        },
        |g| Ok(holds(&g.at("a"), b"text")),
    ),
    ("generic_512_punched_at_the_end", |g| cleared(g, PUNCH, 15 * P, P), |g| is_cleared(g, 15 * P, P)),
    (
        "generic_535_modes_of_directories",
        |g| {
            fs::create_dir(g.at("a"))?;
            sync(&g.at("a"))?;
            chmod(&g.at("a"), 0o2751)?;
            Ok(sync(&g.at("a"))?)
        },
        |g| Ok(assert_eq!(of(&g.at("a"))?.mode() & 0o7777, 0o2751)),
    ),
    (
        "generic_552_written_past_the_cache_and_renamed",
        |g| {
            fs::create_dir(g.at("d"))?;
            Map::holding(&bytes(552, PAGE))?.write_to(0, PAGE, direct(&g.at("d/a"))?, 0)?;
            fs::rename(g.at("d/a"), g.at("d/b"))?;
            Ok(sync(&g.at("d/b"))?)
        },
        |g| {
            gone(&g.at("d/a"));
            Ok(holds(&g.at("d/b"), &bytes(552, PAGE)))
        },
    ),
    (
        "generic_677_many_kept_pieces",
        |g| {
            let file = g.file("a", &bytes(677, PAGE))?;
            for n in 1..50 {
                fallocate(&file, KEEP, n * 3 * P, P)?;
            }
            Ok(file.sync_all()?)
        },
        |g| {
            holds(&g.at("a"), &bytes(677, PAGE));
            let file = rw(&g.at("a"))?;
            file.set_len(150 * P)?;
            Ok(assert!(fs::read(g.at("a"))?[PAGE..].iter().all(|byte| *byte == 0)))
        },
    ),
    (
        "generic_695_punched_after_a_sync",
        |g| {
            let file = g.file("a", &[1; 16 * PAGE])?;
            file.sync_all()?;
            fallocate(&file, PUNCH, 4 * P, 4 * P)?;
            file.sync_all()?;
            fallocate(&file, PUNCH, 7 * P, 2 * P)?;
            Ok(file.sync_data()?)
        },
        |g| Ok(holds(&g.at("a"), &[vec![1; 4 * PAGE], vec![0; 5 * PAGE], vec![1; 7 * PAGE]].concat())),
    ),
];
