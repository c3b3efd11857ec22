//! One walk through a small volume in anonymous memory, small enough for Miri: creating, writing, views, renaming,
//! closing, and opening again.

use crate::support::region::Shared;
use pocketstone_scmfs::{
    Allocate, CreateOptions, Geometry, Meta, OpenOptions, Operations, ROOT, Rename, SetXattr, Volume, check,
};

const PAGE: u32 = 256;
const HUGE: u32 = 8 * PAGE;

#[test]
fn what_a_volume_in_memory_is_given_it_has_when_it_is_opened_again() {
    for checksums in [false, true] {
        let shared = Shared::new(64 << 10);
        let geometry = Geometry::new(PAGE, HUGE);
        let create = CreateOptions::default().geometry(geometry).checksums(checksums).inodes(16);
        Volume::create(shared.region(), &create).expect("a volume");
        let options = OpenOptions::default().null_files(2).fixed_clock_ns(1);
        let volume = Volume::open(shared.region(), &options).expect("it opens");
        let directory = volume.create_directory(ROOT, b"d", &Meta::directory(0o755)).expect("a directory").ino;
        let file = volume.create_file(directory, b"a", &Meta::file(0o644)).expect("a file");
        let content: Vec<u8> = (0..3 * HUGE).map(|i| (i * 7 % 251) as u8).collect();
        file.write_at(&content, 0).expect("space");
        file.write_at(b"over", 100).expect("space");
        assert_eq!(&file.view().expect("a view")[98..106], [&content[98..100], b"over", &content[104..106]].concat());
        file.write_atomic(b"at once", u64::from(HUGE) - 3).expect("space");
        file.allocate(Allocate::PunchHole, u64::from(2 * PAGE), u64::from(PAGE)).expect("a hole");
        volume.set_xattr(file.ino(), b"user.k", b"v", SetXattr::Any).expect("an attribute");
        volume.rename(directory, b"a", ROOT, b"b", Rename::Replace).expect("another name");
        let expected = {
            let mut expected = content.clone();
            expected[100..104].copy_from_slice(b"over");
            expected[HUGE as usize - 3..][..7].copy_from_slice(b"at once");
            expected[2 * PAGE as usize..3 * PAGE as usize].fill(0);
            expected
        };
        assert_eq!(&file.view().expect("a view")[..], &expected[..]);
        let gone = volume.create_file(directory, b"gone", &Meta::file(0o600)).expect("a file");
        gone.append(&[1; 1000]).expect("space");
        volume.unlink(directory, b"gone").expect("a name");
        drop((file, gone));
        volume.collect();
        volume.close().expect("a clean close");

        let volume = Volume::open(shared.region(), &options).expect("it opens again");
        let file = volume.open(volume.resolve("/b").expect("the name")).expect("the file");
        let mut found = vec![0; expected.len()];
        assert_eq!(file.read_at(&mut found, 0).expect("sound pages"), found.len());
        assert_eq!(found, expected);
        assert_eq!(volume.get_xattr(file.ino(), b"user.k").expect("the attribute"), b"v");
        drop(file);
        // As a process that is killed: the next opening recovers it.
        volume.abandon();
        drop(Volume::open(shared.region(), &options).expect("it is recovered"));
        assert!(check(shared.region()).expect("a volume").findings.is_empty());
    }
}
