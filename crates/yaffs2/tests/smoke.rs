//! A volume from making to remounting, step by step.

use pocketstone_media::nand::{Geometry, SimulatedNand, SimulatedOptions};
use pocketstone_vfs::{Error, FileType, Meta, Operations, ROOT, Rename, SetAttr, SetXattr};
use pocketstone_yaffs2::{MountedBy, OpenOptions, Volume};

fn chip(blocks: u32) -> SimulatedNand {
    let geometry = Geometry { page_bytes: 2048, spare_bytes: 38, pages_per_block: 16, blocks };
    SimulatedNand::new(geometry, SimulatedOptions::default())
}

fn mount(chip: &SimulatedNand, options: &OpenOptions) -> Volume {
    Volume::open(Box::new(chip.clone()), options).unwrap()
}

fn pattern(bytes: usize, seed: u8) -> Vec<u8> {
    (0..bytes).map(|at| (at as u8).wrapping_mul(31).wrapping_add((at / 251) as u8) ^ seed).collect()
}

fn read(volume: &Volume, ino: u32) -> Vec<u8> {
    let size = volume.attributes(ino).unwrap().size as usize;
    let mut bytes = vec![0; size + 10];
    let got = volume.open(ino).unwrap().read_at(&mut bytes, 0).unwrap();
    bytes.truncate(got);
    bytes
}

#[test]
fn what_was_written_is_there_after_a_checkpoint_and_after_a_scan() {
    for inband_tags in [false, true] {
        let chip = chip(64);
        let options = OpenOptions::default().inband_tags(inband_tags);
        let volume = mount(&chip, &options);
        let directory = volume.create_directory(ROOT, b"folder", &Meta::directory(0o750)).unwrap().ino;
        let file = volume.create_file(directory, b"file", &Meta::file(0o644)).unwrap().ino();
        let content = pattern(100_000, 1);
        assert_eq!(volume.open(file).unwrap().write_at(&content, 0).unwrap(), content.len());
        volume.create_symlink(ROOT, b"link", b"folder/file", 1, 2).unwrap();
        volume.link(file, ROOT, b"second name").unwrap();
        volume.set_xattr(file, b"user.key", b"value", SetXattr::Create).unwrap();
        volume.create_file(ROOT, b"pipe", &Meta::file(0o600).kind(FileType::Fifo)).unwrap();
        volume.close().unwrap();
        for by in [MountedBy::Checkpoint, MountedBy::Scan] {
            let checkpoint_read = by == MountedBy::Checkpoint;
            let volume = mount(&chip, &options.clone().read_only(true).checkpoint_read(checkpoint_read));
            assert_eq!(volume.usage().mounted_by, by);
            let found = volume.lookup(directory, b"file").unwrap();
            assert_eq!((found.ino, found.links, found.size), (file, 2, 100_000));
            assert_eq!(read(&volume, file), content);
            assert_eq!(volume.lookup(ROOT, b"second name").unwrap().ino, file);
            assert_eq!(volume.get_xattr(file, b"user.key").unwrap(), b"value");
            let link = volume.lookup(ROOT, b"link").unwrap().ino;
            assert_eq!(volume.read_link(link).unwrap(), b"folder/file");
            assert_eq!(volume.lookup(ROOT, b"pipe").unwrap().kind, FileType::Fifo);
            let mut names = Vec::new();
            volume
                .read_directory(ROOT, 0, &mut |entry| {
                    names.push(String::from_utf8(entry.name.clone()).unwrap());
                    true
                })
                .unwrap();
            names.sort();
            assert_eq!(names, ["folder", "link", "lost+found", "pipe", "second name"]);
            assert!(matches!(volume.unlink(ROOT, b"link"), Err(Error::ReadOnly)));
        }
    }
}

#[test]
fn overwriting_for_long_collects_garbage_and_keeps_the_files() {
    let chip = chip(64);
    let volume = mount(&chip, &OpenOptions::default());
    let mut contents = Vec::new();
    for number in 0..12u8 {
        let file = volume.create_file(ROOT, format!("file {number}").as_bytes(), &Meta::file(0o644)).unwrap().ino();
        let content = pattern(90_000, number);
        volume.open(file).unwrap().write_at(&content, 0).unwrap();
        contents.push((file, content));
    }
    for round in 0..4_000usize {
        let (file, content) = &mut contents[round * 7 % 12];
        let at = round * 4099 % 85_000;
        let new = pattern(4096, round as u8);
        volume.open(*file).unwrap().write_at(&new, at as u64).unwrap();
        content[at..at + 4096].copy_from_slice(&new);
    }
    volume.sync_all().unwrap();
    assert!(volume.usage().moved_chunks > 0);
    volume.abandon();
    let volume = mount(&chip, &OpenOptions::default());
    for (file, content) in &contents {
        assert!(read(&volume, *file) == *content);
    }
    let (file, content) = &mut contents[0];
    volume.set_attributes(*file, &SetAttr::default().size(Some(1000))).unwrap();
    volume.set_attributes(*file, &SetAttr::default().size(Some(50_000))).unwrap();
    content[1000..].fill(0);
    content.truncate(50_000);
    volume.rename(ROOT, b"file 0", ROOT, b"file 1", Rename::Replace).unwrap();
    volume.abandon();
    let volume = mount(&chip, &OpenOptions::default());
    assert!(read(&volume, contents[0].0) == contents[0].1);
    assert!(matches!(volume.lookup(ROOT, b"file 0"), Err(Error::NotFound)));
    assert_eq!(volume.lookup(ROOT, b"file 1").unwrap().ino, contents[0].0);
}

