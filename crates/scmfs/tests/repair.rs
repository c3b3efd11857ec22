//! fsck mends what it can without tearing apart what is sound.

use crate::support::region::Shared;
use crate::support::subject::walk;
use pocketstone_media::Region;
use pocketstone_scmfs::{
    CreateOptions, Dump, Error, Geometry, Ino, Meta, OpenOptions, Operations, ROOT, Report, Threshold, Volume, check,
    dump, repair,
};

const GEOMETRY: Geometry = Geometry::new(256, 4096);

fn volume() -> Shared {
    let shared = Shared::new(1 << 20);
    let threshold = Threshold::Bytes(2048);
    let options = CreateOptions::default().inodes(512).geometry(GEOMETRY).threshold(threshold);
    Volume::create(shared.region(), &options).expect("a volume");
    shared
}

fn open(shared: &Shared) -> Volume {
    Volume::open(shared.region(), &OpenOptions::default().null_files(0)).expect("it opens")
}

/// Where a table starts, from the dump of the superblock: not from the code that is tested.
fn offset(shared: &Shared, field: &str) -> u64 {
    let text = dump(shared.region(), &Dump::Superblock).expect("a superblock");
    let value = text.lines().find_map(|line| line.trim().strip_prefix(field)).expect("the field");
    value.trim().parse().expect("a number")
}

/// An inode's halves: 256 bytes for each inode from 1 on, as docs/scmfs-format.md has it.
fn inode_at(shared: &Shared, ino: Ino) -> u64 {
    offset(shared, "inode table at") + u64::from(ino - 1) * 256
}

fn flip(shared: &Shared, at: u64) {
    let mut byte = [0];
    shared.read(at, &mut byte);
    shared.overwrite(at, &[byte[0] ^ 0x10]);
}

fn mended(shared: &Shared) -> Report {
    let report = repair(shared.region()).expect("a volume");
    assert!(!report.findings.is_empty(), "nothing was found");
    assert!(report.findings.iter().all(|finding| finding.repaired), "{report:#?}");
    let again = check(shared.region()).expect("a volume");
    assert!(again.clean && again.findings.is_empty(), "{again:#?}");
    report
}

/// `/a/b/c/file`, and a second name for the file.
fn some_tree(v: &Volume) {
    let mut at = ROOT;
    for name in [b"a", b"b", b"c"] {
        at = v.create_directory(at, name, &Meta::directory(0o755)).expect("new").ino;
    }
    let file = v.create_file(at, b"file", &Meta::file(0o644)).expect("new");
    file.write_at(b"content", 0).expect("space");
    v.link(file.ino(), at, b"link").expect("new");
}

#[test]
fn one_damaged_half_of_an_inode_costs_nothing() {
    let shared = volume();
    let v = open(&shared);
    some_tree(&v);
    let before = walk(&v).expect("sound");
    v.close().expect("closed");
    // Two changes of the root have been stored: whichever half is older, one of them is hit.
    let at = inode_at(&shared, ROOT);
    let mut halves = [0; 256];
    shared.read(at, &mut halves);
    let sequence = |half: usize| u32::from_le_bytes(halves[half * 128..half * 128 + 4].try_into().expect("four"));
    let older = if sequence(0) < sequence(1) { 0 } else { 128 };
    flip(&shared, at + older + 30);
    mended(&shared);
    assert_eq!(walk(&open(&shared)).expect("sound"), before);
}

#[test]
fn what_hung_together_still_does_when_the_root_is_lost() {
    let shared = volume();
    let v = open(&shared);
    some_tree(&v);
    v.close().expect("closed");
    let at = inode_at(&shared, ROOT);
    flip(&shared, at + 30);
    flip(&shared, at + 128 + 30);
    mended(&shared);
    let v = open(&shared);
    let tree = walk(&v).expect("sound");
    let names: Vec<&str> = tree.keys().map(String::as_str).filter(|path| path.len() > 1).collect();
    let top = names[1].to_string();
    assert!(top.starts_with("/lost+found/#"), "{names:?}");
    let below = |rest: &str| format!("{top}{rest}");
    assert_eq!(names[0], "/lost+found");
    assert_eq!(names[2..], [below("/b"), below("/b/c"), below("/b/c/file"), below("/b/c/link")]);
    let ino = v.resolve(&below("/b/c/link")).expect("there");
    let mut content = [0; 7];
    v.open(ino).expect("there").read_at(&mut content, 0).expect("a read");
    assert_eq!(&content, b"content");
}

