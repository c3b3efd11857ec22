//! A tracing instance of our own: events and a ring buffer that nobody else uses.

use crate::left::{namespace, numbers_are_the_kernels, runs};
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::thread::UnshareFlags;
use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

static INSTANCES: AtomicU32 = AtomicU32::new(0);
/// What the names of instances and of their groups of kprobe events begin with; namespace and number of the process
/// follow.
const NAMED: &str = "pocketstone_";

const ROOTS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// Where tracefs is mounted.
///
/// # Errors
/// `ErrorKind::Board` if it is mounted nowhere, or not accessible.
pub fn root() -> Result<PathBuf> {
    let found = ROOTS.iter().map(Path::new).find(|r| r.join("instances").exists());
    found.map(Path::to_path_buf).ok_or_else(|| missing(rustix::process::geteuid().is_root()))
}

/// Why tracefs cannot be used, with a cure for this user: a mount helps nobody who may not read it.
fn missing(root: bool) -> Error {
    match root {
        true => Error::board("tracefs is not mounted")
            .hint("mount -t tracefs tracefs /sys/kernel/tracing (requires CONFIG_FTRACE)"),
        false => not_root(),
    }
}

fn not_root() -> Error {
    Error::board("only root may trace").hint("run it as root, for example with sudo")
}

/// A kprobe event to define: group and name, and the definition after them.
pub struct Probe {
    pub name: &'static str,
    pub definition: String,
}

/// Mounts tracefs where it is not, so that no other process sees it: the calling thread, and those and the
/// processes it starts from now on, get a mount namespace of their own. Call it before there are threads.
///
/// # Errors
/// `ErrorKind::Board` if this is not root, is a container with process numbers of its own, which no privilege cures, or
/// the kernel has no tracefs.
pub fn ensure_tracefs() -> Result<()> {
    numbers_are_the_kernels()?;
    let Err(missing) = root() else { return Ok(()) };
    if !rustix::process::geteuid().is_root() {
        return Err(missing);
    }
    // Root of a user namespace is nobody here.
    let refused = |e| match e {
        Errno::PERM => not_root(),
        e => Error::board("cannot mount tracefs").because(e).hint("the kernel requires CONFIG_FTRACE"),
    };
    // SAFETY: a mount namespace of its own and what comes with it (root, working directory and umask of this
    // thread); no file descriptors are unshared.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }.map_err(refused)?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).map_err(refused)?;
    mount("tracefs", ROOTS[0], "tracefs", MountFlags::empty(), None).map_err(refused)?;
    root().map(|_| ())
}

/// A tracing instance; it and its kprobe events are removed when it is dropped.
pub struct Instance {
    root: PathBuf,
    folder: PathBuf,
    group: String,
    events: Vec<&'static str>,
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).board(|| format!("cannot write `{text}` to {}", path.display()))
}

impl Instance {
    /// Makes an instance with a buffer of `buffer_kib` per processor; tracing is off. What killed processes have left
    /// is removed.
    ///
    /// # Errors
    /// `ErrorKind::Board` if tracefs refuses, or processes have other numbers here than those in its events.
    pub fn new(name: &str, buffer_kib: u64) -> Result<Self> {
        let root = root()?;
        numbers_are_the_kernels()?;
        remove_left(&root);
        // Two measurements on one machine, by two processes or threads, must not share events.
        let number = INSTANCES.fetch_add(1, Ordering::Relaxed);
        let group = format!("{NAMED}{}_{}_{number}_{name}", namespace(), std::process::id());
        let folder = root.join("instances").join(&group);
        fs::create_dir(&folder).board(|| format!("cannot create the tracing instance {}", folder.display()))?;
        let instance = Instance { root, folder, group, events: Vec::new() };
        instance.set("tracing_on", "0")?;
        instance.set("buffer_size_kb", &buffer_kib.to_string())?;
        instance.set("trace_clock", "mono")?;
        Ok(instance)
    }

    /// Writes one of the instance's files.
    ///
    /// # Errors
    /// `ErrorKind::Board` if the kernel refuses it.
    pub fn set(&self, file: &str, value: &str) -> Result<()> {
        write(&self.folder.join(file), value)
    }

    /// Whether the kernel has an event, `system/name`.
    pub fn has(&self, event: &str) -> bool {
        self.folder.join("events").join(event).join("enable").exists()
    }

    /// Enables an event, `system/name`.
    ///
    /// # Errors
    /// `ErrorKind::Board` if the kernel has none of that name, or refuses it.
    pub fn enable(&self, event: &str) -> Result<()> {
        self.set(&format!("events/{event}/enable"), "1")
    }

