//! Any bytes as what a hostile client does to the server of a volume that is not mounted, beside an honest one: after
//! it the server answers, what the client had no right to write is as it was, and the volume is sound.
//!
//! The body of the fuzz target `direct_client`; `cargo test` replays its corpus through it.
#![allow(missing_docs)]

mod attached;
mod honest;
mod talk;

use attached::Attached;
use honest::{Honest, STORED_TO};
use pocketstone_lease::Access;
use pocketstone_lease::message::{Name, Question, ask};
use pocketstone_media::{MapOptions, Mapped, marked};
use pocketstone_mount::{MountOptions, Preload, Unmounted};
use pocketstone_random::Random;
use pocketstone_scmfs::{CreateOptions, OpenOptions, Volume, check};
use pocketstone_vfs::MediumErrorKind;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

const VOLUME_BYTES: u64 = 8 << 20;
/// Bytes of an action: what, and three that say how.
pub const ACTION_BYTES: usize = 4;
/// Fuzzers find more in many short runs than in a long one.
const MOST_ACTIONS: usize = 64;
const MOST_ATTACHED: usize = 4;
/// More than the server listens to.
const MOST_SILENT: usize = 80;
/// A server that is not done by then waits for somebody.
const PATIENCE: Duration = Duration::from_secs(20);

/// A hostile client, and the one that it is beside.
struct Scene {
    name: Name,
    honest: Honest,
    attached: Vec<Attached>,
    silent: Vec<OwnedFd>,
    write: bool,
    maps: bool,
    region: std::fs::File,
}

/// Carries out what the bytes say: the first one chooses what the mount allows, each four that follow are an action.
///
/// # Panics
/// If the server does what it must not.
pub fn run(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else { return };
    let (write, append) = (first % 4 != 0, first % 8 > 4);
    // In memory: nothing here waits for a disk.
    let home = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a folder");
    let path = home.path().join("region");
    let map = MapOptions::default().overwrite(true);
    let region = Mapped::create(&path, VOLUME_BYTES, &map).expect("a region");
    Volume::create(Box::new(region), &CreateOptions::default().zeroed(true)).expect("a volume");
    let region = Mapped::open(&path, &map).expect("the region");
    let volume = Arc::new(Volume::open(Box::new(region), &OpenOptions::default()).expect("the volume"));
    let preload = match write {
        true if first & 8 != 0 => Preload::Map,
        true if append => Preload::Append,
        true => Preload::Write,
        false => Preload::Read,
    };
    let door = Unmounted::serve(&volume, &MountOptions { preload, ..MountOptions::default() }).expect("a server");
    let name = *door.name();
    let honest = Honest::new(volume.clone(), door);
    let (maps, region) = (preload == Preload::Map, std::fs::File::open(&path).expect("the region"));
    let mut scene = Scene { name, honest, attached: Vec::new(), silent: Vec::new(), write, maps, region };
    for action in rest.chunks_exact(ACTION_BYTES).take(MOST_ACTIONS) {
        scene.act(action.try_into().expect("so many bytes"));
    }
    scene.honest.is_served(name, if write { Access::Write } else { Access::Read });
    let Scene { honest, attached, silent, .. } = scene;
    let door = honest.end();
    // The end of the mount waits for nobody either.
    let (ended, end) = channel();
    let ending = std::thread::spawn(move || {
        drop(door);
        let _ = ended.send(());
    });
    end.recv_timeout(PATIENCE).expect("the server ends");
    ending.join().expect("no panic");
    drop((attached, silent));
    Arc::into_inner(volume).expect("nobody else has the volume").close().expect("a volume that can be closed");
    let report = check(Box::new(reopened(&path, &map))).expect("a check");
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}

/// The region, once nobody keeps it: a process that another scene is just starting has copies of descriptors of this
/// one, and with them the mark of a store that never ended, until it runs its program.
fn reopened(path: &Path, map: &MapOptions) -> Mapped {
    let since = Instant::now();
    loop {
        match Mapped::open(path, map) {
            Err(error) if error.kind() == MediumErrorKind::InUse && since.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(1));
            }
            opened => return opened.expect("the region"),
        }
    }
}