#[test]
fn a_directory_that_lost_a_huge_page_can_be_used_again() {
    let shared = volume();
    let v = open(&shared);
    let directory = v.create_directory(ROOT, b"d", &Meta::directory(0o755)).expect("new").ino;
    for i in 0..300 {
        drop(v.create_file(directory, format!("{i:03}").as_bytes(), &Meta::file(0o644)).expect("space"));
    }
    v.close().expect("closed");
    let mapping = dump(shared.region(), &Dump::Mapping).expect("a table");
    let owned = format!("inode {directory}, page 1,");
    let line = mapping.lines().find(|line| line.contains(&owned)).expect("a large directory has huge pages");
    let segment: u64 = line.split(' ').next().and_then(|word| word.parse().ok()).expect("a number");
    // One copy is enough; without both of them it is damage.
    let copies = ["mapping table at", "second mapping table at"].map(|table| offset(&shared, table) + segment * 16);
    for damaged in copies {
        flip(&shared, damaged + 5);
        open(&shared).close().expect("closed");
        // The opening wrote it anew.
        let entries = copies.map(|at| {
            let mut entry = [0; 16];
            shared.read(at, &mut entry);
            entry
        });
        assert_eq!(entries[0], entries[1]);
    }
    copies.iter().for_each(|at| flip(&shared, at + 5));
    assert!(matches!(Volume::open(shared.region(), &OpenOptions::default()), Err(Error::Damaged(_))));
    mended(&shared);
    let v = open(&shared);
    let tree = walk(&v).expect("sound");
    // 64 names lay in the lost page; their files are in lost+found now.
    assert_eq!(tree.keys().filter(|path| path.starts_with("/d/")).count(), 300 - 64);
    assert_eq!(tree.keys().filter(|path| path.starts_with("/lost+found/#")).count(), 64);
    for i in 0..300 {
        match v.create_file(directory, format!("{i:03}").as_bytes(), &Meta::file(0o644)) {
            Ok(_) | Err(Error::Exists) => {}
            Err(error) => panic!("{i}: {error}"),
        }
    }
}

#[test]
fn a_cookie_whose_entry_is_gone_still_leads_on() {
    let shared = volume();
    let v = open(&shared);
    for name in ["aa", "bb", "cc", "dd"] {
        drop(v.create_file(ROOT, name.as_bytes(), &Meta::file(0o644)).expect("new"));
    }
    let mut cookies = Vec::new();
    v.read_directory(ROOT, 0, &mut |entry| {
        cookies.push(entry.cookie);
        true
    })
    .expect("a directory");
    for name in ["aa", "bb", "cc"] {
        v.unlink(ROOT, name.as_bytes()).expect("there");
    }
    v.close().expect("closed");
    let v = open(&shared);
    // Three slots: where aa, bb and cc were. Its second one lies at the cookie of aa.
    drop(v.create_file(ROOT, &[0xEE; 150], &Meta::file(0o644)).expect("new"));
    for (cookie, left) in [(cookies[0], 1), (cookies[1], 1), (cookies[2], 1), (cookies[3], 0), (0, 2)] {
        let mut names = 0;
        v.read_directory(ROOT, cookie, &mut |_| {
            names += 1;
            true
        })
        .expect("a directory");
        assert_eq!(names, left, "after cookie {cookie}");
    }
}

#[test]
fn what_is_lost_is_named_with_its_size() {
    let shared = volume();
    let v = open(&shared);
    some_tree(&v);
    let photo = v.create_file(v.resolve("/a/b").expect("there"), b"photo.jpg", &Meta::file(0o644)).expect("new");
    photo.write_at(&[7; 1500], 0).expect("space");
    // A second change: both versions name the size.
    photo.write_at(&[8; 100], 0).expect("space");
    let ino = photo.ino();
    drop(photo);
    v.set_attributes(ino, &pocketstone_scmfs::SetAttr::default().permissions(Some(0o600))).expect("there");
    v.set_attributes(ino, &pocketstone_scmfs::SetAttr::default().permissions(Some(0o640))).expect("there");
    v.close().expect("closed");
    let at = inode_at(&shared, ino);
    flip(&shared, at + 40);
    flip(&shared, at + 128 + 40);
    let report = mended(&shared);
    let named: Vec<_> =
        report.findings.iter().filter(|finding| finding.path.as_deref() == Some("/a/b/photo.jpg")).collect();
    assert!(!named.is_empty() && named.iter().any(|finding| finding.size == Some(1500)), "{report:#?}");
    assert!(
        named.iter().any(|finding| finding.what.contains("/a/b/photo.jpg") && finding.what.contains("1,500 bytes"))
    );
}

