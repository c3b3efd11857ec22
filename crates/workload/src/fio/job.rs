//! A job: what its options say, checked.

use super::sections::{Given, Section};
use super::values::{bytes, duration_ns, flag, number, path, unknown};
use pocketstone_core::words::Word;
use pocketstone_core::{Result, words};
use serde::{Deserialize, Serialize};

/// Most clones of a job, and most threads of a file: what the lab's boards run.
pub(super) const MOST_THREADS: u64 = 64;

/// Most files of a job.
const MOST_FILES: u64 = 512;

/// Most places of a job that come in random order, each once: the order of all of them is in memory, 64 MiB of it.
const MOST_PLACES: u64 = 1 << 24;

words! {
    /// What a job does to its files.
    Mode {
        /// Reads in order.
        Read = "read",
        /// Writes in order.
        Write = "write",
        /// Reads at random places.
        RandRead = "randread",
        /// Writes at random places.
        RandWrite = "randwrite",
        /// Reads and writes, each in order.
        ReadWrite = "rw",
        /// Reads and writes at random places.
        RandRw = "randrw",
    }
}

impl Mode {
    /// Whether it reads.
    pub fn reads(self) -> bool {
        !matches!(self, Mode::Write | Mode::RandWrite)
    }

    /// Whether it writes.
    pub fn writes(self) -> bool {
        !matches!(self, Mode::Read | Mode::RandRead)
    }

    /// Whether places are random.
    pub fn random(self) -> bool {
        matches!(self, Mode::RandRead | Mode::RandWrite | Mode::RandRw)
    }
}

words! {
    /// What is done before the clock starts with a file that is only written.
    Fallocate {
        /// Its space is reserved, where the file system can; elsewhere it is empty.
        Native = "native",
        /// It is empty.
        None = "none",
        /// It has its size, without a block.
        Truncate = "truncate",
    }
}

impl Fallocate {
    /// What all jobs did before they could say it.
    fn of_before() -> Self {
        Fallocate::Truncate
    }

    fn is_of_before(&self) -> bool {
        *self == Self::of_before()
    }
}

/// One thread's work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// The job's name, and which of its clones this is.
    pub name: String,
    /// What it does.
    pub mode: Mode,
    /// Bytes of a request.
    pub block_bytes: u64,
    /// Its files' names.
    pub files: Vec<String>,
    /// Size of each of them.
    pub file_bytes: u64,
    /// Requests of a pass.
    pub requests: u64,
    /// Passes.
    pub loops: u64,
    /// Of 100 requests of a mixed job, how many read.
    pub read_percent: u64,
    /// Writes between two fsync(); 0: none.
    pub fsync: u64,
    /// Writes between two fdatasync(); 0: none.
    pub fdatasync: u64,
    /// Whether a pass ends with fsync().
    pub end_fsync: bool,
    /// Whether requests pass by the page cache.
    pub direct: bool,
    /// Whether the page cache has nothing of its files at the start.
    pub invalidate: bool,
    /// Whether its files have their contents before it.
    pub laid_out: bool,
    /// How its files are made that have no contents before it. Plans of earlier versions do not say so.
    #[serde(default = "Fallocate::of_before", skip_serializing_if = "Fallocate::is_of_before")]
    pub fallocate: Fallocate,
    /// Whether a place can come again before all others have.
    pub repeats: bool,
    /// Pause after so many requests.
    pub think_requests: u64,
    /// The pause.
    pub think_ns: u64,
    /// The seed of its random numbers; `None`: the cell's.
    pub seed: Option<u64>,
    /// Whether it begins after those before it.
    pub after: bool,
}

/// What options say, before it is put together.
#[derive(Default)]
struct Said {
    mode: Option<Mode>,
    block: Option<u64>,
    size: Option<(u64, Given)>,
    file_size: Option<(u64, Given)>,
    io_size: Option<(u64, Given)>,
    number_ios: Option<(u64, Given)>,
    clones: Option<u64>,
    files: Option<u64>,
    file_names: Option<Given>,
    directory: String,
    engine_depth: (Option<Given>, Option<Given>),
    loops: Option<(u64, Given)>,
    read_percent: Option<u64>,
    fsync: Option<(u64, Given)>,
    fdatasync: Option<(u64, Given)>,
    end_fsync: bool,
    direct: bool,
    cached: Option<bool>,
    overwrite: bool,
    fallocate: Option<Fallocate>,
    repeats: bool,
    think: (u64, Option<u64>),
    seed: Option<u64>,
    after: bool,
}

