//! Volumes that do not fit the address space are refused, with the limit named and a cure. On processors of
//! 32 bits that is a volume of a few GiB.

use pocketstone_media::Error;
use pocketstone_media::{MapOptions, Mapped};
use pocketstone_scmfs::{CreateOptions, Meta, OpenOptions, Operations, ROOT, Volume};

/// More than there are addresses.
const TOO_MUCH: u64 = if cfg!(target_pointer_width = "64") { 1 << 62 } else { 5 << 30 };

fn expect_refusal(error: &Error, bytes: u64) {
    let text = error.chain();
    assert!(text.contains(&format!("{bytes} bytes do not fit this process's address space")), "{text}");
    // The limit: what is free, or what was reserved.
    let limit = text.split("largest free range about ").nth(1).and_then(|rest| rest.split(' ').next());
    let limit: u64 = limit.and_then(|digits| digits.parse().ok()).unwrap_or_else(|| panic!("no limit: {text}"));
    assert!(limit > 64 << 20 && limit < TOO_MUCH, "{text}");
    let cure = error.cure().unwrap_or_default();
    assert!(cure.contains("64-bit system"), "{cure}");
}

#[test]
fn a_volume_larger_than_the_address_space() {
    let home = tempfile::tempdir().expect("a directory");
    let path = home.path().join("volume");
    let file = std::fs::File::create(&path).expect("a file");
    // Sparse. Where files cannot be as long, address space is asked for instead.
    let (bytes, options) = if cfg!(target_pointer_width = "64") {
        (1 << 20, MapOptions::default().reserve_bytes(TOO_MUCH))
    } else {
        (TOO_MUCH, MapOptions::default())
    };
    file.set_len(bytes).expect("a length");
    let error = Mapped::open(&path, &options).err().expect("there are not so many addresses");
    expect_refusal(&error, TOO_MUCH);
    assert_eq!(std::fs::metadata(&path).expect("the file is there").len(), bytes, "its length was changed");
}

#[test]
fn a_volume_that_would_grow_larger_than_the_address_space() {
    let home = tempfile::tempdir().expect("a directory");
    let path = home.path().join("volume");
    let bytes = 4 << 20;
    let options = MapOptions::default().reserve_bytes(2 * bytes);
    let create = CreateOptions::default().max_bytes(3 * bytes).inodes(16);
    let geometry = pocketstone_scmfs::Geometry::new(4096, 64 << 10);
    let create = create.geometry(geometry);
    let region = Mapped::create(&path, bytes, &options).expect("a region");
    Volume::create(Box::new(region), &create).expect("a volume");
    let region = Mapped::open(&path, &options).expect("the region opens");
    let volume = Volume::open(Box::new(region), &OpenOptions::default()).expect("the volume opens");
    let before = volume.usage();
    let error = volume.resize(3 * bytes).expect_err("only twice its size was reserved");
    let text = error.to_string();
    assert!(text.contains("address space") && text.contains(&format!("{} bytes are reserved", 2 * bytes)), "{text}");
    assert_eq!(volume.usage(), before, "a refusal changes nothing");
    volume.resize(2 * bytes).expect("as far as was reserved");
    let file = volume.create_file(ROOT, b"a", &Meta::file(0o644)).expect("a file");
    file.write_at(&vec![5; bytes as usize], 0).expect("the new space can be used");
    drop(file);
    volume.close().expect("a clean close");
}
