//! Mapped media: files, their locks, growth, windows.

use pocketstone_media::{MapOptions, Mapped, Medium, Persistence, Piece, Region, persist};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const PAGE: u64 = 4096;

fn options() -> MapOptions {
    MapOptions::default()
}

/// What a refusal says, and the cure it names.
fn refusal(result: pocketstone_media::Result<Mapped>) -> (String, String) {
    match result {
        Ok(mapped) => panic!("{} should have been refused", mapped.describe()),
        Err(error) => (error.chain(), error.cure().unwrap_or_default().to_string()),
    }
}

fn window_bytes(region: &dyn Region, pieces: &[Piece]) -> Vec<u8> {
    let window = region.window(pieces).expect("a window");
    let total: u64 = pieces.iter().map(|piece| piece.bytes).sum();
    // SAFETY: the window is valid for the sum of its pieces' lengths, and lives until the copy is made.
    unsafe { std::slice::from_raw_parts(window.base(), total as usize) }.to_vec()
}

#[test]
fn stores_of_every_kind_are_whole_and_touch_nothing_else() {
    let memory = if Path::new("/dev/shm").is_dir() { "/dev/shm".into() } else { std::env::temp_dir() };
    let bytes = 3 << 20;
    for flushed in [false, persist::available()] {
        let home = tempfile::tempdir_in(&memory).unwrap();
        let region = Mapped::create(&home.path().join("volume"), bytes, &options().flushed(flushed)).unwrap();
        // On both sides of the lengths at which another kind begins, and over the end of a part that is made present.
        for (at, length) in [(0, 100), (PAGE + 3, 2047), (2 * PAGE, 4096), (512 * 1024 - 7, 70_001), (1 << 20, 1 << 20)]
        {
            let content: Vec<u8> = (0..length + 1).map(|i: usize| (i * 7 + i / 256 + 1) as u8).collect();
            for fresh in [true, false] {
                // SAFETY: nobody else uses these bytes.
                unsafe {
                    region.zero(0, bytes);
                    match fresh {
                        true => region.stream_fresh(at, &content[1..]),
                        false => region.stream(at, &content[1..]),
                    }
                }
                region.fence();
                let mut found = vec![0xEE; bytes as usize];
                region.read(0, &mut found);
                let (start, end) = (at as usize, at as usize + length);
                assert!(found[start..end] == content[1..], "{length} bytes at {at}");
                assert!(found[..start].iter().chain(&found[end..]).all(|byte| *byte == 0), "{length} bytes at {at}");
            }
        }
    }
}

#[test]
fn what_was_never_stored_in_a_file_is_known() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("sparse");
    let file = std::fs::File::create(&path).unwrap();
    file.set_len(1 << 30).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"here", (512 << 20) + 5).unwrap();
    let region = Mapped::open(&path, &options().writable(false)).unwrap();
    let stored = region.stored(0).unwrap();
    assert!(stored.contains(&((512 << 20) + 5)), "{stored:?}");
    assert!(stored.end <= 1 << 30 && region.stored(1 << 30).is_none());
    // Where the file system tells.
    assert!(stored == (0..1 << 30) || stored.end - stored.start <= 2 << 20, "{stored:?}");
    assert!(stored.start == 0 || region.stored(stored.end).is_none());
    assert_eq!(Mapped::anonymous(PAGE).unwrap().stored(PAGE), None);
}

