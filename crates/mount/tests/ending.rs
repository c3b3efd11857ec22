//! A mount that is told to end does so at once, whoever uses it, and what was written stays. Needs /dev/fuse and root;
//! says so and passes without.

#[allow(dead_code)]
mod ground;

use ground::{Ground, close};
use pocketstone_mount::MountOptions;
use pocketstone_testing::wait::retry;
use pocketstone_testing::{Need, or_skip};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Far less than those who use a mount here go on using it, and than an end waits for what is being written: within
/// this, nobody was waited for, however busy the machine is.
const BAR: Duration = Duration::from_secs(30);
const BYTES: usize = 3_000_000;

/// One test at a time: a new mount namespace has copies of all mounts, also of those of another test.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A process in a mount namespace of its own that has written a file, and holds it open.
struct Other(Child);

impl Other {
    fn start(ground: &Ground, then: &str) -> Option<Other> {
        let script = format!("exec 3>\"$0/theirs\" && head -c {BYTES} /dev/zero >&3 && echo ready && {then}");
        let mut command = Command::new("unshare");
        command.args(["-m", "--propagation", "private", "sh", "-c", &script]).arg(ground.directory());
        let mut child = command.stdout(Stdio::piped()).spawn().ok()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take()?).read_line(&mut line).ok()?;
        let other = Other(child);
        if line == "ready\n" { Some(other) } else { None }
    }

    /// It was not its end that the mount ended with.
    #[track_caller]
    fn lives_on(&mut self) {
        assert_eq!(self.0.try_wait().unwrap(), None, "who uses the mount has ended first");
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Ends a mount, then closes its volume; what was said, and how long it took.
fn end(ground: &Ground, options: &MountOptions, using: impl FnOnce()) -> (Vec<String>, Duration) {
    let (mounted, volume) = ground.mount(options);
    using();
    let said = Mutex::new(Vec::new());
    let target = mounted.target();
    let start = Instant::now();
    target.end(&|text| said.lock().unwrap().push(text.to_owned()));
    mounted.wait().unwrap();
    close(volume);
    (said.into_inner().unwrap(), start.elapsed())
}

#[test]
fn unmounting_it_here_ends_it_where_another_mount_namespace_has_a_copy() {
    let ground = or_skip!(Ground::new());
    let _alone = alone();
    let (mounted, volume) = ground.mount(&MountOptions::default());
    let Some(mut other) = Other::start(&ground, "exec sleep 100") else {
        return Need::Namespaces.lacks("unshare -m does not work here").end();
    };
    let (target, said) = (mounted.target(), Mutex::new(Vec::new()));
    let start = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| target.end_when_unmounted(&|text| said.lock().unwrap().push(text.to_owned())));
        // What looks at every new mount, and what another test has just started, lets go of it soon.
        let unmounted = retry(
            |said: &String| said.contains("busy"),
            || {
                let output = Command::new("umount").env("LC_ALL", "C").arg(ground.directory()).output().unwrap();
                if output.status.success() { Ok(()) } else { Err(format!("{output:?}")) }
            },
        );
        unmounted.unwrap();
        mounted.wait().unwrap();
    });
    other.lives_on();
    assert!(start.elapsed() < BAR, "{:?}", start.elapsed());
    close(volume);
    let said = said.into_inner().unwrap();
    assert!(said.iter().any(|text| text.contains("was still mounted in the mount namespace of process")), "{said:?}");
}

#[test]
fn a_copy_in_another_mount_namespace_does_not_keep_it_and_what_was_written_there_stays() {
    let ground = or_skip!(Ground::new());
    let _alone = alone();
    for writeback in [false, true] {
        let mut other = None;
        let options = MountOptions { writeback, ..MountOptions::default() };
        let (said, time) = end(&ground, &options, || other = Other::start(&ground, "exec sleep 100"));
        let Some(mut other) = other else { return Need::Namespaces.lacks("unshare -m does not work here").end() };
        other.lives_on();
        assert!(time < BAR, "{time:?} {said:?}");
        let who = format!("process {} (sleep)", other.0.id());
        // Somebody else on this machine may have made a namespace at the same time.
        assert!(said.iter().any(|text| text.contains(&who)), "{said:?}");
        let kept = || assert!(fs::read(ground.directory().join("theirs")).unwrap() == [0; BYTES], "{writeback}");
        end(&ground, &MountOptions::default(), kept);
    }
}

#[test]
fn whoever_goes_on_writing_does_not_keep_it() {
    let ground = or_skip!(Ground::new());
    let _alone = alone();
    for writeback in [false, true] {
        let mut other = None;
        let options = MountOptions { writeback, ..MountOptions::default() };
        let endless = "while echo more; do :; done >&3 2>/dev/null";
        let (said, time) = end(&ground, &options, || other = Other::start(&ground, endless));
        // It writes until that fails, which the end brings about.
        if other.is_none() {
            return Need::Namespaces.lacks("unshare -m does not work here").end();
        }
        assert!(time < BAR, "{time:?} {said:?}");
        let kept = || assert!(fs::read(ground.directory().join("theirs")).unwrap()[..BYTES] == [0; BYTES]);
        end(&ground, &MountOptions::default(), kept);
    }
}

#[test]
fn open_files_do_not_keep_it_and_what_they_were_given_stays() {
    let ground = or_skip!(Ground::new());
    let _alone = alone();
    let options = MountOptions { writeback: true, ..MountOptions::default() };
    let mut open = None;
    let (said, time) = end(&ground, &options, || {
        let file = File::create(ground.directory().join("open")).unwrap();
        file.write_all_at(&[5; BYTES], 0).unwrap();
        open = Some(file);
    });
    assert!(time < BAR, "{time:?}");
    assert!(said.iter().any(|text| text.contains("was in use")), "{said:?}");
    let open = open.unwrap();
    // ENOTCONN: the transport endpoint is not connected.
    assert_eq!(open.sync_all().unwrap_err().raw_os_error(), Some(107));
    assert!(!ground.directory().join("open").exists(), "out of sight");
    drop(open);
    let kept = || assert!(fs::read(ground.directory().join("open")).unwrap() == [5; BYTES]);
    end(&ground, &MountOptions::default(), kept);
}

#[test]
fn one_that_nobody_uses_ends_without_a_word() {
    let ground = or_skip!(Ground::new());
    let _alone = alone();
    let (said, time) = end(&ground, &MountOptions::default(), || fs::write(ground.directory().join("x"), "x").unwrap());
    assert!(time < BAR, "{time:?}");
    assert!(!said.iter().any(|text| text.contains("in use")), "{said:?}");
    let mounted = ground.mount(&MountOptions::default());
    let target = mounted.0.target();
    mounted.0.unmount().unwrap();
    // Told after it has ended, it leaves whatever is there now alone.
    target.end(&|text| panic!("{text}"));
    close(mounted.1);
}