impl Said {
    fn hear(&mut self, given: &Given) -> Result<()> {
        match given.name.as_str() {
            "rw" | "readwrite" => self.mode = Some(mode(given)?),
            "bs" | "blocksize" => self.block = Some(block(given)?),
            "size" => self.size = Some((bytes(given)?, given.clone())),
            "filesize" => self.file_size = Some((bytes(given)?, given.clone())),
            "io_size" | "io_limit" => self.io_size = Some((bytes(given)?, given.clone())),
            "number_ios" => self.number_ios = Some((number(given, 1, u64::from(u32::MAX))?, given.clone())),
            "numjobs" => self.clones = Some(number(given, 1, MOST_THREADS)?),
            "nrfiles" => self.files = Some(number(given, 1, MOST_FILES)?),
            "filename" => self.file_names = Some(given.clone()),
            "directory" => self.directory = folder(given)?,
            "ioengine" => self.engine_depth.0 = Some(given.clone()),
            "iodepth" => {
                number(given, 1, 1 << 20)?;
                self.engine_depth.1 = Some(given.clone());
            }
            "loops" => self.loops = Some((number(given, 1, 1 << 20)?, given.clone())),
            "rwmixread" => self.read_percent = Some(number(given, 0, 100)?),
            "rwmixwrite" => self.read_percent = Some(100 - number(given, 0, 100)?),
            "fsync" => self.fsync = syncs(given)?,
            "fdatasync" => self.fdatasync = syncs(given)?,
            "end_fsync" => self.end_fsync = flag(given)?,
            "direct" => self.direct = flag(given)?,
            "buffered" => self.direct = !flag(given)?,
            "invalidate" => self.cached = Some(!flag(given)?),
            "overwrite" => self.overwrite = flag(given)?,
            "norandommap" => self.repeats = flag(given)?,
            "thinktime" => self.think.0 = duration_ns(given)?,
            "thinktime_blocks" => self.think.1 = Some(number(given, 1, u64::from(u32::MAX))?),
            "randseed" => self.seed = Some(number(given, 0, u64::MAX)?),
            "stonewall" | "wait_for_previous" => self.after = flag(given)?,
            "file_service_type" => match given.value.as_str() {
                "roundrobin" => {}
                _ => return Err(given.wrong("files take turns").hint("leave it out, or say roundrobin")),
            },
            "fallocate" => self.fallocate = Some(fallocate(given)?),
            // What is reported, and what is the same for every workload of the lab.
            "group_reporting" | "new_group" | "thread" | "description" | "clat_percentiles" | "lat_percentiles"
            | "percentile_list" | "disk_util" | "log_avg_msec" | "write_bw_log" | "write_lat_log"
            | "write_iops_log" | "randrepeat" | "refill_buffers" | "scramble_buffers" | "unlink" => {}
            _ => return Err(unknown(given)),
        }
        Ok(())
    }
}

/// Writes between two calls that make durable; 0: there are none.
fn syncs(given: &Given) -> Result<Option<(u64, Given)>> {
    let every = number(given, 0, u64::from(u32::MAX))?;
    Ok((every > 0).then(|| (every, given.clone())))
}

/// One folder for all clones: fio gives each the next of several.
fn folder(given: &Given) -> Result<String> {
    match given.value.contains(':') {
        true => Err(given.wrong("fio gives each clone another of these folders").hint("name one folder")),
        false => path(given, &given.value),
    }
}

fn mode(given: &Given) -> Result<Mode> {
    let word = if given.value == "readwrite" { "rw" } else { &given.value };
    Mode::of_word(word).ok_or_else(|| {
        let known = "read, write, randread, randwrite, rw or randrw";
        given.wrong("the lab does not know this kind of requests").hint(format!("use {known}"))
    })
}

fn fallocate(given: &Given) -> Result<Fallocate> {
    let word = if given.value == "0" { "none" } else { &given.value };
    Fallocate::of_word(word).ok_or_else(|| {
        let why = "the lab reserves space by fallocate() alone, and with the file's size";
        given.wrong(why).hint("use native, none or truncate")
    })
}

/// fio's sizes of reads, writes and trims; the lab has one for all.
fn block(given: &Given) -> Result<u64> {
    let of = |part: &str| bytes(&Given { value: part.trim().to_owned(), ..given.clone() });
    let parts = given.value.split(',').map(of).collect::<Result<Vec<u64>>>()?;
    match parts[..] {
        [first, ..] if parts.len() <= 3 && parts.iter().all(|part| *part == first) => match first {
            1..=0x4000_0000 => Ok(first),
            _ => Err(given.wrong("a request has from 1 byte to 1 GiB").hint("write a size such as bs=4k")),
        },
        _ => Err(given.wrong("reads and writes have one size").hint("write bs=4k, or two jobs with different sizes")),
    }
}

