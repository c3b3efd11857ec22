//! What a workload on files was promised: an fsync that returned promises what its file held.

use super::Progress;
use crate::temporary_folder;
use pocketstone_core::chip::{Survivor, Verdict};
use pocketstone_core::volume::FileSystem;
use pocketstone_core::{Error, Result};
use pocketstone_engine::{Engine, Executor, KernelTree, populate};
use pocketstone_workload::{Effect, FileWorkload, Operation, Part};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// Bytes of a part of a [`Bytes`].
const PART_BYTES: usize = 16 << 10;

/// What a file holds, in parts, so that a version shares with the one before what has not changed: there may be
/// thousands of them, of a large file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Bytes(Vec<Arc<[u8]>>);

impl Bytes {
    fn new(bytes: &[u8], before: Option<&Bytes>) -> Bytes {
        Bytes(parts(bytes, before.map_or(&[], |before| &before.0)).collect())
    }

    /// These, with other bytes from the part of that number on, as far as they reach.
    fn with(&self, first: usize, bytes: &[u8]) -> Bytes {
        let (front, rest) = self.0.split_at(first);
        let behind = rest.get(bytes.len().div_ceil(PART_BYTES)..).unwrap_or_default();
        Bytes(front.iter().cloned().chain(parts(bytes, rest)).chain(behind.iter().cloned()).collect())
    }

    fn len(&self) -> usize {
        self.0.last().map_or(0, |last| (self.0.len() - 1) * PART_BYTES + last.len())
    }

    fn get(&self, at: usize) -> Option<u8> {
        self.0.get(at / PART_BYTES)?.get(at % PART_BYTES).copied()
    }

    fn iter(&self) -> impl Iterator<Item = u8> {
        self.0.iter().flat_map(|part| part.iter().copied())
    }
}

/// Bytes in parts, of which those that are as before are shared.
fn parts(bytes: &[u8], before: &[Arc<[u8]>]) -> impl Iterator<Item = Arc<[u8]>> {
    bytes.chunks(PART_BYTES).enumerate().map(|(number, bytes)| {
        let same = before.get(number).filter(|part| part[..] == *bytes);
        same.map_or_else(|| bytes.into(), Arc::clone)
    })
}

/// A file's content; `None`: it is not there.
type Content = Option<Bytes>;

/// What a call made of a file.
struct Version {
    /// The call's number among those that are logged, from 1 on; 0: what was there before, first as it was filled,
    /// then as the workload has set it up.
    call: usize,
    content: Content,
    /// Whether the call's return promised it.
    promised: bool,
    /// Whether the call cut the file to nothing first: then it may be of any size, with zeros where bytes are missing.
    anew: bool,
}

/// What every file held after each call.
pub(super) struct History {
    /// By the name from the volume's root.
    files: BTreeMap<String, Vec<Version>>,
}

impl History {
    /// Executes the workload in a folder of this machine, as it is on a volume with that file system.
    pub fn of(workload: &dyn FileWorkload, file_system: FileSystem, seed: u64) -> Result<History> {
        let folder = temporary_folder()?;
        if workload.threads() != 1 {
            return Err(Error::user("the order of what several threads write is not known").hint("set threads = 1"));
        }
        let population = workload.population(seed);
        let within = population.folder().map_or_else(String::new, |within| format!("{within}/"));
        let tree = KernelTree::open(folder.path())?;
        let tree = if file_system.reserves_space() { tree } else { tree.without_reserved_space() };
        populate(&tree, &population)?;
        let names = workload.names(seed);
        let mut now = Now { folder: folder.path(), contents: BTreeMap::new(), renamed: false };
        let mut history = History { files: BTreeMap::new() };
        let path = |name: &str| format!("{within}{name}");
        for name in &names {
            let content = now.after(name, Some(Part::All));
            history.files.insert(path(name), vec![Version { call: 0, content, promised: true, anew: false }]);
        }
        let mut executors = Executor::all(&tree, workload, seed)?;
        for name in &names {
            let content = now.after(name, Some(Part::All));
            history.add(&path(name), Version { call: 0, content, promised: false, anew: false });
        }
        let executor = executors.first_mut().ok_or_else(|| Error::bug("a workload has no thread"))?;
        let mut call = 0;
        for operation in workload.operations(seed) {
            if matches!(operation, Operation::Pause { .. } | Operation::Turn { .. }) {
                continue;
            }
            executor.execute(&operation)?;
            if !operation.is_logged() {
                continue;
            }
            call += 1;
            let effect = operation.effect();
            now.renamed |= matches!(effect, Effect::Rename { .. });
            let (mut changed, promised) = changes(effect, workload.sync_each());
            if now.renamed && effect == Effect::Nothing {
                // It may be the first one to see what was done to a file by a name that this had.
                changed.extend(operation.file().map(|file| (file, Some(Part::All))));
            }
            for (file, part) in changed {
                if let Some(name) = names.get(file as usize) {
                    let (content, anew) = (now.after(name, part), part == Some(Part::Anew));
                    history.add(&path(name), Version { call, content, promised, anew });
                }
            }
        }
        Ok(history)
    }