    /// Defines and enables an event.
    ///
    /// # Errors
    /// `ErrorKind::Board` if the kernel refuses it, for example for a symbol that does not exist.
    pub fn add(&mut self, probe: &Probe) -> Result<()> {
        let line = format!("p:{}/{} {}", self.group, probe.name, probe.definition);
        let events = self.root.join("kprobe_events");
        let mut file = OpenOptions::new()
            .append(true)
            .open(&events)
            .board(|| "cannot define kprobes".into())
            .map_err(|e| e.hint("the kernel requires CONFIG_KPROBE_EVENTS"))?;
        file.write_all(line.as_bytes()).board(|| format!("the kernel rejected the kprobe `{line}`"))?;
        self.events.push(probe.name);
        self.set(&format!("events/{}/{}/enable", self.group, probe.name), "1")
    }

    /// Starts recording.
    pub fn start(&self) -> Result<()> {
        self.set("tracing_on", "1")
    }

    /// Stops recording.
    pub fn stop(&self) -> Result<()> {
        self.set("tracing_on", "0")
    }

    /// The recorded text.
    pub fn text(&self) -> Result<String> {
        self.bytes().map(|text| String::from_utf8_lossy(&text).into_owned())
    }

    /// The recorded text; names of tasks in it may be no UTF-8.
    pub fn bytes(&self) -> Result<Vec<u8>> {
        let file = self.folder.join("trace");
        fs::read(&file).board(|| format!("cannot read {}", file.display()))
    }

    /// Bytes of the kernel's word, which need not be this program's: a 32-bit program may run on a 64-bit kernel.
    ///
    /// # Errors
    /// `ErrorKind::Board` if the kernel does not describe its ring buffer as expected.
    pub fn word_bytes(&self) -> Result<u32> {
        let path = self.root.join("events/header_page");
        // The kernel gives it by one read alone: after a short one it says that this was all.
        let mut text = [0; 4096];
        let read = fs::File::open(&path).and_then(|mut file| file.read(&mut text));
        let bytes = read.board(|| format!("cannot read {}", path.display()))?;
        word_bytes_of(&String::from_utf8_lossy(&text[..bytes]))
            .ok_or_else(|| Error::board(format!("{} does not tell the kernel's word", path.display())))
    }

    /// Number of events that were recorded.
    pub fn entries(&self) -> Result<u64> {
        let folder = self.folder.join("per_cpu");
        let cpus = fs::read_dir(&folder).board(|| format!("cannot list {}", folder.display()))?.flatten();
        let stats = cpus.map(|cpu| fs::read_to_string(cpu.path().join("stats")).unwrap_or_default());
        Ok(stats.map(|stats| in_stats(&stats, &["entries"])).sum())
    }

    /// Number of events the kernel could not record: overwritten, dropped, or missed by a probe.
    pub fn lost(&self) -> Result<u64> {
        let mut lost = 0;
        let folder = self.folder.join("per_cpu");
        for cpu in fs::read_dir(&folder).board(|| format!("cannot list {}", folder.display()))?.flatten() {
            lost += lost_in_stats(&fs::read_to_string(cpu.path().join("stats")).unwrap_or_default());
        }
        let profile = fs::read_to_string(self.root.join("kprobe_profile")).unwrap_or_default();
        Ok(lost + missed_in_profile(&profile, &self.events))
    }
}

/// Events lost by one processor's ring buffer, from its `stats`.
fn lost_in_stats(stats: &str) -> u64 {
    in_stats(stats, &["overrun", "commit overrun", "dropped events"])
}

fn in_stats(stats: &str, names: &[&str]) -> u64 {
    let lines = stats.lines().filter_map(|l| l.split_once(": "));
    lines.filter(|(name, _)| names.contains(name)).filter_map(|(_, n)| n.trim().parse::<u64>().ok()).sum()
}

/// Hits that the kernel's probes missed, from `kprobe_profile` (lines of event, hits, misses).
fn missed_in_profile(profile: &str, events: &[&str]) -> u64 {
    profile
        .lines()
        .filter_map(|l| {
            let mut words = l.split_whitespace();
            let (event, missed) = (words.next()?, words.nth(1)?);
            events.contains(&event).then(|| missed.parse::<u64>().ok())?
        })
        .sum()
}

impl Drop for Instance {
    fn drop(&mut self) {
        remove(&self.root, &self.group);
    }
}