/// What options say together.
impl Said {
    /// The names of the files, where they have some.
    fn names(&self) -> Result<Option<Vec<String>>> {
        let Some(given) = &self.file_names else { return Ok(None) };
        let names: Vec<String> = given.value.split(':').map(|name| path(given, name)).collect::<Result<_>>()?;
        if names.iter().any(String::is_empty) {
            return Err(given.wrong("a file has no name").hint("names stand between colons, as a:b"));
        }
        if let Some(asked) = self.files.filter(|asked| *asked != names.len() as u64) {
            let why = format!("nrfiles={asked} asks for another number of files");
            return Err(given.wrong(why).hint("leave nrfiles out where files have names"));
        }
        Ok(Some(names))
    }

    /// The size of each of so many files, and the option that says it.
    fn file_bytes(&self, files: u64) -> Result<Option<(u64, &Given)>> {
        match (&self.file_size, &self.size) {
            (Some((each, given)), None) => Ok(Some((*each, given))),
            (None, Some((all, given))) => Ok(Some((all / files, given))),
            (Some((each, _)), Some((all, given))) if each.checked_mul(files) == Some(*all) => Ok(Some((*each, given))),
            (Some(_), Some((_, given))) => {
                Err(given.wrong("filesize asks for another size").hint("use one of size and filesize"))
            }
            (None, None) => Ok(None),
        }
    }

    /// The requests of a pass over so many places.
    fn requests(&self, places: u64, block_bytes: u64) -> Result<u64> {
        let requests = match &self.io_size {
            Some((all, given)) if *all == 0 || all % block_bytes != 0 => {
                let why = format!("not a multiple of a request's {block_bytes} bytes");
                return Err(given.wrong(why).hint("use a multiple of bs"));
            }
            Some((all, _)) => all / block_bytes,
            None => places,
        };
        Ok(requests.min(self.number_ios.as_ref().map_or(u64::MAX, |(most, _)| *most)))
    }
}

impl Job {
    /// The jobs of a section: as many as it has clones.
    pub(super) fn of_section(section: &Section) -> Result<Vec<Job>> {
        let mut said = Said::default();
        section.options.iter().try_for_each(|given| said.hear(given))?;
        depth(&said)?;
        let missing = |what: &str, hint: &str| {
            pocketstone_core::Error::user(format!("{}: the job [{}] has no {what}", section.at, section.name))
                .hint(hint.to_owned())
        };
        let mode = said.mode.unwrap_or(Mode::Read);
        let block_bytes = said.block.unwrap_or(4096);
        let named = said.names()?;
        let files = named.as_ref().map_or(said.files.unwrap_or(1), |names| names.len() as u64);
        let (file_bytes, given) = said.file_bytes(files)?.ok_or_else(|| missing("size", "say size=16m"))?;
        if file_bytes < block_bytes {
            let why = format!("a file of {file_bytes} bytes has no room for a request of {block_bytes}");
            return Err(given.wrong(why).hint("use a larger size, a smaller bs, or fewer files"));
        }
        let places = (file_bytes / block_bytes).saturating_mul(files);
        let requests = said.requests(places, block_bytes)?;
        let loops = said.loops.as_ref().map_or(1, |(loops, _)| *loops);
        if requests.saturating_mul(loops) > u64::from(u32::MAX) {
            let why = format!("{loops} times {requests} requests are too many");
            return Err(given.wrong(why).hint("use fewer loops, a smaller size, or number_ios"));
        }
        if mode.random() && !said.repeats && places > MOST_PLACES {
            let why = format!("{places} places in random order are more than {MOST_PLACES}");
            return Err(given.wrong(why).hint("use a larger bs, a smaller size, or norandommap"));
        }
        let all = said.size.as_ref().map_or(file_bytes.saturating_mul(files), |(all, _)| *all);
        let by_bytes = mode == Mode::ReadWrite || mode.random() && said.repeats;
        if by_bytes && all % block_bytes.saturating_mul(files) != 0 {
            let why = "fio makes a request more for the bytes that are left in a file, of rw=rw and with norandommap";
            return Err(given.wrong(why).hint("use a multiple of bs for each file"));
        }
        together(&said, mode, files, loops, requests.div_ceil(places))?;
        if section.name.contains('/') {
            return Err(missing("name of a file", "leave `/` out of its name"));
        }
        let folder = if said.directory.is_empty() { String::new() } else { format!("{}/", said.directory) };
        let clones = said.clones.unwrap_or(1);
        let job = |clone: u64| Job {
            name: format!("{}.{clone}", section.name),
            mode,
            block_bytes,
            files: match &named {
                Some(names) => names.iter().map(|name| format!("{folder}{name}")).collect(),
                None => (0..files).map(|file| format!("{folder}{}.{clone}.{file}", section.name)).collect(),
            },
            file_bytes,
            requests,
            loops,
            read_percent: said.read_percent.unwrap_or(50),
            fsync: said.fsync.as_ref().map_or(0, |(every, _)| *every),
            fdatasync: said.fdatasync.as_ref().map_or(0, |(every, _)| *every),
            end_fsync: said.end_fsync,
            direct: said.direct,
            invalidate: !said.cached.unwrap_or(false),
            laid_out: mode.reads() || said.overwrite,
            // As fio does.
            fallocate: said.fallocate.unwrap_or(Fallocate::Native),
            repeats: said.repeats,
            think_requests: said.think.1.unwrap_or(1),
            think_ns: said.think.0,
            seed: said.seed,
            after: said.after && clone == 0,
        };
        Ok((0..clones).map(job).collect())
    }