    fn add(&mut self, name: &str, version: Version) {
        let Some(versions) = self.files.get_mut(name) else { return };
        if version.promised || versions.last().is_some_and(|last| last.content != version.content) {
            versions.push(version);
        }
    }

    /// How many calls had promised something, and what of that is not there.
    pub fn verdict(&self, progress: Progress, survivors: &[Survivor]) -> (u64, Verdict) {
        let found: BTreeMap<&str, &Survivor> = survivors.iter().map(|s| (s.name.as_str(), s)).collect();
        let (mut promised, mut verdict) = (0, Verdict::default());
        for (name, versions) in &self.files {
            promised += versions.iter().filter(|v| v.promised && (1..=progress.returned).contains(&v.call)).count();
            judge(name, versions, progress, found.get(name.as_str()).copied(), &mut verdict);
        }
        (promised as u64, verdict)
    }
}

/// The files that an operation may have changed, with what of them, or made a promise of, and whether it did.
fn changes(effect: Effect, sync_each: bool) -> (Vec<(u32, Option<Part>)>, bool) {
    match effect {
        Effect::Nothing => (Vec::new(), false),
        Effect::Request { file, part } => (vec![(file, Some(part))], sync_each),
        Effect::Change { file, part } => (vec![(file, Some(part))], false),
        Effect::Promise { file } => (vec![(file, None)], true),
        // A new name is its folder's, which nobody has synced.
        Effect::Rename { file, to } => ([file, to].map(|file| (file, Some(Part::All))).into(), false),
    }
}

fn judge(name: &str, versions: &[Version], progress: Progress, found: Option<&Survivor>, verdict: &mut Verdict) {
    let until = |calls: usize| versions.partition_point(|version| version.call <= calls);
    // What may be there lies between the last promise and what was last begun.
    let (returned, begun) = (until(progress.returned), until(progress.begun));
    let promise = versions[..returned].iter().rposition(|version| version.promised).unwrap_or(0);
    let mut say = |what: String| {
        verdict.first.get_or_insert(what);
    };
    let content: Content = match found.map(|survivor| &survivor.content) {
        None => None,
        Some(Ok(content)) => Some(Bytes::new(content, None)),
        Some(Err(why)) => {
            verdict.lost_promises += lost(&versions[1.min(returned)..returned], true);
            verdict.damaged += 1;
            return say(format!("{name} cannot be read: {why}"));
        }
    };
    match versions[..begun].iter().rposition(|version| version.content == content) {
        Some(at) if at >= promise => {
            verdict.lost_unpromised += lost(&versions[(at + 1).min(returned)..returned], false)
        }
        Some(at) => {
            let promises = lost(&versions[at + 1..=promise], true);
            verdict.lost_promises += promises;
            verdict.lost_unpromised += lost(&versions[promise + 1..returned], false);
            say(format!("{name} is as {promises} promised calls before"));
        }
        None => {
            let allowed = &versions[promise..begun];
            let strange = content.as_ref().map(|content| strange(content, allowed));
            if strange == Some(None) && allowed.len() > 1 {
                verdict.mixed += 1;
                return;
            }
            verdict.damaged += 1;
            // Nothing of it can be told from what was never there.
            verdict.lost_promises += lost(&versions[1.min(returned)..returned], true);
            say(match strange {
                None => format!("{name} is missing"),
                Some(None) => format!("{name} has {} bytes, and was complete", content.map_or(0, |c| c.len())),
                Some(Some(at)) => format!("{name} has a byte that was never there, at {at}"),
            });
        }
    }
}