impl Scene {
    fn act(&mut self, action: [u8; ACTION_BYTES]) {
        let [what, a, b, c] = action;
        let mut random = Random::new(u64::from(u32::from_le_bytes([a, b, c, what])));
        match what % 21 {
            0 | 1 => self.attach(a, b),
            2 => self.ask_for_file(a, b, c),
            3 => {
                let (token, index) = (self.token(a), u32::from(b) % 8 * [1, 5, 0x0fff_ffff][usize::from(c) % 3]);
                let own = [-1, 0, 1, i32::MAX, self.silent.first().map_or(2, AsRawFd::as_raw_fd)];
                let descriptor = own[usize::from(c) % own.len()];
                assert!(ask(&self.name, Question::Free { token, index, descriptor }).is_err(), "nothing is mounted");
            }
            4..=6 => talk::nonsense(&self.name, self.token(c), &mut random),
            7 => self.silent.extend(talk::say_nothing(&self.name, usize::from(a) % 30)),
            8 if self.silent.len() > MOST_SILENT => self.silent.clear(),
            9 => talk::ask_of_the_dead(&self.name),
            10 | 11 => self.each_or_one(a, |attached| attached.scribble(b, &mut random)),
            12 | 13 => self.each_or_one(a, |attached| attached.hold(b, c)),
            14 => {
                let stored =
                    self.attached.iter_mut().map(|attached| attached.store(c)).filter(|stored| *stored).count();
                if stored > 0 {
                    self.honest.was_stored_to();
                }
            }
            15 => self.each_or_one(a, |attached| attached.overreach()),
            16 if usize::from(a) % MOST_ATTACHED < self.attached.len() => {
                self.attached.remove(usize::from(a) % MOST_ATTACHED);
            }
            17 => self.race(action),
            18 => self.honest.lease(usize::from(a) % STORED_TO, usize::from(b) % MOST_ATTACHED, u64::from(c) * 1000),
            20 => self.map(a, b, c),
            _ => self.honest.act(a, b, c),
        }
        self.silent.truncate(MOST_SILENT);
    }

    fn attach(&mut self, a: u8, b: u8) {
        if self.attached.len() < MOST_ATTACHED {
            let attached = talk::attach(&self.name, a % 2 == 0, b % 4 == 0);
            // On a busy machine another process may start so slowly that the server listens to it no more.
            let Some(attached) = attached else { return assert!(b % 4 == 0, "there is room for so few") };
            assert_eq!(attached.may_store(), a % 2 == 0 && self.write, "what the mount allows");
            self.attached.push(attached);
        }
    }

    /// A token that is right, or not.
    fn token(&self, which: u8) -> u64 {
        let known = self.attached.get(usize::from(which) % (MOST_ATTACHED + 1));
        known.map_or(u64::from(which), |attached| attached.token)
    }

    fn ask_for_file(&mut self, a: u8, b: u8, c: u8) {
        let token = self.token(a);
        let known = self.attached.iter().position(|attached| attached.token == token);
        let ino = match b % 8 {
            0 => u64::from(c % 16),
            1 => u64::from(c) << 32 | 2,
            _ => self.honest.ino(usize::from(b) % honest::FILES).unwrap_or(0),
        };
        match (ask(&self.name, Question::File { token, ino }), known) {
            (Ok((answer, _)), Some(known)) => {
                assert!(self.honest.knows(ino), "nobody has {ino} open");
                // What it may store to are the first two files.
                let mine = (0..STORED_TO).any(|file| self.honest.ino(file) == Some(ino));
                self.attached[known].shown(answer.index as u32, answer.key, mine);
            }
            (Ok(_), None) => panic!("a token that was never given"),
            (Err(_), _) => {}
        }
    }

    /// Has a file lie still, for a moment: what the honest client finds stays the same.
    fn map(&mut self, a: u8, b: u8, c: u8) {
        let (token, index) = (self.token(a), u32::from(b) % 8 * [1, 5, 0x0fff_ffff][usize::from(c) % 3]);
        let offset = [0, 4096, 1, u64::MAX, 1 << 40][usize::from(b) % 5];
        let bytes = [1, 4096, 20_000, 0, u64::MAX, VOLUME_BYTES][usize::from(c) % 6];
        // Of a file that it was shown, or of none.
        let key = self.attached.iter().find_map(|attached| attached.key(index)).filter(|_| c % 2 == 0);
        if ask(&self.name, Question::Stored { index, key: key.unwrap_or(u64::MAX) }).is_ok() {
            assert!(self.maps && self.write && key.is_some(), "a file that nobody has mapped");
        }
        let question = Question::Map { token, index, write: c % 2 == 0, offset, bytes };
        if let Ok((_, files)) = ask(&self.name, question) {
            assert!(self.maps && self.attached.iter().any(|attached| attached.token == token));
            assert_eq!(files.iter().flatten().count(), 1);
        }
        // The server has what it sent a little longer.
        let since = Instant::now();
        while marked::is_marked(self.region.as_fd(), None).expect("a lock can be asked for") {
            assert!(since.elapsed() < PATIENCE, "a mark without a mapping");
            std::thread::yield_now();
        }
    }

    fn each_or_one(&mut self, which: u8, mut act: impl FnMut(&mut Attached)) {
        match self.attached.get_mut(usize::from(which) % (MOST_ATTACHED + 1)) {
            Some(one) => act(one),
            None => self.attached.iter_mut().for_each(act),
        }
    }

    /// The slots change all the time while the honest client works.
    fn race(&mut self, [what, a, b, c]: [u8; ACTION_BYTES]) {
        let Some(attached) = self.attached.get_mut(usize::from(a) % MOST_ATTACHED) else { return };
        let done = AtomicBool::new(false);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                let mut random = Random::new(u64::from(b));
                while !done.load(Ordering::Relaxed) {
                    attached.scribble(c, &mut random);
                }
            });
            for step in 0..8_u8 {
                self.honest.act(a.wrapping_add(step), b.wrapping_mul(step | 1), c.wrapping_add(what));
            }
            done.store(true, Ordering::Relaxed);
        });
    }
}