#[test]
fn a_file_keeps_what_was_stored() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("volume");
    {
        let region = Mapped::create(&path, 10_000, &options()).unwrap();
        assert!(region.zeroed() && region.writable());
        assert_eq!((region.bytes(), region.map_bytes()), (3 * PAGE, PAGE));
        assert_eq!(region.base() as usize % (2 << 20), 0);
        assert_eq!(region.persistence(), Persistence::ProcessSafe);
        // SAFETY: nobody else uses these bytes.
        unsafe {
            region.write(5, b"hello");
            region.stream(PAGE, &[7; 300]);
            region.zero(PAGE + 10, 20);
            region.store_u64(64, 0x0102_0304_0506_0708);
        }
        region.flush(0, 3 * PAGE);
        region.fence();
        region.sync().unwrap();
    }
    let facts = std::fs::metadata(&path).unwrap();
    assert_eq!((facts.len(), facts.permissions().mode() & 0o777), (3 * PAGE, 0o600));
    let region = Mapped::open(&path, &options().writable(false)).unwrap();
    assert!(!region.zeroed() && !region.writable());
    region.touch(0, region.bytes());
    let mut found = [0; 5];
    region.read(5, &mut found);
    assert_eq!(&found, b"hello");
    let medium = Medium::new(Box::new(region));
    assert_eq!(medium.load_u64(64), 0x0102_0304_0506_0708);
    let mut found = [0; 30];
    medium.read(PAGE + 5, &mut found);
    assert_eq!(found[..5], [7; 5]);
    assert_eq!(found[5..25], [0; 20]);
    assert_eq!(found[25..], [7; 5]);
    let window = window_bytes(medium.region(), &[Piece { at: Some(PAGE), bytes: PAGE }]);
    assert_eq!(window[..10], [7; 10]);
}

#[test]
#[should_panic(expected = "opened read-only")]
fn storing_to_what_is_only_read_panics() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("volume");
    drop(Mapped::create(&path, PAGE, &options()).unwrap());
    let region = Mapped::open(&path, &options().writable(false)).unwrap();
    // SAFETY: nobody else uses these bytes.
    unsafe { region.write(0, b"x") };
}

#[test]
#[should_panic(expected = "4090+7 is outside the region")]
fn storing_past_the_end_panics() {
    let region = Mapped::anonymous(PAGE).unwrap();
    // SAFETY: nobody else uses these bytes.
    unsafe { region.write(4090, &[1; 7]) };
}

#[test]
fn a_volume_is_open_once_or_read_by_many() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("volume");
    let reading = options().writable(false);
    let first = Mapped::create(&path, PAGE, &options()).unwrap();
    for again in [Mapped::open(&path, &options()), Mapped::open(&path, &reading)] {
        let (message, cure) = refusal(again);
        assert_eq!(message, format!("{} is in use (is it mounted?)", path.display()));
        assert!(cure.contains("unmount"), "{cure}");
    }
    let (message, _) = refusal(Mapped::create(&path, PAGE, &options().overwrite(true)));
    assert!(message.contains("in use"), "{message}");
    // SAFETY: nobody else uses these bytes.
    unsafe { first.write(0, b"still here") };
    drop(first);
    let reader = Mapped::open(&path, &reading).unwrap();
    let second = Mapped::open(&path, &reading).unwrap();
    refusal(Mapped::open(&path, &options()));
    drop((reader, second));
    Mapped::open(&path, &options()).unwrap();
}

#[test]
fn nothing_is_destroyed_unasked() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("precious");
    std::fs::write(&path, "a letter").unwrap();
    let (message, cure) = refusal(Mapped::create(&path, PAGE, &options()));
    assert!(message.contains("precious already exists and holds 8 bytes"), "{message}");
    assert!(cure.contains("overwriting"), "{cure}");
    assert_eq!(std::fs::read(&path).unwrap(), b"a letter");
    refusal(Mapped::create(&path, 1 << 60, &options().overwrite(true)));
    assert_eq!(std::fs::read(&path).unwrap(), b"a letter", "there was no room anyway");
    let region = Mapped::create(&path, PAGE, &options().overwrite(true)).unwrap();
    let mut found = [1; 8];
    region.read(0, &mut found);
    assert!(region.zeroed());
    assert_eq!(found, [0; 8]);
    std::fs::write(home.path().join("empty"), "").unwrap();
    assert_eq!(Mapped::create(&home.path().join("empty"), PAGE, &options()).unwrap().bytes(), PAGE);
}

