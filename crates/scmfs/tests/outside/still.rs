//! Files whose content lies still because somebody has it mapped.

use super::*;
use pocketstone_scmfs::FileBatch;

/// Says as long as it is told to that a file is mapped.
fn hold(mapped: &Arc<AtomicBool>) -> impl FnOnce() -> Option<Running> + use<> {
    let mapped = mapped.clone();
    mapped.store(true, Ordering::SeqCst);
    move || Some(Box::new(move || mapped.load(Ordering::SeqCst)) as Running)
}

/// Where each page from the start lies.
fn places(seen: &Seen, bytes: u64) -> Vec<u64> {
    places_from(seen, 0, bytes)
}

fn places_from(seen: &Seen, from: u64, bytes: u64) -> Vec<u64> {
    let pieces = seen.last().pieces;
    let place =
        |at: u64| pieces.iter().find(|(from, _, long)| (*from..from + long).contains(&at)).map(|p| p.1 + at - p.0);
    (from..from + bytes).step_by(256).map(|at| place(at).expect("it has space")).collect()
}

#[test]
fn what_is_mapped_stays_where_it_is_whatever_others_do() {
    for (seed, null_files) in [(5, 0), (6, 7)] {
        let (ground, volume) = Ground::new(false);
        drop(volume);
        let open = OpenOptions::default().null_files(null_files);
        let volume = Volume::open(Box::new(ground.region()), &open).unwrap();
        let mut random = Random::new(seed);
        let (mut refused, mut grown) = (0, 0);
        for round in 0..40_u64 {
            let (file, seen) = watched(&volume, b"file");
            let size = 1 + random.below(60_000);
            let mut model = vec![0; size as usize];
            file.truncate(size).unwrap();
            for _ in 0..random.below(4) {
                let at = random.below(size);
                let part = vec![7; random.below(size - at + 1) as usize];
                file.write_at(&part, at).unwrap();
                model[at as usize..at as usize + part.len()].copy_from_slice(&part);
            }
            let others: Vec<File> = (0..8).map(|n| watched(&volume, format!("other {n}").as_bytes()).0).collect();
            others.iter().for_each(|other| drop(other.write_at(&[1; 5000], 0)));
            let mapped = Arc::default();
            assert!(file.lie_still(0, size, hold(&mapped)).unwrap());
            let where_it_is = places(&seen, size);
            for step in 0..40 {
                let now = model.len() as u64;
                match random.below(10) {
                    0 => {
                        assert!(matches!(file.truncate(random.below(now)), Err(Error::Busy)), "step {step}");
                        refused += 1;
                    }
                    1 => {
                        let at = random.below(now);
                        let bytes = 1 + random.below(20_000);
                        file.allocate(Allocate::PunchHole, at, bytes).unwrap();
                        model[at as usize..(at + bytes).min(now) as usize].fill(0);
                    }
                    2 => {
                        let end = now + random.below(40_000);
                        if file.truncate(end).is_ok() {
                            model.resize(end as usize, 0);
                            grown += 1;
                        }
                    }
                    3 => {
                        let (at, part) = (random.below(now + 9000), vec![step as u8; 1 + random.below(9000) as usize]);
                        if file.write_at(&part, at).is_ok() {
                            let end = at as usize + part.len();
                            model.resize(model.len().max(end), 0);
                            model[at as usize..end].copy_from_slice(&part);
                            grown += usize::from(end as u64 > now);
                        }
                    }
                    4 => {
                        let (at, part) = (random.below(now), vec![step as u8; 1 + random.below(6000) as usize]);
                        let end = at as usize + part.len();
                        if file.write_atomic(&part, at).is_ok() {
                            model.resize(model.len().max(end), 0);
                            model[at as usize..end].copy_from_slice(&part);
                        }
                    }
                    5 => drop(volume.collect()),
                    6 => {
                        let other = &others[random.below(8) as usize];
                        let _ = other.truncate(random.below(3000));
                        let _ = other.write_at(&[2; 9000], random.below(90_000));
                    }
                    7 => {
                        let how = if step % 2 == 0 { Allocate::Collapse } else { Allocate::Insert };
                        assert!(matches!(file.allocate(how, 0, 4096), Err(Error::Busy | Error::Invalid)));
                    }
                    8 => {
                        let less = FileBatch { file: &file, writes: &[], size: Some(random.below(now)) };
                        assert!(matches!(volume.write_batch(&[less]), Err(Error::Busy)));
                    }
                    _ => {
                        let at = random.below(now);
                        let bytes = 1 + random.below(now - at);
                        if file.allocate(Allocate::Zero, at, bytes).is_ok() {
                            model[at as usize..(at + bytes) as usize].fill(0);
                        }
                    }
                }
                assert_eq!(places(&seen, size), where_it_is, "round {round}, step {step}");
                let mut content = vec![9; model.len() + 1];
                assert_eq!(file.read_at(&mut content, 0).unwrap(), model.len(), "round {round}, step {step}");
                assert!(content[..model.len()] == model, "round {round}, step {step}");
            }
            mapped.store(false, Ordering::SeqCst);
            file.truncate(1).unwrap();
            drop((file, others));
            let mut names = Vec::new();
            let mut note = |name: &[u8]| {
                names.push(name.to_vec());
                true
            };
            volume.read_directory(ROOT, 0, &mut |entry| note(&entry.name)).unwrap();
            names.iter().for_each(|name| volume.unlink(ROOT, name).unwrap());
        }
        assert!(refused > 20 && grown > 100, "{refused} refused, {grown} grown");
        volume.close().unwrap();
        let report = check(Box::new(ground.region())).unwrap();
        assert!(report.findings.is_empty(), "{:?}", report.findings);
    }
}