/// Calls of these versions with a promise, or without.
fn lost(versions: &[Version], promised: bool) -> u64 {
    versions.iter().filter(|version| version.call > 0 && version.promised == promised).count() as u64
}

/// The place of the first byte that no version has there, or that lies beyond all of them. A file that grew before its
/// bytes arrived has zeros.
fn strange(content: &Bytes, versions: &[Version]) -> Option<usize> {
    let there: Vec<&Bytes> = versions.iter().filter_map(|version| version.content.as_ref()).collect();
    let most = there.iter().map(|version| version.len()).max().unwrap_or(0);
    let zeros = versions.windows(2).any(|pair| pair[1].anew || size(&pair[0]) < size(&pair[1]));
    let fits = |at: usize, byte: u8| {
        at < most && ((zeros && byte == 0) || there.iter().any(|version| version.get(at) == Some(byte)))
    };
    content.iter().enumerate().position(|(at, byte)| !fits(at, byte))
}

fn size(version: &Version) -> usize {
    version.content.as_ref().map_or(0, Bytes::len)
}

/// What the files of a workload hold, as far as it was executed, by their names: several numbers may have the same.
struct Now<'a> {
    folder: &'a Path,
    contents: BTreeMap<&'a str, Content>,
    /// Whether a file that is open may have another name by now: then what is done to it changes that one.
    renamed: bool,
}

impl<'a> Now<'a> {
    /// What a file holds after a call that may have changed a part of it.
    fn after(&mut self, name: &'a str, part: Option<Part>) -> Content {
        let held = self.contents.entry(name).or_default();
        let part = if self.renamed { Some(Part::All) } else { part };
        if let Some(part) = part {
            *held = content(&self.folder.join(name), held.as_ref(), part);
        }
        held.clone()
    }
}

/// What a file holds that held `before`, of which a part may be different now. No more than that is read: there may be
/// thousands of calls on a large file.
fn content(path: &Path, before: Option<&Bytes>, part: Part) -> Content {
    let file = File::open(path).ok()?;
    let bytes = usize::try_from(file.metadata().ok()?.len()).ok()?;
    let known = before.and_then(|before| Some((before, changed(before.len(), bytes, part)?)));
    let Some((before, Range { start, end })) = known else {
        return Some(Bytes::new(&fs::read(path).ok()?, before));
    };
    let mut read = vec![0; (end * PART_BYTES).min(bytes) - start * PART_BYTES];
    file.read_exact_at(&mut read, (start * PART_BYTES) as u64).ok()?;
    Some(before.with(start, &read))
}

