//! fsck knows lists of extents, and parts of the inode table in the data area: images that are made by hand, from
//! docs/scmfs-format.md.

use crate::support::region::Shared;
use pocketstone_media::Region;
use pocketstone_scmfs::{
    CreateOptions, FindingKind, Geometry, Ino, Meta, OpenOptions, Operations, ROOT, Report, Threshold, Volume, check,
    repair,
};

const PAGE: u64 = 256;
const HUGE: u64 = 4096;
const INODES: u32 = 32;

/// A volume in use, with a file of 600 bytes: no free map is looked at.
fn volume() -> (Shared, Ino) {
    volume_of(96 << 10, 2 * HUGE)
}

fn volume_of(bytes: u64, small_bytes: u64) -> (Shared, Ino) {
    let shared = Shared::new(bytes);
    let geometry = Geometry::new(PAGE as u32, HUGE as u32);
    let threshold = Threshold::Bytes(2048);
    let create = CreateOptions::default()
        .inodes(INODES)
        .geometry(geometry)
        .threshold(threshold)
        .small_bytes(small_bytes)
        .max_bytes(bytes);
    Volume::create(shared.region(), &create).expect("a volume");
    let options = OpenOptions::default().null_files(0);
    let volume = Volume::open(shared.region(), &options).expect("it opens");
    let file = volume.create_file(ROOT, b"file", &Meta::file(0o644)).expect("new");
    file.write_at(&[1; 600], 0).expect("space");
    let ino = file.ino();
    volume.abandon();
    drop(file);
    (shared, ino)
}

fn word(shared: &Shared, at: u64) -> u32 {
    let mut b = [0; 4];
    shared.read(at, &mut b);
    u32::from_le_bytes(b)
}

fn long(shared: &Shared, at: u64) -> u64 {
    u64::from(word(shared, at)) | u64::from(word(shared, at + 4)) << 32
}

fn crc(seed: u32, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(seed, bytes)
}

/// Sets words of an inode's newest version, with the right checksum; the offset of the version.
fn edit(shared: &Shared, ino: Ino, words: &[(usize, u32)]) -> u64 {
    let at = long(shared, 56) + u64::from(ino - 1) * 256;
    let is_odd = word(shared, at + 128).wrapping_sub(word(shared, at)) as i32 > 0;
    let at = at + if is_odd { 128 } else { 0 };
    let mut version = [0; 128];
    shared.read(at, &mut version);
    for (place, value) in words {
        version[*place..place + 4].copy_from_slice(&value.to_le_bytes());
    }
    let right = crc(crc(ino, &version[..4]), &version[8..]);
    version[4..8].copy_from_slice(&right.to_le_bytes());
    shared.overwrite(at, &version);
    at
}

fn list(ino: Ino, extents: &[[u32; 3]]) -> Vec<u8> {
    let mut b = vec![0; 4];
    b.extend((extents.len() as u32).to_le_bytes());
    b.extend(extents.iter().flatten().flat_map(|word| word.to_le_bytes()));
    let right = crc(ino, &b[4..]);
    b[..4].copy_from_slice(&right.to_le_bytes());
    b
}

fn look(shared: &Shared) -> Report {
    check(shared.region()).expect("a volume")
}

fn kinds(report: &Report) -> Vec<&str> {
    report.findings.iter().map(|finding| finding.kind.name()).collect()
}

/// Gives the file a list in page 28 of the data area, for a size of 10 pages.
fn with_list(extents: &[[u32; 3]]) -> (Shared, Ino) {
    let (shared, ino) = volume();
    let b = list(ino, extents);
    shared.overwrite(long(&shared, 80) + 28 * PAGE, &b);
    edit(&shared, ino, &[(24, 10 * PAGE as u32), (104, 28), (108, 1), (112, extents.len() as u32)]);
    (shared, ino)
}

#[test]
fn a_sound_list_is_no_finding_and_its_pages_are_counted() {
    let (plain, _) = volume();
    let (shared, _) = with_list(&[[5, 24, 2], [9, 27, 1]]);
    let report = look(&shared);
    assert!(report.findings.is_empty(), "{report:#?}");
    assert_eq!(report.bytes_used, look(&plain).bytes_used + 4 * PAGE);
}

#[test]
fn lists_that_cannot_be_are_found() {
    for (what, extents, expected) in [
        ("beyond the volume", &[[5, 4_000_000, 2]][..], vec!["list"]),
        ("as long as can be", &[[5, 24, u32::MAX - 5]], vec!["list"]),
        ("in the file's own run", &[[0, 24, 2]], vec!["list"]),
        ("a huge page that is free", &[[5, 40, 1]], vec!["mapping"]),
        ("where the list itself lies", &[[5, 28, 1]], vec!["page"]),
    ] {
        let (shared, _) = with_list(extents);
        let report = look(&shared);
        assert_eq!(kinds(&report), expected, "{what}: {report:#?}");
        assert!(
            report
                .findings
                .iter()
                .all(|finding| finding.kind == FindingKind::Mapping || finding.path.as_deref() == Some("/file"))
        );
    }
    let (shared, _) = with_list(&[[5, 24, 2]]);
    shared.overwrite(long(&shared, 80) + 28 * PAGE + 9, &[0xff]);
    assert_eq!(kinds(&look(&shared)), ["list"]);
}