#[test]
fn what_cannot_lie_still_is_refused() {
    let (ground, volume) = Ground::new(false);
    let (file, seen) = watched(&volume, b"file");
    file.write_at(&[3; 300], 0).unwrap();
    let none = || None;
    for (offset, bytes) in [(0, 0), (0, 513), (512, 1), (256, 257)] {
        assert!(matches!(file.lie_still(offset, bytes, none), Err(Error::Invalid)), "{offset}+{bytes}");
    }
    assert!(!file.lie_still(0, 512, none).unwrap());
    // What lay behind the end is not there for who maps the page.
    file.write_at(&[5; 512], 0).unwrap();
    file.truncate(10).unwrap();
    let mapped = Arc::default();
    assert!(file.lie_still(0, 10, hold(&mapped)).unwrap());
    let mut page = [9; 256];
    ground.bytes.read_exact_at(&mut page, seen.last().pieces[0].1).unwrap();
    assert_eq!((page[..10] == [5; 10], page[10..] == [0; 246]), (true, true));
    // A hole gets space, which is zeros; what does not fit stays a hole.
    let (hole, seen) = watched(&volume, b"hole");
    hole.truncate(BYTES * 8).unwrap();
    assert!(seen.last().pieces.iter().all(|(offset, _, bytes)| offset + bytes <= 256));
    assert!(hole.lie_still(256, 512, hold(&mapped)).unwrap());
    for place in places_from(&seen, 256, 512) {
        ground.bytes.read_exact_at(&mut page, place).unwrap();
        assert_eq!(page, [0; 256]);
    }
    let (other, _) = watched(&volume, b"other");
    other.truncate(BYTES * 8).unwrap();
    assert!(matches!(other.lie_still(0, BYTES * 8, hold(&mapped)), Err(Error::NoSpace)));
    let protected = Protection { append_only: false, immutable: true };
    volume.protect(hole.ino(), protected).unwrap();
    assert!(hole.lie_still(256, 512, none).is_ok());
    assert!(matches!(hole.lie_still(BYTES, 512, none), Err(Error::NotPermitted)));
    let (_ground, checked) = Ground::new(true);
    let file = checked.create_file(ROOT, b"file", &Meta::file(0o644)).unwrap();
    file.write_at(&[1; 256], 0).unwrap();
    assert!(!checked.may_be_mapped());
    assert!(matches!(file.lie_still(0, 1, none), Err(Error::NotSupported)));
}
