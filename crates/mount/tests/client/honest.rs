//! An honest client: what it works with is as it left it.

use super::PATIENCE;
use pocketstone_lease::message::Name;
use pocketstone_lease::{Access, Outcome, Session};
use pocketstone_mount::Unmounted;
use pocketstone_scmfs::{Error, File, Volume};
use pocketstone_vfs::{Meta, Operations, ROOT, Rename};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// Files that there may be; the hostile client stores to the first ones, where the mount allows it.
pub const FILES: usize = 4;
pub const STORED_TO: usize = 2;
const NAMES: [&[u8]; FILES] = [b"a", b"b", b"c", b"d"];
const MOST_BYTES: usize = 60_000;
/// Far more than an answer takes on a busy machine; less than the client of a mount waits.
const AN_ANSWER: Duration = Duration::from_millis(1900);

/// A file, and what it should hold; `None`: somebody stores to it.
struct Model {
    file: File,
    content: Option<Vec<u8>>,
}

pub struct Honest {
    volume: Arc<Volume>,
    door: Unmounted<Volume>,
    files: [Option<Model>; FILES],
    /// Without names, but open.
    nameless: Vec<Model>,
}

impl Honest {
    pub fn new(volume: Arc<Volume>, door: Unmounted<Volume>) -> Honest {
        let mut honest = Honest { volume, door, files: [const { None }; FILES], nameless: Vec::new() };
        // One that nobody opens.
        honest.create(0);
        let closed = honest.files[0].take().expect("there is room");
        honest.door.forget(closed.file.ino());
        honest.volume.rename(ROOT, NAMES[0], ROOT, b"closed", Rename::NoReplace).expect("a new name");
        drop(closed);
        for number in 0..FILES {
            honest.create(number);
            honest.write(number, 0, 20_000, number as u8 + 1);
        }
        honest
    }

    pub fn ino(&self, number: usize) -> Option<u64> {
        self.files[number].as_ref().map(|model| model.file.ino().into())
    }

    /// Whether a file is open.
    pub fn knows(&self, ino: u64) -> bool {
        let all = self.files.iter().flatten().chain(&self.nameless);
        all.into_iter().any(|model| u64::from(model.file.ino()) == ino)
    }

    /// The files that somebody may store to hold anything now, those without a name, too.
    pub fn was_stored_to(&mut self) {
        let stored = self.files[..STORED_TO].iter_mut().flatten().chain(&mut self.nameless);
        stored.for_each(|model| model.content = None);
    }

    /// Somebody gets the end of a file, if the mount allows it: from then on it may hold anything.
    pub fn lease(&mut self, number: usize, process: usize, bytes: u64) {
        let Some(model) = &mut self.files[number] else { return };
        if self.door.lease(model.file.ino(), process, bytes) {
            model.content = None;
        }
    }

    fn create(&mut self, number: usize) {
        let meta = Meta::file(0o644);
        match self.volume.create_file(ROOT, NAMES[number], &meta) {
            Ok(file) => {
                self.door.learn(file.ino());
                self.files[number] = Some(Model { file, content: Some(Vec::new()) });
            }
            Err(error) => assert!(matches!(error, Error::NoSpace), "{error}"),
        }
    }

    fn write(&mut self, number: usize, offset: usize, bytes: usize, byte: u8) {
        let Some(Model { file, content }) = &mut self.files[number] else { return };
        self.door.kernel_came(file.ino());
        let data: Vec<u8> = (0..bytes).map(|at| byte.wrapping_add((at / 64) as u8)).collect();
        let written = match file.write_at(&data, offset as u64) {
            Ok(written) => written,
            // What is freed while somebody says that he stores is nobody's.
            Err(Error::NoSpace) => 0,
            Err(error) => panic!("{error}"),
        };
        if let (Some(content), true) = (content, written > 0) {
            content.resize(content.len().max(offset + written), 0);
            content[offset..offset + written].copy_from_slice(&data[..written]);
        }
    }

