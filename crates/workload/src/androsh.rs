//! AndroSH: the shell scripts of the SCMFS thesis, as operations of one process.

use crate::database::Prepares;
use crate::definition::{Defined, FileWorkload};
use crate::factor::{AnyFactor, Bytes, Count, Factor, Impossible, OrDefault, Point, blame, wrong};
use crate::factors::{DATA, REQUEST_BYTES};
use crate::lookup::{NAMES_ARE, NamesAre};
use crate::metrics::{MOVED, Ran, Values, per_s};
use crate::population::{Caches, Population, Sizes, file_name};
use crate::postmark::blocks;
use crate::tree::{LEAVES, Tree};
use crate::{Data, Operation, Purpose};
use pocketstone_core::metric::Metric;
use pocketstone_core::random::Random;
use pocketstone_core::words::Word;
use pocketstone_core::{Error, Result, words};
use serde::{Deserialize, Serialize};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Size of the file of the scripts that go by records, in bytes.
pub const FILE_BYTES: u64 = 100 * MIB;

/// Smallest and largest file of [`Script::CompressMany`], in bytes.
pub const MIXED_BYTES: (u64, u64) = (4 * KIB, 6 * MIB);

/// Number of files of [`Script::ReadTree`] and [`Script::CompressMany`].
pub const MANY_FILES: u64 = LEAVES;

/// Files of [`Script::ApplicationCache`] before the first operation, and how many are used by one round.
const CACHE_FILES: u64 = 200;
const CACHE_USES: u64 = 1000;

/// Smallest request with which a compressor cannot see that a copy's blocks repeat: its window is 32 KiB.
const LEAST_COMPRESSED_REQUEST: u64 = 64 * KIB;

/// The `androsh` workload: a script of AndroSH (Qian Cao, "SCMFS Performance Enhancement and Implementation on Mobile
/// Platform", MSc thesis, Texas A&M, 2012, section 4) as operations of one process. The thesis does not print the
/// scripts: populations and rounds are proposals. All sizes are divided by `scale`, numbers of files and rounds stay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AndroshSpec {
    /// What is run.
    pub script: Script,
    /// Whose size files have that are copied.
    pub media: Media,
    /// The folders that files lie in which are looked up.
    pub tree: Tree,
    /// Size of each of those in bytes.
    pub tree_file_bytes: u64,
    /// Whether the kernel has their names in memory before the first one.
    pub names_are: NamesAre,
    /// How often the script's work is done; `None`: as often as the script does by itself.
    pub rounds: Option<u64>,
    /// What every size is divided by.
    pub scale: u64,
    /// Bytes that one call moves.
    pub request_bytes: u64,
    /// The files' contents.
    pub data: Data,
}

words! {
    /// A script. A1 to U4 are the reference's names for them.
    Script {
        /// A1: writes a new file, record by record.
        SequentialWrite = "sequential-write",
        /// A2: reads a file, record by record.
        SequentialRead = "sequential-read",
        /// A3: overwrites each record of a file once, in random order.
        RandomWrite = "random-write",
        /// A4: reads each record of a file once, in random order.
        RandomRead = "random-read",
        /// A5: reads all files of a tree.
        ReadTree = "read-tree",
        /// U1: copies files of one size into a folder.
        Copy = "copy",
        /// U2: copies files of random sizes into a tree.
        CopyTree = "copy-tree",
        /// U3: copies a file in, makes an archive of it, deletes both.
        CompressOne = "compress-one",
        /// U4: copies many files of random sizes in, and makes an archive of all.
        CompressMany = "compress-many",
        /// In place of X1 and X2, which are programs of Android: an application that uses its cache.
        ApplicationCache = "application-cache",
    }
}

words! {
    /// What users have many of.
    Media {
        /// 2 MiB.
        Photo = "photo",
        /// 6 MiB.
        Song = "song",
        /// 25 MiB.
        Audio = "audio",
        /// 100 MiB.
        Video = "video",
    }
}

impl Media {
    /// Size of one in bytes; the largest where sizes are random.
    pub fn bytes(self) -> u64 {
        MIB * match self {
            Media::Photo => 2,
            Media::Song => 6,
            Media::Audio => 25,
            Media::Video => 100,
        }
    }

    /// How many files of one size, of random sizes, and rounds of [`Script::CompressOne`].
    fn numbers(self) -> (u64, u64, u64) {
        match self {
            Media::Photo => (50, 50, 10),
            Media::Song => (16, 17, 5),
            Media::Audio => (4, 4, 2),
            Media::Video => (1, 2, 1),
        }
    }
}