/// Removes an instance and its kprobe events.
fn remove(root: &Path, group: &str) {
    // The instance goes first: an event that it has enabled cannot be removed.
    let folder = root.join("instances").join(group);
    let _ = write(&folder.join("tracing_on"), "0");
    let _ = write(&folder.join("events").join(group).join("enable"), "0");
    let _ = fs::remove_dir(&folder);
    let defined = defined(root);
    let of_group = defined.iter().filter(|(of, _)| of == group);
    let mut file = OpenOptions::new().append(true).open(root.join("kprobe_events"));
    for (_, event) in of_group {
        let _ = file.as_mut().map(|file| file.write_all(format!("-:{group}/{event}").as_bytes()));
    }
}

/// Groups and names of the kernel's kprobe events.
fn defined(root: &Path) -> Vec<(String, String)> {
    let lines = fs::read_to_string(root.join("kprobe_events")).unwrap_or_default();
    lines.lines().filter_map(event_in).collect()
}

/// Group and name in a line of `kprobe_events`, such as `p:group/name symbol`.
fn event_in(line: &str) -> Option<(String, String)> {
    let (group, name) = line.split_whitespace().next()?.split_once(':')?.1.split_once('/')?;
    Some((group.to_owned(), name.to_owned()))
}

/// Removes what processes have left that were killed: the kernel would record for nobody, and keep the memory for it.
pub fn remove_left_instances() {
    if let Ok(root) = root() {
        remove_left(&root);
    }
}

fn remove_left(root: &Path) {
    let instances = fs::read_dir(root.join("instances")).into_iter().flatten().flatten();
    let instances = instances.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let groups: BTreeSet<String> = instances.chain(defined(root).into_iter().map(|(group, _)| group)).collect();
    groups.iter().filter(|group| is_left(group, namespace(), runs)).for_each(|group| remove(root, group));
}

/// Whether nobody has an instance any more that has this name; `runs`: whether a process of this namespace does.
fn is_left(group: &str, own: u64, runs: impl Fn(&str) -> bool) -> bool {
    let words: Option<Vec<&str>> = group.strip_prefix(NAMED).map(|words| words.split('_').collect());
    match words.as_deref() {
        Some([namespace, pid, _, _]) => namespace.parse() == Ok(own) && !runs(pid),
        _ => false,
    }
}

/// The size of the field `commit` of a ring buffer's page, a local_t: a word of the kernel.
fn word_bytes_of(header_page: &str) -> Option<u32> {
    let line = header_page.lines().find(|line| line.contains("local_t commit;"))?;
    line.split(';').find_map(|part| part.trim().strip_prefix("size:"))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_lose_an_event_is_counted() {
        let stats = "entries: 7197\noverrun: 2\ncommit overrun: 3\nbytes: 172728\nnow ts:    41.45\ndropped \
            events: 4\nread events: 0\n";
        assert_eq!((lost_in_stats(stats), in_stats(stats, &["entries"])), (9, 7197));
        let profile = "  sense                        1424               5\n  other        1   7\n";
        assert_eq!(missed_in_profile(profile, &["sense", "erase"]), 5);
    }

    #[test]
    fn only_what_a_process_of_this_namespace_has_left_is_removed() {
        for (group, expected) in [
            ("pocketstone_4026_12_0_flash", false),
            ("pocketstone_4026_13_0_flash", true),
            ("pocketstone_4027_13_0_flash", false),
            ("pocketstone_13_0_flash", false),
            ("another_4026_13_0_flash", false),
        ] {
            assert_eq!(is_left(group, 4026, |pid| pid == "12"), expected, "{group}");
        }
        let named = |line| event_in(line).map(|(group, name)| format!("{group} {name}"));
        assert_eq!(named("p:a_1/read nand_read+0x4 x=%si").as_deref(), Some("a_1 read"));
        assert_eq!(named("r16:b/back vfs_read").as_deref(), Some("b back"));
        assert_eq!((named(""), named("p vfs_read")), (None, None));
    }

    #[test]
    fn who_may_not_read_tracefs_is_not_told_to_mount_it() {
        let cure = |root| missing(root).cure().map(str::to_owned).unwrap_or_default();
        assert!(cure(true).starts_with("mount -t tracefs"));
        assert!(cure(false).contains("as root") && !cure(false).contains("mount"));
    }

    #[test]
    fn the_kernel_tells_its_word() {
        let page = |bytes| {
            format!(
                "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
                 \tfield: local_t commit;\toffset:8;\tsize:{bytes};\tsigned:1;\n"
            )
        };
        assert_eq!(word_bytes_of(&page(4)), Some(4));
        assert_eq!(word_bytes_of(&page(8)), Some(8));
        assert_eq!(word_bytes_of("\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n"), None);
    }
}
