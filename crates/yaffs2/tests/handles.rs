//! Files that are open: what they keep, and for how long.

use pocketstone_media::nand::{Access, Geometry, ImageLayout, ImageNand, SimulatedNand, SimulatedOptions};
use pocketstone_vfs::{Error, Meta, Operations, ROOT};
use pocketstone_yaffs2::{OpenOptions, Volume};

fn volume() -> Volume {
    let geometry = Geometry { page_bytes: 2048, spare_bytes: 38, pages_per_block: 16, blocks: 64 };
    let chip = SimulatedNand::new(geometry, SimulatedOptions::default());
    Volume::open(Box::new(chip), &OpenOptions::default()).expect("an erased chip is a volume")
}

#[test]
fn a_file_without_a_name_goes_with_the_last_that_has_it_open() {
    let volume = volume();
    let before = volume.usage().objects;
    let file = volume.create_file(ROOT, b"file", &Meta::file(0o600)).expect("created");
    file.write_at(b"content", 0).expect("written");
    volume.unlink(ROOT, b"file").expect("unlinked");
    let (second, third) = (file.clone(), volume.open(file.ino()).expect("it is open"));
    drop(file);
    drop(third);
    let mut content = [0; 7];
    assert_eq!((second.read_at(&mut content, 0).expect("read"), &content), (7, b"content"));
    assert_eq!(volume.usage().objects, before + 1);
    second.close().expect("deleted");
    assert_eq!(volume.usage().objects, before);
}

#[test]
fn files_of_a_volume_that_is_closed_cannot_be_used() {
    let volume = volume();
    let file = volume.create_file(ROOT, b"file", &Meta::file(0o600)).expect("created");
    volume.close().expect("closed");
    let said = file.write_at(b"content", 0).expect_err("it is closed");
    assert!(matches!(&said, Error::Medium(_)) && said.to_string().contains("closed"), "{said}");
    drop(file.clone());
    file.close().expect("nothing is left to do");
}

/// Whoever writes while a volume is closed is either in time, or is told.
#[test]
fn what_is_written_while_the_volume_is_closed_is_there_or_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, layout) = (folder.path().join("image"), ImageLayout::linux(2048, 64).expect("a layout"));
    for round in 0..50 {
        ImageNand::create(&path, &layout, 16).expect("an image");
        let open = || {
            let chip = ImageNand::open(&path, Access::Write, Some(&layout)).expect("the image");
            Volume::open(Box::new(chip), &OpenOptions::default()).expect("a volume")
        };
        let volume = open();
        let file = volume.create_file(ROOT, b"file", &Meta::file(0o600)).expect("created");
        let begun = std::sync::Barrier::new(2);
        let written = std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                begun.wait();
                (0..).take_while(|at| file.write_at(b"x", *at).is_ok()).count() as u64
            });
            begun.wait();
            volume.close().expect("closed");
            writer.join().expect("the writer ends")
        });
        let volume = open();
        let size = volume.lookup(ROOT, b"file").expect("the file").size;
        assert_eq!(size, written, "round {round}");
        volume.close().expect("closed");
        std::fs::remove_file(&path).expect("removed");
    }
}