const SCRIPT: Factor<Script> = Factor::new("script", "the script of AndroSH that is run").default("sequential-write");
const MEDIA: Factor<Media> =
    Factor::new("media", "what files that AndroSH copies are: photos of 2 MiB, songs of 6, audio of 25, video of 100")
        .default("photo");
const TREE: Factor<Tree> =
    Factor::new("tree", "the folders that AndroSH's files lie in: none, 50 beside each other, 2 x 5 x 5")
        .default("root");
const TREE_FILE_BYTES: Factor<Bytes> = Factor::new("tree_file_bytes", "size of each file of that tree").default("4096");
const ROUNDS: Factor<OrDefault<Count>> =
    Factor::new("rounds", "how often the script's work is done; default: the script's own number").default("default");
const SCALE: Factor<Count> =
    Factor::new("scale", "what every size in AndroSH is divided by, for smaller volumes").default("1");

/// Those that only some scripts have, and which.
const OF_SCRIPTS: [(AnyFactor, &[Script]); 4] = [
    (MEDIA.any(), &[Script::Copy, Script::CopyTree, Script::CompressOne]),
    (TREE.any(), &[Script::ReadTree]),
    (TREE_FILE_BYTES.any(), &[Script::ReadTree]),
    (NAMES_ARE.any(), &[Script::ReadTree]),
];

impl Defined for AndroshSpec {
    const NAME: &'static str = "androsh";
    const ABOUT: &'static str = "AndroSH's scripts, as operations of one process";
    const SMALL: &'static str = "script = ['copy', 'random-write']\nscale = 1024\nrequest_bytes = '4KiB'";
    const MAY_BE_COLD: bool = false;
    const METRICS: &'static [Metric] = &[MOVED];
    const FACTORS: &'static [AnyFactor] = &[
        DATA.any(),
        SCRIPT.any(),
        MEDIA.any(),
        TREE.any(),
        TREE_FILE_BYTES.any(),
        NAMES_ARE.any(),
        ROUNDS.any(),
        SCALE.any(),
        REQUEST_BYTES.any(),
    ];

    fn of_point(point: &Point, _prepares: &mut dyn Prepares) -> Result<Self, Impossible> {
        let script = point.of(&SCRIPT)?;
        for (factor, scripts) in OF_SCRIPTS {
            let said = point.get(factor.name).is_some_and(|value| Some(value) != factor.default_value().as_ref());
            if said && !scripts.contains(&script) {
                let names: Vec<&str> = scripts.iter().map(|script| script.word()).collect();
                let error = Error::user(format!("the script `{}` has no `{}`", script.word(), factor.name));
                return Err(blame(factor.name)(error.hint(format!("it is for {}: omit it", names.join(", ")))));
            }
        }
        let spec = AndroshSpec {
            script,
            media: point.of(&MEDIA)?,
            tree: point.of(&TREE)?,
            tree_file_bytes: point.of(&TREE_FILE_BYTES)?,
            names_are: point.of(&NAMES_ARE)?,
            rounds: point.of(&ROUNDS)?,
            scale: point.of(&SCALE)?,
            request_bytes: point.of(&REQUEST_BYTES)?,
            data: point.of(&DATA)?,
        };
        spec.judge().map(|()| spec)
    }
}

impl FileWorkload for AndroshSpec {
    fn judge(&self) -> Result<(), Impossible> {
        let AndroshSpec { script, rounds, scale, request_bytes, .. } = *self;
        let request = REQUEST_BYTES.name();
        if request_bytes == 0 {
            return Err(wrong(request, "moving 0 bytes does nothing".into(), "1 or more"));
        }
        let compresses = matches!(script, Script::CompressOne | Script::CompressMany);
        if compresses && request_bytes < LEAST_COMPRESSED_REQUEST {
            let why = format!("blocks of {request_bytes} bytes repeat within gzip's window, and compress to nothing");
            return Err(wrong(request, why, "at least 65536 (64 KiB) for this script"));
        }
        if scale == 0 || scale > KIB {
            return Err(wrong(SCALE.name(), format!("sizes cannot be divided by {scale}"), "from 1 to 1024"));
        }
        if self.by_records() && self.records() == 0 {
            let bytes = FILE_BYTES / scale;
            let why = format!("a record of {request_bytes} bytes does not fit a file of {bytes} bytes");
            return Err(wrong(request, why, &format!("at most {bytes} with this scale")));
        }
        if rounds.is_some_and(|rounds| rounds == 0 || rounds > 1000) {
            return Err(wrong(ROUNDS.name(), "so many rounds are not supported".into(), "from 1 to 1000"));
        }
        Ok(())
    }

