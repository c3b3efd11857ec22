//! Groups of cases, each on a volume of its own, and on ext4.

use crate::ground::{Done, Fault, Ground, Kind};
use crate::table::Outcome;
use pocketstone_testing::Need;
use pocketstone_testing::wait::{LONG, poll, retry};
use pocketstone_tests::command::run as command;
use pocketstone_tests::mounted::{MountedVolume, Place, make, open_to_all};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use std::any::Any;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Once;
use std::time::Instant;

/// A case: its name, `generic_` and the number first, and what it does.
pub type Case = (&'static str, fn(&Ground) -> Done);
/// A case of two parts, between which the file system's server is killed.
pub type CrashCase = (&'static str, fn(&Ground) -> Done, fn(&Ground) -> Done);

/// Cases by the names of their functions.
#[macro_export]
macro_rules! cases {
    ($($name:ident),* $(,)?) => {
        &[$((stringify!($name), $name as fn(&$crate::ground::Ground) -> $crate::ground::Done)),*]
    };
}

enum Cases {
    Plain(&'static [Case]),
    Crash(&'static [CrashCase]),
}

/// Cases that share a volume.
pub struct Group {
    /// What they are about.
    pub name: &'static str,
    cases: Cases,
    mebibytes: u64,
}

/// The number in a case's name.
fn number(name: &str) -> u32 {
    let digits = name.strip_prefix("generic_").and_then(|name| name.get(..3));
    digits.and_then(|digits| digits.parse().ok()).unwrap_or_else(|| panic!("{name} has no number"))
}

impl Group {
    /// Cases on a volume with room for what they do.
    pub const fn of(name: &'static str, cases: &'static [Case]) -> Group {
        Group { name, cases: Cases::Plain(cases), mebibytes: 512 }
    }

    /// Cases that fill the volume.
    pub const fn small(name: &'static str, cases: &'static [Case]) -> Group {
        Group { name, cases: Cases::Plain(cases), mebibytes: 64 }
    }

    /// Cases with a kill in the middle.
    pub const fn crash(name: &'static str, cases: &'static [CrashCase]) -> Group {
        Group { name, cases: Cases::Crash(cases), mebibytes: 512 }
    }

    /// The cases' numbers.
    pub fn numbers(&self) -> Vec<u32> {
        match self.cases {
            Cases::Plain(cases) => cases.iter().map(|case| number(case.0)).collect(),
            Cases::Crash(cases) => cases.iter().map(|case| number(case.0)).collect(),
        }
    }
}

thread_local! {
    static LAST_PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

fn text_of(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or(payload.downcast_ref::<&str>().copied()).unwrap_or("a panic").to_owned()
}

/// Keeps where and why a thread panicked, beside what the hook before does.
fn keep_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let text = text_of(info.payload());
            let place = info.location().map_or(String::new(), |place| {
                let file = Path::new(place.file()).file_name().unwrap_or_default().to_string_lossy();
                format!("{file}:{}: ", place.line())
            });
            LAST_PANIC.with_borrow_mut(|last| *last = format!("{place}{text}"));
            before(info);
        }));
    });
}

fn guarded(case: impl FnOnce() -> Done) -> Done {
    LAST_PANIC.with_borrow_mut(String::clear);
    catch_unwind(AssertUnwindSafe(case)).unwrap_or_else(|payload| {
        let last = LAST_PANIC.with_borrow(String::clone);
        // One of another thread is only in the payload.
        Err(Fault::Failed(if last.is_empty() { text_of(&*payload) } else { last }))
    })
}

/// ext4 in a file, mounted until it is dropped.
struct Ext4 {
    directory: PathBuf,
    image: PathBuf,
}

impl Ext4 {
    fn mount(place: &Place, mebibytes: u64) -> Option<Ext4> {
        let (image, directory) = (place.path("ext4.image"), place.folder("ext4"));
        let file = std::fs::File::create(&image).expect("an image");
        file.set_len(mebibytes << 20).expect("its size");
        let made =
            Command::new("mkfs.ext4").args(["-q", "-F", "-b", "4096", "-I", "256", "-m", "0"]).arg(&image).status();
        let ext4 = Ext4 { directory, image };
        if !made.is_ok_and(|status| status.success()) || !ext4.attach() {
            let _ = Need::Kernel.lacks("the reference: no ext4 on a loop device here");
            return None;
        }
        open_to_all(&ext4.directory);
        Some(ext4)
    }

    fn attach(&self) -> bool {
        let ran =
            command(Command::new("mount").args(["-t", "ext4", "-o", "loop"]).args([&self.image, &self.directory]));
        ran.status == Some(0)
    }
}

impl Drop for Ext4 {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.directory, UnmountFlags::DETACH);
    }
}

fn ground<'a>(place: &Place, top: &'a Path, kind: Kind, name: &str) -> Ground<'a> {
    let folder = top.join(name);
    if !folder.exists() {
        std::fs::create_dir(&folder).expect("a case's folder");
        open_to_all(&folder);
    }
    let elsewhere = place.path(&format!("elsewhere-{name}-{kind:?}"));
    if !elsewhere.exists() {
        std::fs::create_dir(&elsewhere).expect("a case's folder elsewhere");
        open_to_all(&elsewhere);
    }
    Ground { folder, top, elsewhere, kind }
}