#[test]
fn what_cannot_be_is_refused_with_its_reason() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("volume");
    let (message, _) = refusal(Mapped::open(&path, &options()));
    assert!(message.contains("cannot open") && message.contains("volume"), "{message}");
    std::fs::write(&path, "").unwrap();
    let (message, _) = refusal(Mapped::open(&path, &options()));
    assert!(message.contains("volume is empty"), "{message}");
    let (message, _) = refusal(Mapped::create(&path, 0, &options()));
    assert!(message.contains("at least one byte"), "{message}");
    let (message, _) = refusal(Mapped::create(&path, u64::MAX, &options()));
    assert!(message.contains("too long"), "{message}");
    let other = home.path().join("other");
    let (message, _) = refusal(Mapped::create(&other, 1 << 60, &options()));
    assert!(message.contains("cannot allocate"), "{message}");
    assert!(!other.exists(), "what could not be created is not left behind");
    let reserve_bytes = Some(1 << 60);
    let (message, _) = refusal(Mapped::create(&other, PAGE, &options().reserve_bytes(reserve_bytes)));
    assert!(message.contains("do not fit this process's address space (largest free range about"), "{message}");
}

#[test]
fn descriptions_say_what_is_safe() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("volume");
    let region = Mapped::create(&path, PAGE, &options()).unwrap();
    let safe = ", process-safe, not power-safe";
    let text = region.describe();
    assert!(text.starts_with(&format!("file {} on ", path.display())) && text.ends_with(safe), "{text}");
    drop(region);
    let declared = Mapped::open(&path, &options().persistent(true));
    if persist::available() {
        let declared = declared.unwrap();
        assert_eq!(declared.persistence(), Persistence::PowerSafe);
        assert!(declared.describe().ends_with(", declared power-safe"), "{}", declared.describe());
    } else {
        assert!(refusal(declared).0.contains("cannot write back cache lines"));
    }
    // Flushing by itself declares nothing.
    let flushed = Mapped::open(&path, &options().flushed(true)).unwrap();
    assert_eq!(flushed.persistence(), Persistence::ProcessSafe);
    assert!(flushed.describe().ends_with(safe), "{}", flushed.describe());
    // SAFETY: nobody else uses these bytes.
    unsafe { flushed.stream(0, &[3; 300]) };
    flushed.flush(0, 300);
    flushed.fence();
    flushed.sync().unwrap();
    drop(flushed);
    assert_eq!(Mapped::anonymous(1).unwrap().describe(), "memory of this process");
    assert_eq!(Mapped::anonymous(1).unwrap().persistence(), Persistence::Volatile);
    if Path::new("/dev/shm").is_dir() {
        let home = tempfile::tempdir_in("/dev/shm").unwrap();
        let region = Mapped::create(&home.path().join("volume"), PAGE, &options()).unwrap();
        assert!(region.describe().contains("on tmpfs, process-safe"), "{}", region.describe());
    }
}