    /// All its pauses together, in ns: after so many requests, if there is another one.
    pub(super) fn pauses_ns(&self) -> u64 {
        let requests = self.requests.saturating_mul(self.loops).saturating_sub(1);
        requests.checked_div(self.think_requests).unwrap_or(0).saturating_mul(self.think_ns)
    }

    /// Requests after which fio closes the files, and opens them again for the next ones: each place's, or all of them
    /// with all loops where places come again anyway.
    pub(super) fn pass_requests(&self) -> u64 {
        let places = (self.file_bytes / self.block_bytes).saturating_mul(self.files.len() as u64);
        match self.mode.random() && self.repeats {
            true => self.requests * self.loops,
            false => self.requests.min(places),
        }
    }
}

/// Refuses options that fio does not follow one by one where they come together, as its logs have it
/// (`fio --write_iolog`, fio 3.33). `sweeps`: how often a loop comes to the same places, the last time in part.
fn together(said: &Said, mode: Mode, files: u64, loops: u64, sweeps: u64) -> Result<()> {
    let limit = said.number_ios.as_ref().or(said.io_size.as_ref());
    if let Some((_, given)) = limit.filter(|_| loops > 1) {
        let why = format!("with loops={loops} fio counts it in its own way, over all loops");
        return Err(given.wrong(why).hint("use it without loops, or loops without it"));
    }
    if let (Some(_), Some((_, given))) = (&said.fsync, &said.fdatasync) {
        let why = "beside fsync fio does not do it where both are due";
        return Err(given.wrong(why).hint("use one of fsync and fdatasync"));
    }
    if let Some((_, given)) = said.fsync.as_ref().or(said.fdatasync.as_ref()).filter(|_| files > 1 && mode.writes()) {
        let why = "of several files fio makes that one durable whose turn is next, and writes them one by one";
        return Err(given.wrong(why).hint("use one file for each job, or end_fsync=1"));
    }
    let again = said.loops.as_ref().filter(|_| loops > 1).map(|(_, given)| given);
    let again = again.or(said.io_size.as_ref().filter(|_| sweeps > 1).map(|(_, given)| given));
    if let Some(given) = again.filter(|_| mode == Mode::ReadWrite) {
        let why = "fio begins again where the reads or the writes of a mixed job end, not after all of its size";
        return Err(given.wrong(why).hint("use loops=1 with an io_size up to size, or rw=randrw"));
    }
    Ok(())
}

/// A thread of the lab has one request at a time: so have fio's engines that call the kernel and wait, whatever
/// `iodepth` says, and the others with `iodepth=1`.
fn depth(said: &Said) -> Result<()> {
    let (Some(engine), depth) = (&said.engine_depth.0, &said.engine_depth.1) else { return Ok(()) };
    match engine.value.as_str() {
        "sync" | "psync" | "vsync" | "pvsync" | "pvsync2" => Ok(()),
        "libaio" | "io_uring" | "posixaio" => match depth {
            Some(depth) if depth.value != "1" => {
                let why =
                    format!("with ioengine={} a thread has several requests at once; the lab's have one", engine.value);
                Err(depth.wrong(why).hint("say iodepth=1, and numjobs for what is done at once"))
            }
            _ => Ok(()),
        },
        _ => Err(engine.wrong("the lab does not know this engine").hint("use psync")),
    }
}
