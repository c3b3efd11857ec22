//! Volumes to damage, ways to damage them, and what must be left of them when they are repaired.

use super::region::Shared;
use super::seal::Seal;
use super::subject::walk;
use pocketstone_fstest::Leaf;
use pocketstone_media::crash::{Limits, Recorder};
use pocketstone_random::Random;
use pocketstone_scmfs::{
    CreateOptions, Error, FileType, Geometry, Ino, Meta, OpenOptions, Operations, ROOT, Rename, SetXattr, Threshold,
    Volume,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{ControlFlow, Range};

/// What a test damages: an image, and what a sound one holds.
pub struct Base {
    pub name: String,
    pub image: Vec<u8>,
    pub held: Held,
    /// The image as it is once it was recovered: where everything lies can be read from it.
    settled: Vec<u8>,
}

/// Everything in a volume by its inode number, and where the names lead.
pub struct Held {
    pub paths: BTreeMap<String, Ino>,
    pub leaves: BTreeMap<Ino, Leaf>,
}

impl Held {
    /// Reads everything; the error of what cannot be read.
    pub fn of(volume: &Volume) -> Result<Held, String> {
        let tree = walk(volume).map_err(|broken| format!("{broken:?}"))?;
        let (mut paths, mut leaves) = (BTreeMap::new(), BTreeMap::new());
        for (path, leaf) in tree {
            let ino = volume.resolve(&path).map_err(|error| format!("{path}: {error}"))?;
            paths.insert(path, ino);
            // Names may go; what they lead to stays what it is.
            leaves.insert(ino, Leaf { first: String::new(), links: 0, ..leaf });
        }
        Ok(Held { paths, leaves })
    }
}

pub fn options() -> OpenOptions {
    OpenOptions::default().null_files(0)
}

impl Base {
    fn new(name: impl Into<String>, image: Vec<u8>) -> Base {
        let shared = Shared::from_image(&image);
        let volume = Volume::open(shared.region(), &options()).expect("a sound volume opens");
        let held = Held::of(&volume).expect("a sound volume can be read");
        volume.close().expect("a sound volume is closed");
        Base { name: name.into(), image, held, settled: shared.image() }
    }
}

const SMALL: Geometry = Geometry::new(512, 8192);

fn fill(volume: &Volume, directory: Ino, name: &str, bytes: usize) -> Result<Ino, Error> {
    let file = volume.create_file(directory, name.as_bytes(), &Meta::file(0o640))?;
    let content: Vec<u8> = name.bytes().cycle().take(bytes).collect();
    file.write_at(&content, 0)?;
    Ok(file.ino())
}

fn make(volume: &Volume, directory: Ino, name: &str) -> Ino {
    volume.create_directory(directory, name.as_bytes(), &Meta::directory(0o750)).expect("a directory").ino
}

fn many(volume: &Volume) {
    let home = make(volume, ROOT, "many");
    for i in 0..120 {
        let ino = fill(volume, home, &format!("file-{i}"), i * 13).expect("space");
        if i % 9 == 0 {
            volume.set_xattr(ino, b"user.a", &[i as u8; 40], SetXattr::Any).expect("space");
            volume.link(ino, ROOT, format!("link-{i}").as_bytes()).expect("space");
        }
    }
    for i in 0..10 {
        volume.create_symlink(home, format!("symlink-{i}").as_bytes(), b"many/file-1", 0, 0).expect("space");
    }
}

fn deep(volume: &Volume) {
    let mut at = ROOT;
    for i in 0..40 {
        at = make(volume, at, &format!("level-{i}"));
        fill(volume, at, "file", 700).expect("space");
    }
}

fn huge(volume: &Volume) {
    let home = make(volume, ROOT, "huge");
    for i in 1..6 {
        fill(volume, home, &format!("file-{i}"), i * 20_000).expect("space");
    }
    for i in 0..200 {
        fill(volume, home, &format!("a-name-that-is-long-enough-for-more-slots-than-one-or-two-{i:050}"), 0)
            .expect("space");
    }
}

fn full(volume: &Volume) {
    for (i, bytes) in [(0, 9000), (1, 3000), (2, 600), (3, 100)] {
        for j in 0..200 {
            match fill(volume, ROOT, &format!("{i}-{j}"), bytes) {
                Ok(_) => {}
                Err(Error::NoSpace) => break,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

fn volume(geometry: Geometry, bytes: u64, inodes: u32) -> (Shared, Volume) {
    let shared = Shared::new(bytes);
    let threshold = Threshold::Bytes(8 * u64::from(geometry.page_bytes));
    let max_bytes = Some(2 * bytes);
    let options_ = CreateOptions::default().inodes(inodes).geometry(geometry).threshold(threshold).max_bytes(max_bytes);
    Volume::create(shared.region(), &options_).expect("a volume");
    let volume = Volume::open(shared.region(), &options()).expect("a volume");
    (shared, volume)
}

fn closed(name: &str, geometry: Geometry, bytes: u64, inodes: u32, build: &[fn(&Volume)]) -> Base {
    let (shared, volume) = volume(geometry, bytes, inodes);
    build.iter().for_each(|build| build(&volume));
    volume.close().expect("it is closed");
    Base::new(name, shared.image())
}

/// States that crashes leave while files are made, written, moved and removed.
fn crashed(seed: u64, count: u64) -> Vec<Base> {
    let (shared, v) = volume(SMALL, 256 << 10, 96);
    let home = make(&v, ROOT, "home");
    for i in 0..20 {
        fill(&v, home, &format!("{i}"), 900).expect("space");
    }
    v.close().expect("it is closed");
    let (recorder, log) = Recorder::new(&shared.image());
    let v = Volume::open(Box::new(recorder), &options()).expect("it opens");
    for i in 0..12 {
        let (old, new) = (format!("{i}"), format!("new-{i}"));
        fill(&v, ROOT, &new, 500 * i).expect("space");
        v.rename(home, old.as_bytes(), ROOT, format!("moved-{i}").as_bytes(), Rename::Replace).expect("it is there");
        v.unlink(home, format!("{}", i + 12).as_bytes())
            .or_else(|_| v.unlink(ROOT, new.as_bytes()))
            .expect("it is there");
        make(&v, home, &format!("d{i}"));
    }
    v.abandon();
    let limits = Limits { max_lines: 2, max_states_per_fence: Some(3), seed };
    let (mut random, mut bases) = (Random::labelled(seed, "crashed"), Vec::new());
    log.trace().crash_states(&limits, &mut |state| {
        if random.below(60) == 0 {
            bases.push(Base::new(format!("crashed-{}", bases.len()), state.image.to_vec()));
        }
        if bases.len() as u64 == count { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    bases
}

pub fn bases(seed: u64) -> Vec<Base> {
    let usual = Geometry::new(4096, 65536);
    let mut bases = vec![
        closed("fresh", SMALL, 128 << 10, 64, &[]),
        closed("many", SMALL, 512 << 10, 256, &[many]),
        closed("deep", SMALL, 512 << 10, 128, &[deep]),
        closed("huge", SMALL, 1 << 20, 320, &[huge]),
        closed("full", SMALL, 128 << 10, 200, &[full]),
        closed("large pages", usual, 3 << 20, 512, &[many, deep]),
    ];
    bases.extend(crashed(seed, 6));
    bases
}

/// How an image is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Damage {
    Flipped,
    Zeroed,
    Overwritten,
    Swapped,
    Many,
    Cut,
}

pub struct Hostile {
    pub image: Vec<u8>,
    /// The small pages that were changed.
    pub pages: Vec<Range<usize>>,
}

impl Base {
    /// A small page of metadata: of the tables, or of directories, links and attributes.
    fn some_page(&self, random: &mut Random) -> Range<usize> {
        let seal = Seal::of(&self.settled);
        let inside = seal.metadata_in_data(&self.settled);
        let tables = seal.data_at / seal.page();
        let at = match random.below(3) {
            // As many of the inode table as of all else.
            0 if !inside.is_empty() => inside[random.below(inside.len() as u64) as usize].1,
            1 => {
                let hit = self.held.leaves.keys().nth(random.below(self.held.leaves.len() as u64) as usize);
                let first = seal.inode_at(*hit.expect("there is such an inode") as usize);
                first / seal.page() * seal.page()
            }
            _ => random.below(tables as u64) as usize * seal.page(),
        };
        at..at + seal.page()
    }

    pub fn damaged(&self, how: Damage, random: &mut Random) -> Hostile {
        let mut image = self.image.clone();
        let one = self.some_page(random);
        let mut pages = vec![one.clone()];
        match how {
            Damage::Flipped => {
                for _ in 0..=random.below(8) {
                    image[one.start + random.below(one.len() as u64) as usize] ^= 1 << random.below(8);
                }
            }
            Damage::Zeroed => image[one].fill(0),
            Damage::Overwritten => {
                let other = self.some_page(random);
                image.copy_within(other, one.start);
            }
            Damage::Swapped => {
                let other = self.some_page(random);
                let kept = image[one.clone()].to_vec();
                image.copy_within(other.clone(), one.start);
                image[other.clone()].copy_from_slice(&kept);
                pages.push(other);
            }
            Damage::Many => {
                for _ in 0..2 + random.below(20) {
                    let (page, other) = (self.some_page(random), self.some_page(random));
                    match random.below(3) {
                        0 => image[page.clone()].fill(0),
                        1 => image.copy_within(other, page.start),
                        _ => image[page.start + random.below(page.len() as u64) as usize] ^= 1 << random.below(8),
                    }
                    pages.push(page);
                }
            }
            Damage::Cut => {
                let short = [1, 4096, 1 << 20, random.below(image.len() as u64)][random.below(4) as usize];
                let bytes = image.len().saturating_sub(short as usize).max(4096);
                image.truncate(bytes);
                pages[0] = bytes..self.image.len();
            }
        }
        Hostile { image, pages }
    }

    /// Whether both superblocks were hit: then there is no volume any more.
    pub fn is_beheaded(&self, hostile: &Hostile) -> bool {
        let copies = Seal::of(&self.settled).superblocks();
        copies.iter().all(|copy| hostile.pages.iter().any(|page| page.contains(copy)))
    }

    /// What is gone though it lay on none of the damaged pages.
    pub fn missing(&self, hostile: &Hostile, after: &Held) -> Vec<(Ino, String)> {
        let seal = Seal::of(&self.settled);
        let hit = |at: usize| hostile.pages.iter().any(|page| page.contains(&at));
        let inodes: BTreeSet<Ino> =
            hostile.pages.iter().flat_map(|page| seal.inodes_in(page)).map(|ino| ino as Ino).collect();
        // Of these, a part of the names, the target or the attributes.
        let contents: BTreeSet<Ino> = seal
            .metadata_in_data(&self.settled)
            .into_iter()
            .filter(|(_, at)| hit(*at))
            .map(|(ino, _)| ino as Ino)
            .collect();
        let places: BTreeSet<Ino> = after.paths.values().copied().collect();
        let mut missing = Vec::new();
        for (path, ino) in &self.held.paths {
            let mut above = path.as_str();
            let mut is_moved = false;
            while let Some((parent, _)) = above.rsplit_once('/').filter(|_| above.len() > 1) {
                above = if parent.is_empty() { "/" } else { parent };
                let parent = self.held.paths[above];
                is_moved |= inodes.contains(&parent) || contents.contains(&parent);
            }
            let leaf = &self.held.leaves[ino];
            if inodes.contains(ino) || contents.contains(ino) && leaf.kind == FileType::Symlink {
                continue;
            }
            let is_there = if is_moved { places.contains(ino) } else { after.paths.get(path) == Some(ino) };
            let mut found = after.leaves.get(ino).cloned();
            if let Some(found) = found.as_mut().filter(|_| contents.contains(ino)) {
                found.xattrs.clone_from(&leaf.xattrs);
            }
            if !is_there || found.as_ref() != Some(leaf) {
                missing.push((*ino, format!("{path} {}", if is_there { "differs" } else { "is gone" })));
            }
        }
        missing
    }
}