    fn population(&self, seed: u64) -> Population {
        let (files, file_bytes, sizes) = match self.script {
            Script::SequentialRead | Script::RandomWrite | Script::RandomRead => {
                (1, self.records() * self.request_bytes, Sizes::Same)
            }
            Script::ReadTree => (MANY_FILES, self.tree_file_bytes / self.scale, Sizes::Tree { tree: self.tree }),
            Script::CopyTree => (0, 0, Sizes::Tree { tree: Tree::Nested }),
            Script::ApplicationCache => (CACHE_FILES, 0, Sizes::Small { divided_by: self.scale }),
            Script::SequentialWrite | Script::Copy | Script::CompressOne | Script::CompressMany => (0, 0, Sizes::Same),
        };
        let cold = self.script == Script::ReadTree && self.names_are == NamesAre::Cold;
        let caches = if cold { Caches::Cold } else { Caches::Warm };
        Population { files, file_bytes, data: self.data, seed, sizes, caches }
    }

    fn new_files(&self) -> u64 {
        match self.script {
            Script::SequentialWrite => 1,
            Script::Copy => self.media.numbers().0,
            Script::CopyTree => self.media.numbers().1,
            Script::CompressOne => 2,
            Script::CompressMany => MANY_FILES + 1,
            Script::ApplicationCache => self.rounds() * CACHE_USES,
            Script::SequentialRead | Script::RandomWrite | Script::RandomRead | Script::ReadTree => 0,
        }
    }

    /// What is read has been read once before the clock starts, where it may be cached.
    fn setup(&self) -> Box<dyn Iterator<Item = Operation>> {
        match (self.script, self.names_are) {
            (Script::SequentialRead | Script::RandomRead, _) => {
                Box::new(self.pass(Purpose::Read, self.offsets()).into_iter())
            }
            (Script::ReadTree, NamesAre::Cached) => Box::new(read_tree()),
            _ => Box::new(std::iter::empty()),
        }
    }

    fn operations(&self, seed: u64) -> Box<dyn Iterator<Item = Operation>> {
        let mut random = Random::labelled(seed, "androsh");
        if self.script == Script::ApplicationCache {
            return Box::new(self.uses_of_cache(seed, &mut random).into_iter());
        }
        let spec = self.clone();
        Box::new((0..self.rounds()).flat_map(move |round| spec.round(round, &mut random)))
    }

    fn request_bytes(&self) -> u64 {
        self.request_bytes
    }

    fn writes(&self) -> bool {
        !matches!(self.script, Script::SequentialRead | Script::RandomRead | Script::ReadTree)
    }

    /// Bytes that a script moves over the time in its calls; the deletion of what an earlier round left is not part of
    /// it.
    fn metrics(&self, ran: &Ran<'_>) -> Values {
        let operations = self.operations(ran.seed).filter(Operation::is_logged).zip(ran.calls);
        let of_data = operations.filter(|(operation, _)| !matches!(operation, Operation::Delete { .. }));
        let ns = of_data.map(|(_, call)| call.latency_ns as f64).sum();
        vec![(MOVED.name, self.throughput_bytes(ran.seed).and_then(|bytes| per_s(bytes, ns)))]
    }

    fn names(&self, seed: u64) -> Vec<String> {
        let archive = |number: u64| (0..number).map(|n| file_name(n as u32)).chain(["archive.tar.gz".to_owned()]);
        match self.script {
            Script::CopyTree => (0..self.new_files()).map(|n| Tree::Nested.path(n, &file_name(n as u32))).collect(),
            Script::CompressOne => archive(1).collect(),
            Script::CompressMany => archive(MANY_FILES).collect(),
            _ => crate::definition::usual_names(self, seed),
        }
    }
}

impl AndroshSpec {
    /// Bytes that the script's calls read and write; `None` for scripts whose result is a time.
    fn throughput_bytes(&self, seed: u64) -> Option<u64> {
        use Script::{ApplicationCache, CompressMany, CompressOne, ReadTree};
        match self.script {
            CompressOne | CompressMany | ApplicationCache => None,
            ReadTree => Some(self.rounds() * MANY_FILES * (self.tree_file_bytes / self.scale)),
            _ => Some(self.operations(seed).map(|operation| operation.bytes()).sum()),
        }
    }

    /// How often the work is done: where the reference says nothing else, A1 and A2 three times, the others once.
    fn rounds(&self) -> u64 {
        self.rounds.unwrap_or(match (self.script, self.names_are) {
            (Script::SequentialWrite | Script::SequentialRead, _) => 3,
            (Script::ReadTree, NamesAre::Cached) => 10,
            (Script::CompressOne, _) => self.media.numbers().2,
            _ => 1,
        })
    }

    fn by_records(&self) -> bool {
        use Script::{RandomRead, RandomWrite, SequentialRead, SequentialWrite};
        matches!(self.script, SequentialWrite | SequentialRead | RandomWrite | RandomRead)
    }