/// A directory's names, read four at a time. After each part `act` does something with its names.
fn list_in_parts(volume: &Volume, directory: u32, act: &mut dyn FnMut(&[String])) -> Vec<String> {
    let (mut names, mut cookie) = (Vec::new(), 0);
    loop {
        let mut part = Vec::new();
        volume
            .read_directory(directory, cookie, &mut |entry| {
                if part.len() == 4 {
                    return false;
                }
                assert!(entry.cookie > cookie, "{entry:?}");
                cookie = entry.cookie;
                part.push(String::from_utf8(entry.name.clone()).unwrap());
                true
            })
            .unwrap();
        if part.is_empty() {
            return names;
        }
        act(&part);
        names.extend(part);
    }
}

#[test]
fn a_name_keeps_its_place_when_another_name_of_its_file_goes() {
    let volume = mount(&chip(64), &OpenOptions::default());
    let [here, there] =
        [&b"here"[..], b"there"].map(|name| volume.create_directory(ROOT, name, &Meta::directory(0o755)).unwrap().ino);
    let name = |kind: &str, number: u32| format!("{kind} {number:02}").into_bytes();
    let create = |directory, kind: &str, number| {
        volume.create_file(directory, &name(kind, number), &Meta::file(0o644)).unwrap().ino()
    };
    let files: Vec<u32> = (0..20).map(|number| create(there, "file", number)).collect();
    for (number, &file) in (0..).zip(&files) {
        volume.link(file, here, &name("link", number)).unwrap();
    }
    let expected: Vec<String> = (0..20).map(|number| format!("link {number:02}")).collect();
    let mut read = 0;
    let listed = list_in_parts(&volume, here, &mut |part| {
        read += part.len();
        if read == 8 {
            (0..10).for_each(|number| volume.unlink(there, &name("file", number)).unwrap());
            for number in 10..20 {
                create(there, "other", number);
                let (from, to) = (name("other", number), name("file", number));
                volume.rename(there, &from, there, &to, Rename::Replace).unwrap();
            }
        }
    });
    assert_eq!(listed, expected);
    // What is new has a place of its own.
    for number in 20..40 {
        create(here, "link", number);
    }
    let mut listed = list_in_parts(&volume, here, &mut |_| ());
    listed.sort();
    assert_eq!(listed, (0..40).map(|number| format!("link {number:02}")).collect::<Vec<_>>());
}

#[test]
fn a_directory_is_empty_when_all_that_was_read_of_it_was_removed() {
    let volume = mount(&chip(64), &OpenOptions::default());
    let directory = volume.create_directory(ROOT, b"directory", &Meta::directory(0o755)).unwrap().ino;
    let names = |kind: &'static str| (0..20).map(move |number| format!("{kind} {number}").into_bytes());
    let files: Vec<u32> =
        names("file").map(|name| volume.create_file(directory, &name, &Meta::file(0o644)).unwrap().ino()).collect();
    for (name, file) in names("link").zip(files) {
        volume.link(file, directory, &name).unwrap();
    }
    let listed = list_in_parts(&volume, directory, &mut |part| {
        part.iter().for_each(|name| volume.unlink(directory, name.as_bytes()).unwrap());
    });
    assert_eq!(listed.len(), 40);
    volume.remove_directory(ROOT, b"directory").unwrap();
}

#[test]
fn the_allocated_bytes_of_a_large_file_are_what_is_written_and_not_cut() {
    let volume = mount(&chip(160), &OpenOptions::default());
    let file = volume.create_file(ROOT, b"file", &Meta::file(0o644)).unwrap();
    let chunks = || {
        file.sync().unwrap();
        file.attributes().unwrap().allocated / 2048
    };
    file.write_at(&vec![1; 1500 * 2048], 0).unwrap();
    assert_eq!(chunks(), 1500);
    file.write_at(&[2; 4 * 2048], 1498 * 2048).unwrap();
    assert_eq!(chunks(), 1502);
    file.write_at(&[3; 2048], 2000 * 2048).unwrap();
    assert_eq!(chunks(), 1503);
    file.truncate(1100 * 2048).unwrap();
    assert_eq!(chunks(), 1100);
    file.truncate(0).unwrap();
    file.write_at(&[4; 2048], 0).unwrap();
    assert_eq!(chunks(), 1);
    let ino = file.ino();
    file.close().unwrap();
    volume.unlink(ROOT, b"file").unwrap();
    let next = volume.create_file(ROOT, b"next", &Meta::file(0o644)).unwrap();
    assert_eq!((next.ino(), next.attributes().unwrap().allocated), (ino, 0));
}