fn sweep(ground: &Ground) {
    for folder in [&ground.folder, &ground.elsewhere] {
        let _ = std::fs::remove_dir_all(folder);
    }
}

type Ran = BTreeMap<u32, (Done, u128)>;

fn plain(place: &Place, top: &Path, kind: Kind, cases: &[Case], wanted: &dyn Fn(u32) -> bool) -> Ran {
    let mut ran = Ran::new();
    let free = || rustix::fs::statvfs(top).map_or(0, |found| found.f_bavail);
    let at_first = free();
    for (name, case) in cases.iter().filter(|case| wanted(number(case.0))) {
        let ground = ground(place, top, kind, name);
        let start = Instant::now();
        let done = guarded(|| case(&ground));
        ran.insert(number(name), (done, start.elapsed().as_millis()));
        sweep(&ground);
        // The server hears a moment later that files are gone: the next case is to find their space free. That a case's
        // own comes back is for the cases to judge.
        let _ = poll(LONG, || (free() >= at_first / 8 * 7).then_some(()));
    }
    ran
}

/// Runs the first or the second part of the cases that have not failed yet.
fn part(place: &Place, top: &Path, kind: Kind, cases: &[CrashCase], wanted: &dyn Fn(u32) -> bool, ran: &mut Ran) {
    let second = !ran.is_empty();
    for (name, before, after) in cases.iter().filter(|case| wanted(number(case.0))) {
        let number = number(name);
        if second && !matches!(ran.get(&number), Some((Ok(()), _))) {
            continue;
        }
        let ground = ground(place, top, kind, name);
        let start = Instant::now();
        let done = guarded(|| if second { after(&ground) } else { before(&ground) });
        let earlier = ran.get(&number).map_or(0, |(_, took)| *took);
        ran.insert(number, (done, earlier + start.elapsed().as_millis()));
    }
}

fn on_scmfs(place: &Place, group: &Group, wanted: &dyn Fn(u32) -> bool) -> Ran {
    let region = place.path("region");
    make(&region, &["--size", &format!("{}M", group.mebibytes)]);
    let mut volume = MountedVolume::mount(&region, &place.folder("mount"), &[]);
    open_to_all(volume.path());
    let ran = match group.cases {
        Cases::Plain(cases) => plain(place, volume.path(), Kind::Scmfs, cases, wanted),
        Cases::Crash(cases) => {
            let (top, mut ran) = (volume.path().to_owned(), Ran::new());
            part(place, &top, Kind::Scmfs, cases, wanted, &mut ran);
            volume = volume.kill_and_mount_again(&[]);
            part(place, &top, Kind::Scmfs, cases, wanted, &mut ran);
            ran
        }
    };
    volume.end();
    ran
}

fn on_ext4(place: &Place, group: &Group, wanted: &dyn Fn(u32) -> bool) -> Option<Ran> {
    let ext4 = Ext4::mount(place, group.mebibytes)?;
    Some(match group.cases {
        Cases::Plain(cases) => plain(place, &ext4.directory, Kind::Ext4, cases, wanted),
        Cases::Crash(cases) => {
            let mut ran = Ran::new();
            part(place, &ext4.directory, Kind::Ext4, cases, wanted, &mut ran);
            // What another group has just started holds what is open here until it runs its program.
            let unmount = || rustix::mount::unmount(&ext4.directory, UnmountFlags::empty());
            retry(|error| *error == Errno::BUSY, unmount).expect("nothing is open");
            assert!(ext4.attach(), "ext4 is mounted again");
            part(place, &ext4.directory, Kind::Ext4, cases, wanted, &mut ran);
            ran
        }
    })
}

/// Runs a group: what came out of each case, and what is wrong with the group itself.
pub fn run(
    group: &Group,
    wanted: &dyn Fn(u32) -> bool,
    no_reference: &BTreeSet<u32>,
) -> (BTreeMap<u32, Outcome>, Vec<String>) {
    let mut outcomes = BTreeMap::<u32, Outcome>::new();
    let mut wrong = Vec::new();
    if !group.numbers().into_iter().any(wanted) {
        return (outcomes, wrong);
    }
    keep_panics();
    let Ok(place) = Place::new() else { return (outcomes, wrong) };
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    let mut scmfs = Ran::new();
    if let Err(Fault::Failed(why)) = guarded(|| {
        scmfs = on_scmfs(&place, group, wanted);
        Ok(())
    }) {
        wrong.push(format!("the volume of the group {}: {why}", group.name));
    }
    for (number, (done, took_ms)) in scmfs {
        outcomes.insert(number, Outcome { scmfs: Some(done), reference: None, took_ms });
    }
    let shown = |number: u32| wanted(number) && !no_reference.contains(&number);
    if let Some(ran) = group.numbers().into_iter().any(shown).then(|| on_ext4(&place, group, &shown)).flatten() {
        for (number, (done, _)) in ran {
            outcomes.entry(number).or_default().reference = Some(done);
        }
    }
    (outcomes, wrong)
}