    fn records(&self) -> u64 {
        FILE_BYTES / self.scale.max(1) / self.request_bytes.max(1)
    }

    fn offsets(&self) -> Vec<u64> {
        (0..self.records()).map(|record| record * self.request_bytes).collect()
    }

    /// Each record once, in random order.
    fn shuffled(&self, random: &mut Random) -> Vec<u64> {
        let mut offsets = self.offsets();
        for last in (1..offsets.len()).rev() {
            offsets.swap(last, random.below(last as u64 + 1) as usize);
        }
        offsets
    }

    /// Opens the file, moves a record at each offset, closes it.
    fn pass(&self, purpose: Purpose, offsets: Vec<u64>) -> Vec<Operation> {
        let (file, bytes) = (0, self.request_bytes);
        let call = |offset| match purpose {
            Purpose::Read => Operation::Read { file, offset, bytes },
            Purpose::Write | Purpose::Append | Purpose::New | Purpose::Direct => {
                Operation::Write { file, offset, bytes }
            }
        };
        let calls = offsets.into_iter().map(call);
        [Operation::Open { file, purpose }].into_iter().chain(calls).chain([Operation::Close { file }]).collect()
    }

    /// What is copied comes from memory: a file beside the volume would cost the same on all of them.
    fn copy(&self, file: u32, bytes: u64) -> Vec<Operation> {
        let appends = blocks(bytes, self.request_bytes).map(|(_, bytes)| Operation::Append { file, bytes });
        [Operation::Create { file }].into_iter().chain(appends).chain([Operation::Close { file }]).collect()
    }

    fn round(&self, round: u64, random: &mut Random) -> Vec<Operation> {
        // What an earlier round left is in the way.
        let files = if round == 0 { 0 } else { self.new_files() as u32 };
        let deleted = (0..files).map(|file| Operation::Delete { file });
        let media = self.media.bytes() / self.scale;
        let (one, many) = (media, 0..self.new_files() as u32);
        match self.script {
            Script::SequentialWrite => {
                let written = [Operation::CreateFile { file: 0 }].into_iter();
                deleted.chain(written).chain(self.pass(Purpose::Write, self.offsets())).collect()
            }
            Script::SequentialRead => self.pass(Purpose::Read, self.offsets()),
            Script::RandomWrite => self.pass(Purpose::Write, self.shuffled(random)),
            Script::RandomRead => self.pass(Purpose::Read, self.shuffled(random)),
            Script::ReadTree => read_tree().collect(),
            Script::Copy => deleted.chain(many.flat_map(|file| self.copy(file, one))).collect(),
            Script::CopyTree => deleted.chain(many.flat_map(|file| self.copy(file, random.below(media + 1)))).collect(),
            Script::CompressOne => {
                let compressed = [Operation::Archive { first: 0, files: 1, into: 1 }];
                let gone = (0..2).map(|file| Operation::Delete { file });
                self.copy(0, one).into_iter().chain(compressed).chain(gone).collect()
            }
            Script::CompressMany => {
                let (least, most) = (MIXED_BYTES.0 / self.scale, MIXED_BYTES.1 / self.scale);
                let files = MANY_FILES as u32;
                let copied = (0..files).flat_map(|file| self.copy(file, least + random.below(most - least + 1)));
                deleted.chain(copied).chain([Operation::Archive { first: 0, files, into: files }]).collect()
            }
            Script::ApplicationCache => Vec::new(),
        }
    }

    /// Half of the uses read a file whole; a quarter make a new one, a quarter delete one, as a full cache does.
    fn uses_of_cache(&self, seed: u64, random: &mut Random) -> Vec<Operation> {
        let mut there: Vec<u32> = (0..CACHE_FILES as u32).collect();
        let sizes = Population { files: self.new_files(), seed: seed ^ 3, ..self.population(seed) }.list();
        let mut new = (CACHE_FILES as u32..).zip(sizes);
        let mut made = Vec::new();
        for _ in 0..self.rounds() * CACHE_USES {
            let (use_of, chosen) = (random.below(4), random.below(there.len().max(1) as u64) as usize);
            match (use_of, there.len()) {
                (0, _) | (_, 0) => {
                    if let Some((file, size)) = new.next() {
                        made.extend(self.copy(file, size.bytes));
                        there.push(file);
                    }
                }
                (1, _) => made.push(Operation::Delete { file: there.swap_remove(chosen) }),
                _ => made.push(Operation::ReadFile { file: there[chosen] }),
            }
        }
        made
    }
}

fn read_tree() -> impl Iterator<Item = Operation> {
    (0..MANY_FILES as u32).map(|file| Operation::ReadFile { file })
}

#[cfg(test)]
mod tests;