fn entry(segment: u32, owner: u32, index: u32) -> Vec<u8> {
    let mut b: Vec<u8> = [owner, index, 0].iter().flat_map(|word| word.to_le_bytes()).collect();
    let right = crc(segment + 1, &b);
    b.extend(right.to_le_bytes());
    b
}

#[test]
fn a_part_of_the_inode_table_is_known_by_what_it_holds() {
    let (shared, ino) = volume();
    let (mapping_at, mirror_at, data_at) = (long(&shared, 64), long(&shared, 192), long(&shared, 80));
    // The file's inode moves to the table's first part in the data area, in huge page 4.
    let (segment, moved) = (4, INODES + 3);
    for table in [mapping_at, mirror_at] {
        shared.overwrite(table + 16 * segment, &entry(segment as u32, u32::MAX - 1, 0));
    }
    let from = edit(&shared, ino, &[]);
    let mut version = [0; 128];
    shared.read(from, &mut version);
    version[..4].copy_from_slice(&1u32.to_le_bytes());
    let right = crc(crc(moved, &version[..4]), &version[8..]);
    version[4..8].copy_from_slice(&right.to_le_bytes());
    shared.overwrite(data_at + segment * HUGE + 2 * 256 + 128, &version);
    shared.overwrite(long(&shared, 56) + u64::from(ino - 1) * 256, &[0; 256]);
    // Its name, in the first slot of the root.
    let root = data_at + u64::from(word(&shared, edit(&shared, ROOT, &[]) + 64)) * PAGE;
    let mut name = [0; 64];
    shared.read(root, &mut name);
    assert_eq!(name[16..20], *b"file");
    name[..4].copy_from_slice(&moved.to_le_bytes());
    let right = crc(crc(crc(ROOT, &0u32.to_le_bytes()), &name[..4]), &name[8..20]);
    name[4..8].copy_from_slice(&right.to_le_bytes());
    shared.overwrite(root, &name);
    // The journal's newest record would undo it.
    shared.overwrite(long(&shared, 40), &vec![0; long(&shared, 48) as usize]);
    let report = look(&shared);
    assert!(report.findings.is_empty() && report.files == 1, "{report:#?}");
    for table in [mapping_at, mirror_at] {
        shared.overwrite(table + 16 * segment, &[0; 16]);
    }
    let report = look(&shared);
    assert_eq!(kinds(&report), ["mapping"], "{report:#?}");
    assert_eq!((report.files, report.inodes_used), (1, 2));
}

/// Two huge pages can be made of the long extent, which leaves one more.
#[test]
fn a_list_that_would_be_longer_than_the_limit_stays_as_it_is() {
    const EXTENTS_MAX: u32 = 5460;
    let pages = 300 + 48 + EXTENTS_MAX;
    let (shared, ino) = volume_of(2 << 20, u64::from(pages) * PAGE);
    let single = |i: u32| [58 + 2 * i, 348 + i, 1];
    let extents: Vec<[u32; 3]> = std::iter::once([8, 300, 48]).chain((0..EXTENTS_MAX - 1).map(single)).collect();
    shared.overwrite(long(&shared, 80) + 40 * PAGE, &list(ino, &extents));
    let size = (60 + 2 * EXTENTS_MAX) * PAGE as u32;
    edit(&shared, ino, &[(24, size), (64, 0), (68, 0), (104, 40), (108, 256), (112, EXTENTS_MAX)]);
    let volume = Volume::open(shared.region(), &OpenOptions::default().null_files(0)).expect("it opens");
    volume.collect();
    volume.close().expect("it is closed");
    let report = look(&shared);
    assert!(report.clean && report.findings.is_empty(), "{report:#?}");
    assert_eq!(word(&shared, edit(&shared, ino, &[]) + 112), EXTENTS_MAX);
}

#[test]
fn an_old_copy_of_an_entry_does_not_make_a_files_content_a_part_of_the_inode_table() {
    let content = [7; 3 * HUGE as usize];
    for stale in [64, 192] {
        let (shared, ino) = volume();
        let options = OpenOptions::default().null_files(0);
        let volume = Volume::open(shared.region(), &options).expect("it opens");
        volume.open(ino).expect("it is there").write_at(&content, 0).expect("space");
        volume.close().expect("it is closed");
        let table = long(&shared, stale);
        let segment = (0..).find(|segment| word(&shared, table + 16 * segment) == ino).expect("it has huge pages");
        shared.overwrite(table + 16 * segment, &entry(segment as u32, u32::MAX - 1, 0));
        let report = repair(shared.region()).expect("a volume");
        assert_eq!(kinds(&report), ["mapping"], "{report:#?}");
        assert!(look(&shared).findings.is_empty());
        let volume = Volume::open(shared.region(), &options).expect("it opens");
        let mut found = [0; 3 * HUGE as usize];
        volume.open(ino).expect("it is there").read_at(&mut found, 0).expect("it can be read");
        assert!(found == content, "table at {table}");
        volume.abandon();
    }
}