/// The numbers of the parts of [`Bytes`] that may be different in a file that had `before` bytes and has `bytes` now;
/// `None`: all.
fn changed(before: usize, bytes: usize, part: Part) -> Option<Range<usize>> {
    if bytes < before {
        return None;
    }
    let (from, to) = match part {
        Part::All | Part::Anew => return None,
        Part::Beyond => (before, bytes),
        Part::Bytes { offset, bytes: written } => {
            let (offset, written) = (usize::try_from(offset).ok()?, usize::try_from(written).ok()?);
            (offset, offset.saturating_add(written))
        }
    };
    // What it has grown by begins where it ended.
    let (from, to) = if bytes > before { (from.min(before), bytes) } else { (from.min(bytes), to.min(bytes)) };
    Some(from / PART_BYTES..to.div_ceil(PART_BYTES).max(from / PART_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pocketstone_core::pattern::Pattern;
    use pocketstone_workload::calls::{self, Selection};
    use pocketstone_workload::{CallsSpec, Data, FileOperation, FilesSpec, FioSpec, Sync};

    /// Four appends of two bytes each to one file, which is there and empty; the second one's return is a promise.
    fn appends() -> History {
        let bytes = b"aabbccdd";
        let version = |call: usize| Version {
            call,
            content: Some(Bytes::new(&bytes[..2 * call], None)),
            promised: call == 0 || call == 2,
            anew: false,
        };
        History { files: BTreeMap::from([("f".to_owned(), (0..=4).map(version).collect())]) }
    }

    fn verdict(returned: usize, begun: usize, content: Option<&[u8]>) -> (u64, Verdict) {
        let survivor = content.map(|content| Survivor { name: "f".into(), content: Ok(content.to_vec()) });
        let survivors: Vec<Survivor> = survivor.into_iter().collect();
        let (promised, verdict) = appends().verdict(Progress { returned, begun }, &survivors);
        (promised, Verdict { first: None, ..verdict })
    }

    #[test]
    fn what_was_promised_must_be_there_and_what_was_not_may_be() {
        let fine = Verdict::default();
        assert_eq!(verdict(4, 4, Some(b"aabbccdd")), (1, fine.clone()));
        assert_eq!(verdict(4, 4, Some(b"aabb")), (1, Verdict { lost_unpromised: 2, ..fine.clone() }));
        let lost = Verdict { lost_promises: 1, lost_unpromised: 2, ..fine.clone() };
        assert_eq!(verdict(4, 4, Some(b"aa")), (1, lost));
        // Before the promise nothing is owed; the call that was under way may have left all or a part of its bytes.
        assert_eq!(verdict(1, 2, Some(b"")), (0, Verdict { lost_unpromised: 1, ..fine.clone() }));
        assert_eq!(verdict(1, 2, Some(b"aabb")), (0, fine.clone()));
        assert_eq!(verdict(2, 3, Some(b"aabbc")), (1, Verdict { mixed: 1, ..fine.clone() }));
        assert_eq!(verdict(2, 3, Some(b"aabb\0\0")), (1, Verdict { mixed: 1, ..fine.clone() }));
        // What nobody wrote, what is not yet written, and nothing at all.
        for wrong in [Some(&b"aaxb"[..]), Some(b"aabbccdd"), None] {
            let gone = Verdict { damaged: 1, lost_promises: 1, ..fine.clone() };
            assert_eq!(verdict(2, 3, wrong).1, gone, "{wrong:?}");
        }
    }

    #[test]
    fn a_file_that_is_written_anew_may_have_zeros_and_another_one_may_not() {
        let version = |call, content: &[u8], anew| Version {
            call,
            content: Some(Bytes::new(content, None)),
            promised: true,
            anew,
        };
        let of = |anew, found: &[u8]| {
            let versions = vec![version(0, b"aaaa", false), version(1, b"bbbb", anew)];
            let history = History { files: BTreeMap::from([("f".to_owned(), versions)]) };
            let survivors = [Survivor { name: "f".into(), content: Ok(found.to_vec()) }];
            let (_, verdict) = history.verdict(Progress { returned: 0, begun: 1 }, &survivors);
            (verdict.mixed, verdict.damaged, verdict.first)
        };
        assert_eq!(of(true, b"bb\0\0"), (1, 0, None));
        assert_eq!(of(true, b""), (1, 0, None));
        assert_eq!(of(true, b"abab"), (1, 0, None));
        let (mixed, damaged, first) = of(false, b"bb\0\0");
        assert_eq!((mixed, damaged), (0, 1));
        assert!(first.unwrap().ends_with("a byte that was never there, at 2"));
        assert_eq!(of(true, b"bbbbb").1, 1, "longer than it ever was");
    }

    #[test]
    fn versions_share_what_has_not_changed() {
        let mut bytes: Vec<u8> = (0..3 * PART_BYTES + 5).map(|n| (n % 251) as u8).collect();
        let first = Bytes::new(&bytes, None);
        bytes[PART_BYTES] ^= 1;
        bytes.truncate(3 * PART_BYTES + 2);
        let second = Bytes::new(&bytes, Some(&first));
        let shared = first.0.iter().zip(&second.0).map(|(a, b)| Arc::ptr_eq(a, b));
        assert_eq!(shared.collect::<Vec<_>>(), [true, false, true, false]);
        assert!(second.iter().eq(bytes.iter().copied()) && second == Bytes::new(&bytes, None) && second != first);
        assert_eq!((second.len(), second.get(PART_BYTES)), (bytes.len(), Some(bytes[PART_BYTES])));
        assert_eq!(second.get(bytes.len()), None);
    }

    #[test]
    fn of_a_file_no_more_is_read_again_than_a_call_may_have_changed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        fs::write(&path, vec![1; 4 * PART_BYTES + 7]).unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        let all = || Bytes::new(&fs::read(&path).unwrap(), None);
        let mut held = content(&path, None, Part::Beyond).unwrap();
        assert_eq!(held, all(), "of what is not known all is read");
        let edge = PART_BYTES as u64;
        // Within a part, over an edge, at an edge, over the end, behind a hole, and nothing.
        for (n, (offset, bytes)) in
            [(3, 5), (edge - 1, 2), (2 * edge, edge), (4 * edge, 9), (6 * edge + 1, 3), (5, 0)].into_iter().enumerate()
        {
            file.write_all_at(&vec![n as u8 + 2; bytes as usize], offset).unwrap();
            held = content(&path, Some(&held), Part::Bytes { offset, bytes }).unwrap();
            assert_eq!(held, all(), "{bytes} bytes at {offset}");
        }
        for more in [1, edge, 2 * edge + 3] {
            file.write_all_at(&vec![9; more as usize], held.len() as u64).unwrap();
            held = content(&path, Some(&held), Part::Beyond).unwrap();
            assert_eq!(held, all(), "{more} bytes more");
        }
        file.set_len(edge + 1).unwrap();
        held = content(&path, Some(&held), Part::Beyond).unwrap();
        assert_eq!(held, all(), "one that is shorter");
        // What no call has changed is not looked at.
        file.write_all_at(b"x", 0).unwrap();
        assert_eq!(content(&path, Some(&held), Part::Bytes { offset: edge, bytes: 1 }), Some(held.clone()));
        assert_ne!(content(&path, Some(&held), Part::All), Some(held));
        fs::remove_file(&path).unwrap();
        assert_eq!(content(&path, None, Part::All), None);
    }

    #[test]
    fn what_is_set_up_before_the_first_call_may_be_there_and_reads_change_nothing() {
        let job = "[global]\nfilename=f\nsize=64k\nbs=4k\n[w]\nrw=randwrite\nfallocate=truncate\nfsync=4\n\
                   [r]\nstonewall\nrw=read\n";
        let spec = FioSpec::read(job, "w.fio", "", Data::Random).unwrap();
        let history = History::of(&spec, FileSystem::Ext4, 1).unwrap();
        let operations: Vec<Operation> = spec.operations(1).filter(Operation::is_logged).collect();
        let numbers = (1..).zip(&operations).filter(|(_, operation)| operation.effect() != Effect::Nothing);
        let changing: Vec<usize> = numbers.map(|(number, _)| number).collect();
        assert!(changing.len() < operations.len(), "it reads, too");
        for versions in history.files.values() {
            assert_eq!(versions.iter().map(|version| version.call).collect::<Vec<_>>()[2..], changing);
            assert_eq!((versions[0].promised, versions[1].call, versions[1].promised), (true, 0, false));
        }
        // Whether the first call has begun or not: what is set up is neither owed nor strange.
        let name = history.files.keys().next().unwrap();
        let found = history.files[name][1].content.as_ref().unwrap().iter().collect();
        let survivor = Survivor { name: name.clone(), content: Ok(found) };
        for begun in [0, 1] {
            let (_, verdict) = history.verdict(Progress { returned: 0, begun }, std::slice::from_ref(&survivor));
            assert_eq!(verdict, Verdict::default());
        }
        let empty = Survivor { content: Ok(Vec::new()), ..survivor };
        assert_eq!(history.verdict(Progress { returned: 0, begun: 0 }, &[empty]).1, Verdict::default());
    }

    #[test]
    fn a_file_that_is_written_by_a_name_that_it_had_is_promised_as_it_is() {
        let text = "pocketstone-calls 1\nthreads 1\nfile 8 a\nname b\nopen 1 new\nwrite 1 0 8\n\
                    rename 1 0\nwrite 1 8 8\nclose 1\nopen 0 write\nsync 0\n";
        let selection = Selection { below: String::new(), pauses: true };
        let calls = calls::read(text.as_bytes(), "f.calls", &selection).unwrap();
        let spec = CallsSpec::new(&calls, String::new(), Data::Random, false).with(text.as_bytes()).unwrap();
        let history = History::of(&spec, FileSystem::Ext4, 1).unwrap();
        let (_, versions) = history.files.iter().find(|(name, _)| name.ends_with('a')).unwrap();
        let versions: Vec<_> = versions.iter().map(|v| (v.call, size(v), v.promised)).collect();
        assert_eq!(versions, [(0, 8, true), (3, 8, false), (6, 16, false), (7, 16, true)]);
    }

    #[test]
    fn a_file_that_cannot_be_read_has_lost_every_promise() {
        let survivors = [Survivor { name: "f".into(), content: Err("I/O error".into()) }];
        let (promised, verdict) = appends().verdict(Progress { returned: 3, begun: 4 }, &survivors);
        assert_eq!((promised, verdict.lost_promises, verdict.damaged), (1, 1, 1));
        assert_eq!(verdict.first.as_deref(), Some("f cannot be read: I/O error"));
    }

    #[test]
    fn the_history_of_a_workload_is_what_its_operations_make() {
        let spec = |operation, sync| FilesSpec {
            operation,
            pattern: Pattern::Sequential,
            requests: 4,
            request_bytes: 100,
            files: 2,
            file_bytes: 200,
            inter_arrival_ns: 0,
            data: Data::Random,
            sync,
            threads: 1,
        };
        let history = History::of(&spec(FileOperation::Write, Sync::Each), FileSystem::Jffs2, 5).unwrap();
        assert_eq!(
            history.files.keys().collect::<Vec<_>>(),
            ["pocketstone-files/file-00000000", "pocketstone-files/file-00000001"]
        );
        let first = &history.files["pocketstone-files/file-00000000"];
        // Two requests on each file: the first one changes its first half, the second one its second half.
        assert_eq!(first.iter().map(|v| (v.call, v.promised)).collect::<Vec<_>>(), [(0, true), (1, true), (2, true)]);
        let bytes = |n: usize| first[n].content.as_ref().unwrap().iter().collect::<Vec<_>>();
        assert!(bytes(0)[..100] != bytes(1)[..100] && bytes(0)[100..] == bytes(1)[100..]);
        assert!(bytes(2)[..100] == bytes(1)[..100] && bytes(2)[100..] != bytes(1)[100..]);
        let history = History::of(&spec(FileOperation::Append, Sync::None), FileSystem::Jffs2, 5).unwrap();
        let sizes: Vec<_> = history.files["pocketstone-files/file-00000001"].iter().map(size).collect();
        assert_eq!(sizes, [200, 300, 400]);
        assert!(history.files.values().all(|versions| versions[1..].iter().all(|v| !v.promised)));
    }

    #[test]
    fn space_that_a_file_system_does_not_reserve_is_in_no_version() {
        let job = "[w]\nfilename=f\nrw=write\nsize=12k\nbs=4k\nfsync=1\n";
        let spec = FioSpec::read(job, "w.fio", "", Data::Random).unwrap();
        for (file_system, first) in [(FileSystem::Ext4, 12_288), (FileSystem::Ubifs, 4096)] {
            let history = History::of(&spec, file_system, 1).unwrap();
            let sizes: Vec<_> = history.files.values().flatten().map(size).collect();
            assert_eq!((sizes[1], sizes.last()), (first, Some(&12_288)), "{file_system:?}: {sizes:?}");
        }
    }
}