#[test]
fn regions_grow_in_place_as_far_as_was_reserved() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("volume");
    // A length that is no whole number of pages: the tail's page is mapped already.
    std::fs::write(&path, [9; 5000]).unwrap();
    let options = options().reserve_bytes(4 << 20);
    for region in [Mapped::open(&path, &options).unwrap(), {
        let region = Mapped::anonymous(1 << 20).unwrap();
        // SAFETY: nobody else uses these bytes.
        unsafe { region.write(0, &[9; 5000]) };
        region
    }] {
        let base = region.base();
        let limit = region.reserved_bytes();
        let before = region.bytes();
        region.grow(PAGE).unwrap();
        assert_eq!(region.bytes(), before, "a region does not shrink");
        // Without being asked, a processor of 32 bits reserves nothing for growth: it has no addresses to spare.
        assert!(limit >= 4 << 20 || limit == before && cfg!(target_pointer_width = "32"), "{limit}");
        for bytes in [(1 << 20) + 1, 2 << 20, limit].into_iter().filter(|bytes| *bytes <= limit) {
            region.grow(bytes).unwrap();
            assert!(region.bytes() >= bytes);
            let end = region.bytes();
            region.touch(end - 10, 10);
            // SAFETY: nobody else uses these bytes.
            unsafe { region.write(end - 1, &[3]) };
        }
        assert_eq!((region.base(), region.bytes()), (base, limit));
        let mut found = vec![0; 6000];
        region.read(0, &mut found);
        assert!(found[..5000].iter().all(|&b| b == 9) && found[5000..].iter().all(|&b| b == 0));
        let error = region.grow(limit + 1).unwrap_err();
        assert!(error.message().contains("do not fit this process's address space"), "{}", error.message());
        assert!(error.message().contains(&format!("{limit} bytes are reserved")), "{}", error.message());
        assert_eq!(region.bytes(), limit);
    }
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 4 << 20);
    let reading = Mapped::open(&path, &options.writable(false)).unwrap();
    assert!(reading.grow(8 << 20).unwrap_err().message().contains("read-only"));
}

#[test]
fn windows_show_pieces_in_order() {
    let home = tempfile::tempdir().unwrap();
    let file = Mapped::create(&home.path().join("volume"), 16 * PAGE, &options()).unwrap();
    for region in [file, Mapped::anonymous(16 * PAGE).unwrap()] {
        for page in 0..16 {
            // SAFETY: nobody else uses these bytes.
            unsafe { region.write(page * PAGE, &[page as u8 + 1; PAGE as usize]) };
        }
        let piece = |page: Option<u64>, count: u64| Piece { at: page.map(|page| page * PAGE), bytes: count * PAGE };
        let pieces = [piece(Some(3), 1), piece(Some(4), 2), piece(None, 2), piece(Some(0), 1), piece(None, 1)];
        let bytes = window_bytes(&region, &pieces);
        let pages: Vec<u8> = bytes.chunks(PAGE as usize).map(|page| page[0]).collect();
        assert_eq!(pages, [4, 5, 6, 0, 0, 1, 0]);
        assert!(bytes.chunks(PAGE as usize).all(|page| page.iter().all(|b| *b == page[0])));

        // The same memory: what is stored later is seen.
        let window = region.window(&pieces).unwrap();
        // SAFETY: nobody else uses these bytes.
        unsafe { region.write(3 * PAGE, &[99]) };
        // SAFETY: the window's first byte, while nobody stores to it.
        assert_eq!(unsafe { window.base().read_volatile() }, 99);
        assert!(region.window(&[]).is_none());
    }
}

#[test]
#[should_panic(expected = "is not a number of whole pages")]
fn a_window_of_half_a_page_panics() {
    let _ = Mapped::anonymous(PAGE).unwrap().window(&[Piece { at: Some(0), bytes: 100 }]);
}

#[test]
fn threads_store_and_grow_at_once() {
    let home = tempfile::tempdir().unwrap();
    let options = options().reserve_bytes(1024 * PAGE);
    let region = Mapped::create(&home.path().join("volume"), 64 * PAGE, &options).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let region = &region;
            scope.spawn(move || {
                for page in (thread..64).step_by(4) {
                    // SAFETY: nobody else uses these bytes.
                    unsafe { region.stream(page * PAGE, &[thread as u8 + 1; PAGE as usize]) };
                    region.fence();
                    region.grow((64 + page) * PAGE).unwrap();
                    region.touch((64 + page - 1) * PAGE, PAGE);
                }
            });
        }
    });
    assert_eq!(region.bytes(), 127 * PAGE);
    let mut bytes = vec![0; 64 * PAGE as usize];
    region.read(0, &mut bytes);
    assert!(bytes.iter().enumerate().all(|(i, &b)| u64::from(b) == i as u64 / PAGE % 4 + 1));
}