#[test]
fn a_file_called_lost_and_found_is_left_alone() {
    let shared = volume();
    let v = open(&shared);
    some_tree(&v);
    drop(v.create_file(ROOT, b"lost+found", &Meta::file(0o644)).expect("new"));
    let b = v.resolve("/a").expect("there");
    v.close().expect("closed");
    let at = inode_at(&shared, b);
    shared.overwrite(at, &[0; 256]);
    mended(&shared);
    let tree = walk(&open(&shared)).expect("sound");
    assert_eq!(tree["/lost+found"].kind, pocketstone_scmfs::FileType::Regular);
    assert!(
        tree.keys().any(|path| path.starts_with("/lost+found.1/#") && path.ends_with("/c/file")),
        "{:?}",
        tree.keys()
    );
}

#[test]
fn a_torn_half_is_told_apart_from_a_clean_volume() {
    let shared = volume();
    let v = open(&shared);
    some_tree(&v);
    let file = v.resolve("/a/b/c/file").expect("there");
    v.abandon();
    let sound = check(shared.region()).expect("a volume");
    assert!(!sound.clean && sound.torn_versions == 0 && sound.findings.is_empty(), "{sound:#?}");
    let at = inode_at(&shared, file);
    let mut halves = [0; 256];
    shared.read(at, &mut halves);
    let sequence = |half: usize| u32::from_le_bytes(halves[half * 128..half * 128 + 4].try_into().expect("four"));
    flip(&shared, at + if sequence(0) < sequence(1) { 0 } else { 128 } + 30);
    let torn = check(shared.region()).expect("a volume");
    assert!(torn.torn_versions == 1 && torn.findings.is_empty(), "{torn:#?}");
    open(&shared).close().expect("closed");
    let after = check(shared.region()).expect("a volume");
    assert!(after.clean && after.torn_versions == 0 && after.findings.is_empty(), "{after:#?}");
}

/// With an older half, a file says again that it has pages which another one has by now: it gets copies of all, and
/// only what the other one has written is not its own.
#[test]
fn a_copy_of_pages_has_their_checksums_and_another_files_page_is_not_its_content() {
    const PAGE: usize = 256;
    let shared = Shared::new(1 << 20);
    let options = CreateOptions::default().inodes(512).geometry(GEOMETRY).threshold(Threshold::Never).checksums(true);
    Volume::create(shared.region(), &options).expect("a volume");
    let v = open(&shared);
    let file = v.create_file(ROOT, b"a", &Meta::file(0o644)).expect("new");
    file.write_at(&[b'a'; 6 * PAGE], 0).expect("space");
    let ino = file.ino();
    file.truncate(0).expect("shorter");
    drop(file);
    v.close().expect("closed");
    let v = open(&shared);
    let other = v.create_file(ROOT, b"b", &Meta::file(0o644)).expect("new");
    other.write_at(&[b'b'; PAGE], 0).expect("space");
    drop(other);
    v.close().expect("closed");
    let at = inode_at(&shared, ino);
    let mut halves = [0; 256];
    shared.read(at, &mut halves);
    let sequence = |half: usize| u32::from_le_bytes(halves[half * 128..half * 128 + 4].try_into().expect("four"));
    flip(&shared, at + if sequence(0) > sequence(1) { 0 } else { 128 } + 30);
    let report = mended(&shared);
    assert!(report.findings.iter().any(|finding| finding.what.contains("it gets a copy")), "{report:#?}");
    let v = open(&shared);
    let file = v.open(ino).expect("it is there");
    let pages: Vec<bool> = (0..6)
        .map(|page| {
            let mut bytes = [0; PAGE];
            let read = file.read_at(&mut bytes, (page * PAGE) as u64);
            assert!(read.is_err() || bytes == [b'a'; PAGE], "page {page} has another file's bytes");
            read.is_ok()
        })
        .collect();
    assert_eq!(pages.iter().filter(|read| !**read).count(), 1, "{pages:?}");
}
