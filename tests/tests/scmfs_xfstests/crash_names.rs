//! Names that were synced, and by SCMFS's own promise all that have been made, are there after the server was killed.

use crate::crash::{gone, put, sync};
use crate::ground::*;
use crate::groups::CrashCase;
use rustix::fs::{CWD, FileType, Mode, RenameFlags, renameat_with};
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

/// Names and links.
pub const CASES: &[CrashCase] = &[
    (
        "generic_039_a_name_less",
        |g| {
            put(&g.at("a"), b"text")?;
            fs::hard_link(g.at("a"), g.at("b"))?;
            sync(&g.at("a"))?;
            fs::remove_file(g.at("b"))?;
            Ok(sync(&g.at("a"))?)
        },
        |g| {
            holds(&g.at("a"), b"text");
            assert_eq!(of(&g.at("a"))?.nlink(), 1);
            Ok(gone(&g.at("b")))
        },
    ),
    (
        "generic_040_many_links",
        |g| {
            fs::write(g.at("a"), b"")?;
            for n in 0..300 {
                fs::hard_link(g.at("a"), g.at(&format!("l{n}")))?;
            }
            Ok(sync(&g.at("a"))?)
        },
        |g| Ok(assert_eq!((of(&g.at("a"))?.nlink(), names(&g.folder)?.len()), (301, 301))),
    ),
    (
        "generic_041_links_replaced",
        |g| {
            fs::write(g.at("a"), b"")?;
            for n in 0..100 {
                fs::hard_link(g.at("a"), g.at(&format!("l{n}")))?;
            }
            sync(&g.at("a"))?;
            fs::remove_file(g.at("l0"))?;
            fs::hard_link(g.at("a"), g.at("l100"))?;
            fs::hard_link(g.at("a"), g.at("l0"))?;
            Ok(sync(&g.at("a"))?)
        },
        |g| Ok(assert_eq!((of(&g.at("a"))?.nlink(), names(&g.folder)?.len()), (102, 102))),
    ),
    (
        "generic_052_a_link_and_its_directory",
        |g| {
            fs::create_dir(g.at("d"))?;
            symlink("target", g.at("d/l"))?;
            Ok(sync(&g.at("d"))?)
        },
        |g| Ok(assert_eq!(fs::read_link(g.at("d/l"))?, Path::new("target"))),
    ),
    (
        "generic_057_a_link_in_another_directory",
        |g| {
            fs::create_dir(g.at("d"))?;
            put(&g.at("a"), b"text")?;
            fs::hard_link(g.at("a"), g.at("d/b"))?;
            fs::remove_file(g.at("a"))?;
            Ok(sync(&g.at("d/b"))?)
        },
        |g| {
            holds(&g.at("d/b"), b"text");
            Ok(gone(&g.at("a")))
        },
    ),
    (
        "generic_065_one_of_two_names",
        |g| {
            fs::create_dir(g.at("d"))?;
            put(&g.at("d/a"), b"a")?;
            fs::hard_link(g.at("d/a"), g.at("d/b"))?;
            fs::hard_link(g.at("d/a"), g.at("d/c"))?;
            fs::remove_file(g.at("d/b"))?;
            sync(&g.at("d"))?;
            Ok(fs::remove_file(g.at("d/c"))?)
        },
        |g| {
            assert_eq!(names(&g.at("d"))?, ["a"]);
            fs::remove_dir_all(g.at("d"))?;
            Ok(())
        },
    ),
    (
        "generic_073_renamed_within_a_moved_one",
        |g| {
            fs::create_dir_all(g.at("a/b"))?;
            put(&g.at("a/b/f"), b"text")?;
            fs::rename(g.at("a/b"), g.at("c"))?;
            Ok(sync(&g.at("c/f"))?)
        },
        |g| {
            holds(&g.at("c/f"), b"text");
            Ok(assert!(names(&g.at("a"))?.is_empty()))
        },
    ),
    (
        "generic_104_links_beside_files",
        |g| {
            fs::write(g.at("a"), b"a")?;
            fs::write(g.at("b"), b"b")?;
            sync(&g.folder)?;
            fs::hard_link(g.at("a"), g.at("a1"))?;
            fs::hard_link(g.at("b"), g.at("b1"))?;
            Ok(sync(&g.at("b"))?)
        },
        |g| {
            assert_eq!(names(&g.folder)?, ["a", "a1", "b", "b1"]);
            Ok(assert_eq!(of(&g.at("b"))?.nlink(), 2))
        },
    ),
    (
        "generic_106_a_name_of_two_removed",
        |g| {
            put(&g.at("a"), b"text")?;
            fs::hard_link(g.at("a"), g.at("b"))?;
            sync(&g.at("b"))?;
            fs::remove_file(g.at("a"))?;
            Ok(sync(&g.at("b"))?)
        },
        |g| {
            gone(&g.at("a"));
            Ok(holds(&g.at("b"), b"text"))
        },
    ),
    (
        "generic_107_links_in_two_directories",
        |g| {
            for d in ["x", "y"] {
                fs::create_dir(g.at(d))?;
            }
            put(&g.at("x/a"), b"a")?;
            fs::hard_link(g.at("x/a"), g.at("y/a"))?;
            fs::remove_file(g.at("x/a"))?;
            Ok(sync(&g.at("y/a"))?)
        },
        |g| {
            assert!(names(&g.at("x"))?.is_empty());
            fs::remove_dir(g.at("x"))?;
            Ok(assert_eq!(of(&g.at("y/a"))?.nlink(), 1))
        },
    ),
    (
        "generic_321_new_directories",
        |g| {
            fs::create_dir_all(g.at("a/b/c"))?;
            put(&g.at("a/b/c/f"), b"f")?;
            fs::rename(g.at("a/b/c/f"), g.at("a/f"))?;
            Ok(sync(&g.at("a"))?)
        },
        |g| {
            holds(&g.at("a/f"), b"f");
            Ok(assert!(names(&g.at("a/b/c"))?.is_empty()))
        },
    ),
    (
        "generic_335_moved_and_its_old_directory",
        |g| {
            for d in ["a", "a/b", "c"] {
                fs::create_dir(g.at(d))?;
            }
            put(&g.at("a/b/f"), b"f")?;
            fs::rename(g.at("a/b/f"), g.at("c/f"))?;
            fs::write(g.at("a/n"), b"")?;
            Ok(sync(&g.at("a"))?)
        },
        |g| {
            assert!(names(&g.at("a/b"))?.is_empty());
            holds(&g.at("c/f"), b"f");
            Ok(assert!(g.at("a/n").exists()))
        },
    ),
    (
        "generic_336_two_links_moved",
        |g| {
            for d in ["a", "b"] {
                fs::create_dir(g.at(d))?;
            }
            put(&g.at("a/f"), b"f")?;
            fs::hard_link(g.at("a/f"), g.at("b/l"))?;
            fs::rename(g.at("a/f"), g.at("b/f"))?;
            fs::rename(g.at("b/l"), g.at("a/l"))?;
            Ok(sync(&g.at("a/l"))?)
        },
        |g| {
            holds(&g.at("a/l"), b"f");
            Ok(holds(&g.at("b/f"), b"f"))
        },
    ),
    (
        "generic_341_a_directory_and_a_new_one",
        |g| {
            fs::create_dir_all(g.at("a/x"))?;
            put(&g.at("a/x/f"), b"f")?;
            fs::rename(g.at("a/x"), g.at("a/y"))?;
            fs::create_dir(g.at("a/x"))?;
            Ok(sync(&g.at("a/x"))?)
        },
        |g| {
            holds(&g.at("a/y/f"), b"f");
            Ok(assert!(names(&g.at("a/x"))?.is_empty()))
        },
    ),
    (
        "generic_342_a_file_and_a_new_one",
        |g| {
            put(&g.at("a"), b"old")?;
            fs::rename(g.at("a"), g.at("b"))?;
            put(&g.at("a"), b"new")?;
            Ok(())
        },
        |g| {
            holds(&g.at("a"), b"new");
            Ok(holds(&g.at("b"), b"old"))
        },
    ),
    (
        "generic_343_a_link_in_a_new_directory",
        |g| {
            put(&g.at("a"), b"a")?;
            fs::create_dir(g.at("x"))?;
            fs::create_dir(g.at("y"))?;
            put(&g.at("x/f"), b"f")?;
            fs::hard_link(g.at("a"), g.at("y/l"))?;
            fs::rename(g.at("x/f"), g.at("y/f"))?;
            Ok(sync(&g.at("a"))?)
        },
        |g| {
            assert_eq!(names(&g.at("y"))?, ["f", "l"]);
            Ok(holds(&g.at("y/f"), b"f"))
        },
    ),
    (
        "generic_348_targets",
        |g| {
            fs::create_dir(g.at("d"))?;
            for n in [1, 100, 3000] {
                symlink("x".repeat(n), g.at(&format!("d/{n}")))?;
            }
            Ok(sync(&g.at("d"))?)
        },
        |g| {
            for n in [1, 100, 3000] {
                assert_eq!(fs::read_link(g.at(&format!("d/{n}")))?.as_os_str().len(), n);
            }
            Ok(())
        },
    ),
    (
        "generic_376_renamed_to_a_removed_name",
        |g| {
            put(&g.at("a"), b"a")?;
            put(&g.at("b"), b"b")?;
            fs::remove_file(g.at("a"))?;
            fs::rename(g.at("b"), g.at("a"))?;
            Ok(sync(&g.at("a"))?)
        },
        |g| {
            gone(&g.at("b"));
            Ok(holds(&g.at("a"), b"b"))
        },
    ),
    (
        "generic_479_special_files_replaced",
        |g| {
            rustix::fs::mknodat(CWD, g.at("a"), FileType::Fifo, Mode::from_raw_mode(0o600), 0)?;
            sync(&g.folder)?;
            fs::remove_file(g.at("a"))?;
            put(&g.at("a"), b"a")?;
            Ok(())
        },
        |g| Ok(holds(&g.at("a"), b"a")),
    ),
    (
        "generic_480_two_names_turned",
        |g| {
            put(&g.at("a"), b"a")?;
            fs::hard_link(g.at("a"), g.at("b"))?;
            sync(&g.at("a"))?;
            fs::rename(g.at("b"), g.at("c"))?;
            put(&g.at("b"), b"b")?;
            Ok(())
        },
        |g| {
            holds(&g.at("b"), b"b");
            holds(&g.at("c"), b"a");
            Ok(assert_eq!(of(&g.at("a"))?.nlink(), 2))
        },
    ),
    (
        "generic_481_a_link_where_a_name_was",
        |g| {
            put(&g.at("a"), b"a")?;
            fs::hard_link(g.at("a"), g.at("b"))?;
            fs::remove_file(g.at("b"))?;
            symlink("a", g.at("b"))?;
            Ok(sync(&g.at("a"))?)
        },
        |g| {
            assert!(of(&g.at("b"))?.is_symlink());
            Ok(holds(&g.at("b"), b"a"))
        },
    ),
    (
        "generic_498_a_directory_and_a_link",
        |g| {
            for d in ["a", "b", "c"] {
                fs::create_dir(g.at(d))?;
            }
            put(&g.at("a/f"), b"f")?;
            fs::hard_link(g.at("a/f"), g.at("b/f"))?;
            fs::rename(g.at("c"), g.at("b/c"))?;
            Ok(sync(&g.at("b/f"))?)
        },
        |g| {
            assert_eq!(names(&g.at("b"))?, ["c", "f"]);
            Ok(gone(&g.at("c")))
        },
    ),
    (
        "generic_502_links_turned_round",
        |g| {
            put(&g.at("a"), b"a")?;
            put(&g.at("b"), b"b")?;
            fs::hard_link(g.at("a"), g.at("c"))?;
            fs::remove_file(g.at("b"))?;
            fs::hard_link(g.at("c"), g.at("b"))?;
            Ok(sync(&g.at("b"))?)
        },
        |g| Ok(assert_eq!((of(&g.at("a"))?.nlink(), fs::read(g.at("b"))?), (3, b"a".to_vec()))),
    ),
    (
        "generic_510_directories_turned",
        |g| {
            for d in ["a", "b"] {
                fs::create_dir(g.at(d))?;
            }
            put(&g.at("a/f"), b"f")?;
            fs::rename(g.at("a"), g.at("c"))?;
            fs::rename(g.at("b"), g.at("a"))?;
            put(&g.at("a/n"), b"n")?;
            Ok(())
        },
        |g| {
            assert_eq!((names(&g.at("a"))?, names(&g.at("c"))?), (vec!["n".to_owned()], vec!["f".to_owned()]));
            Ok(())
        },
    ),
    (
        "generic_520_links_directories_and_files",
        |g| {
            for d in ["a", "a/c", "b"] {
                fs::create_dir(g.at(d))?;
            }
            for f in ["x", "a/x", "a/c/x", "b/x"] {
                put(&g.at(f), f.as_bytes())?;
                fs::hard_link(g.at(f), g.at(&format!("{f}-l")))?;
                sync(&g.at(f))?;
            }
            Ok(())
        },
        |g| {
            for f in ["x", "a/x", "a/c/x", "b/x"] {
                holds(&g.at(&format!("{f}-l")), f.as_bytes());
                assert_eq!(of(&g.at(f))?.nlink(), 2);
            }
            Ok(())
        },
    ),
    (
        "generic_526_a_file_moved_over_a_link",
        |g| {
            put(&g.at("a"), b"a")?;
            fs::hard_link(g.at("a"), g.at("b"))?;
            put(&g.at("c"), b"c")?;
            fs::rename(g.at("c"), g.at("b"))?;
            Ok(sync(&g.at("b"))?)
        },
        |g| {
            holds(&g.at("b"), b"c");
            Ok(assert_eq!(of(&g.at("a"))?.nlink(), 1))
        },
    ),
    (
        "generic_527_two_files_change_places",
        |g| {
            put(&g.at("a"), b"a")?;
            put(&g.at("b"), b"b")?;
            renameat_with(CWD, g.at("a"), CWD, g.at("b"), RenameFlags::EXCHANGE)?;
            Ok(sync(&g.at("a"))?)
        },
        |g| {
            holds(&g.at("a"), b"b");
            Ok(holds(&g.at("b"), b"a"))
        },
    ),
    (
        "generic_534_a_directory_after_its_old_parent",
        |g| {
            fs::create_dir_all(g.at("a/b"))?;
            put(&g.at("a/b/f"), b"f")?;
            fs::rename(g.at("a/b"), g.at("b"))?;
            fs::remove_dir(g.at("a"))?;
            Ok(sync(&g.at("b"))?)
        },
        |g| {
            gone(&g.at("a"));
            Ok(holds(&g.at("b/f"), b"f"))
        },
    ),
    (
        "generic_557_forgotten_and_removed",
        |g| {
            fs::create_dir(g.at("d"))?;
            put(&g.at("d/a"), b"a")?;
            fs::write("/proc/sys/vm/drop_caches", "2")?;
            fs::remove_file(g.at("d/a"))?;
            Ok(sync(&g.at("d"))?)
        },
        |g| Ok(gone(&g.at("d/a"))),
    ),
    (
        "generic_640_moved_out_and_renamed",
        |g| {
            fs::create_dir(g.at("d"))?;
            put(&g.at("d/a"), b"a")?;
            fs::rename(g.at("d/a"), g.at("a"))?;
            fs::rename(g.at("d"), g.at("e"))?;
            Ok(sync(&g.at("e"))?)
        },
        |g| {
            gone(&g.at("d"));
            assert!(names(&g.at("e"))?.is_empty());
            Ok(holds(&g.at("a"), b"a"))
        },
    ),
    (
        "generic_690_long_targets",
        |g| {
            fs::create_dir(g.at("d"))?;
            sync(&g.at("d"))?;
            symlink("y".repeat(300), g.at("d/l"))?;
            Ok(sync(&g.at("d"))?)
        },
        |g| Ok(assert_eq!(fs::read_link(g.at("d/l"))?.as_os_str().len(), 300)),
    ),
];