    fn truncate(&mut self, number: usize, bytes: usize) {
        let Some(Model { file, content }) = &mut self.files[number] else { return };
        self.door.kernel_came(file.ino());
        match file.truncate(bytes as u64) {
            Ok(()) if bytes == 0 => *content = Some(Vec::new()),
            Ok(()) => content.iter_mut().for_each(|content| content.resize(bytes, 0)),
            Err(error) => assert!(matches!(error, Error::NoSpace), "{error}"),
        }
    }

    fn unlink(&mut self, number: usize, keeps: bool) {
        let Some(model) = self.files[number].take() else { return self.create(number) };
        self.volume.unlink(ROOT, NAMES[number]).expect("a name that is there");
        self.nameless.push(model);
        if !keeps {
            self.forget();
        }
    }

    fn forget(&mut self) {
        for model in self.nameless.drain(..) {
            model.read();
            self.door.forget(model.file.ino());
        }
    }

    pub fn act(&mut self, a: u8, b: u8, c: u8) {
        let (number, offset) = (usize::from(a / 16) % FILES, usize::from(b) * 97);
        match a % 16 {
            0..=5 => self.write(number, offset, 1 + usize::from(c) * 131, b),
            6 => self.write(number, 0, MOST_BYTES, c),
            7 | 8 => self.truncate(number, if c % 2 == 0 { 0 } else { usize::from(c) * 200 }),
            9 => self.unlink(number, c % 2 == 0),
            10 => self.forget(),
            11 => drop(self.volume.collect()),
            12 => {
                let Some(model) = &self.files[number] else { return };
                let time = model.file.attributes().mtime_ns;
                let second = Duration::from_secs(1);
                let now = SystemTime::UNIX_EPOCH.elapsed().expect("a time after 1970") + second;
                assert!(u128::try_from(time).is_ok_and(|time| time < now.as_nanos()), "a time that is still to come");
            }
            13 => drop(self.files.iter().flatten().map(|model| model.file.sync()).collect::<Vec<_>>()),
            _ => self.files.iter().flatten().for_each(Model::read),
        }
    }

    /// The server answers, and shows what there is.
    pub fn is_served(&mut self, name: Name, access: Access) {
        self.files.iter().flatten().chain(&self.nameless).for_each(Model::read);
        let start = Instant::now();
        let session = Session::attach_to(name, 0, access).unwrap_or_else(|why| panic!("not served: {why:?}"));
        assert!(start.elapsed() < AN_ANSWER, "an answer took {:?}", start.elapsed());
        for model in self.files.iter_mut().flatten() {
            let ino = model.file.ino();
            let shown = session.file(ino.into(), 0).expect("an open file is shown");
            self.door.kernel_went(ino);
            let mut got = vec![0; MOST_BYTES + 1];
            // SAFETY: the buffer is that long.
            match unsafe { session.read(shown, -1, got.as_mut_ptr(), got.len(), 0) } {
                Outcome::Done(bytes) => got.truncate(bytes),
                Outcome::Kernel(_) => continue,
            }
            let Some(content) = &mut model.content else { continue };
            assert!(got == content[..content.len().min(MOST_BYTES + 1)], "what is read directly");
            let byte = [content.first().copied().unwrap_or(0).wrapping_add(1)];
            // SAFETY: a byte.
            if unsafe { session.write(shown, -1, byte.as_ptr(), 1, 0) } == Outcome::Done(1) {
                content[0] = byte[0];
            }
            model.read();
        }
        assert!(start.elapsed() < PATIENCE);
    }

    /// Nobody has anything open any more.
    pub fn end(mut self) -> Unmounted<Volume> {
        self.forget();
        for model in self.files.into_iter().flatten() {
            self.door.forget(model.file.ino());
        }
        self.door
    }
}

impl Model {
    fn read(&self) {
        let size = self.file.attributes().size as usize;
        let mut got = vec![0; size];
        assert_eq!(self.file.read_at(&mut got, 0).expect("a file that can be read"), size);
        if let Some(content) = &self.content {
            assert_eq!(content.len(), size, "another size");
            let wrong = got.iter().zip(content).position(|(is, should)| is != should);
            assert_eq!(wrong, None, "the first byte that nobody had the right to write");
        }
    }
}
