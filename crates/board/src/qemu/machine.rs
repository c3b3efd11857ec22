//! A QEMU process: confined to its cell's folder, without a network, and gone when we are.

use super::idle;
use super::qmp::{Qmp, Waited};
use crate::profile::Architecture;
use crate::{BoardContext, Failed, VirtualProfile};
use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus,
    path_beneath_rules,
};
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use pocketstone_tlb::ERROR_FILE;
use serde_json::json;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// From the end of QEMU's socket to its own: the kernel frees its memory meanwhile.
const ENDING: Duration = Duration::from_secs(10);
/// What QEMU says of itself, in the machine's folder.
const LOG_FILE: &str = "qemu.log";

/// What QEMU may read at its start: itself, its libraries and firmware. Once it runs it is also
/// confined by chroot to the cell's folder, wherever that is permitted.
const READABLE: [&str; 9] = [
    "/usr",
    "/lib",
    "/lib64",
    "/bin",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/dev/null",
    "/proc",
    "/sys/devices/system/cpu",
];

/// Where a machine's console goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Console {
    /// To the file `console.log` of the cell's folder.
    File,
    /// To the socket `console.sock` of the cell's folder.
    Socket,
}

/// What a machine starts from.
pub struct Start<'a> {
    /// Kernel image.
    pub kernel: &'a Path,
    /// Initramfs.
    pub initramfs: &'a Path,
    /// The program of [`super::idle`].
    pub idle: Option<&'a Path>,
    /// A saved state; without one the machine boots.
    pub state: Option<&'a Path>,
    /// Its console.
    pub console: Console,
    /// A plugin of QEMU's.
    pub plugin: Option<&'a Path>,
}

/// A running machine.
pub struct Machine {
    emulator: &'static str,
    process: Child,
    qmp: Qmp,
    folder: PathBuf,
    context: BoardContext,
    /// Ends the thread that QEMU's life is tied to.
    _keeper: mpsc::Sender<()>,
}

/// The arguments that decide what the guest sees; they are part of what a saved state is named by.
pub fn machine_arguments(profile: &VirtualProfile) -> Vec<String> {
    let machine = &profile.machine;
    // An idle processor polls instead of halting. Whatever QEMU does with a halted processor (skip to the next timer,
    // or sleep) is done by another thread, at a moment that the host decides.
    let (level, poll) = match machine.architecture {
        Architecture::Armv7 => ("", " nohlt"),
        Architecture::Aarch64 => (",secure=on", ""),
    };
    let append = format!("console=ttyAMA0 nokaslr{poll} quiet panic=-1 {}", profile.kernel.append);
    [
        "-M",
        &format!("{}{level}", machine.model),
        "-cpu",
        &machine.cpu,
        "-m",
        &machine.ram_mib.to_string(),
        "-accel",
        "tcg,tb-size=256",
        "-icount",
        &format!("shift={},sleep=off", machine.icount_shift),
        "-seed",
        "1",
        "-rtc",
        "base=2020-01-01,clock=vm",
        "-nodefaults",
        "-no-user-config",
        "-display",
        "none",
        "-nic",
        "none",
        "-append",
        append.trim(),
        "-semihosting-config",
        "enable=on,userspace=on,target=native",
        "-device",
        "pvpanic-pci",
        "-action",
        "panic=pause",
        "-no-reboot",
    ]
    .map(str::to_owned)
    .to_vec()
}

impl Machine {
    /// Starts QEMU with its machine stopped; the cell's folder is `folder`.
    ///
    /// # Errors
    /// `ErrorKind::Board` if it cannot be started or confined, or its state cannot be loaded.
    pub fn start(
        profile: &VirtualProfile,
        start: &Start<'_>,
        folder: &Path,
        context: &BoardContext,
    ) -> Result<Self, Failed> {
        let (ours, theirs) = UnixStream::pair().board(|| "cannot create a socket pair".into())?;
        let errors = File::create(folder.join(LOG_FILE)).board(|| "cannot create QEMU's log".into())?;
        let emulator = profile.machine.architecture.emulator();
        let mut command = confined_command(emulator)?;
        command.args(machine_arguments(profile));
        if let Some(idle) = start.idle {
            // The processor begins there. A comma would end the path: two are one.
            let path = idle.display().to_string().replace(',', ",,");
            let loader = format!("loader,file={path},addr={:#x},cpu-num=0,force-raw=on", idle::AT);
            command.arg("-device").arg(loader);
        }
        command.arg("-kernel").arg(start.kernel).arg("-initrd").arg(start.initramfs).arg("-S");
        // QMP is file descriptor 0, a saved state is 1: they need no path, and end with the process.
        command.args(["-chardev", "socket,id=qmp,fd=0", "-mon", "chardev=qmp,mode=control"]);
        command.stdin(Stdio::from(OwnedFd::from(theirs))).stderr(errors);
        match start.state {
            Some(state) => {
                let file = File::open(state).board(|| format!("cannot open the saved state {}", state.display()))?;
                command.args(["-incoming", "fd:1"]).stdout(file);
            }
            None => {
                command.stdout(Stdio::null());
            }
        }
        match start.console {
            Console::File => command.args(["-serial", "file:console.log"]),
            Console::Socket => command.args(["-serial", "unix:console.sock,server=on,wait=off"]),
        };
        if let Some(plugin) = start.plugin {
            command.arg("-plugin").arg(plugin);
        }
        // Ctrl-C is for the lab, which then ends its machines in order.
        command.current_dir(folder).process_group(0);
        let readable = [start.kernel, start.initramfs].into_iter().chain(start.idle).chain(start.plugin);
        let readable = readable.map(Path::to_path_buf).collect();
        let (process, keeper) = spawn_confined(command, emulator, folder.to_path_buf(), readable)?;
        let mut process = Some(process);
        let connected = Qmp::new(ours).and_then(|mut qmp| {
            if start.state.is_some() {
                wait_until_loaded(&mut qmp)?;
            }
            Ok(qmp)
        });
        match connected {
            Ok(qmp) => {
                let process = process.take().ok_or_else(|| Error::bug("QEMU was started once"))?;
                let (folder, context) = (folder.to_path_buf(), context.clone());
                Ok(Machine { emulator, process, qmp, folder, context, _keeper: keeper })
            }
            Err(failed) => {
                if let Some(mut process) = process {
                    let _ = process.kill();
                    let _ = process.wait();
                }
                let said = said(folder);
                let separator = if said.trim().is_empty() { "" } else { ": " };
                let error = Error::board(format!("{emulator} did not start{separator}{}", said.trim()));
                Err(Failed { error: error.because(failed.error), ..failed })
            }
        }
    }

    /// Lets the machine run until it stops itself.
    ///
    /// # Errors
    /// `ErrorKind::Board` if it dies or exceeds `limit`; `ErrorKind::Interrupted` if the user interrupts.
    pub fn run(&mut self, limit: Duration) -> Result<(), Failed> {
        self.qmp.ask("cont", json!({}), None)?;
        Ok(self.wait(limit)?)
    }

    fn wait(&mut self, limit: Duration) -> Result<()> {
        let context = self.context.clone();
        match self.qmp.wait_for_stop(limit, || context.check())? {
            Waited::Stopped => Ok(()),
            Waited::Ended => {
                let (said, status) = (said(&self.folder), self.ended());
                // Its console is of no help: there was no room for that, either.
                if full(&self.folder) {
                    let text = format!("the board died: the disk with its folder {} is full", self.folder.display());
                    return Err(Error::board(text).hint("free some of it, or set POCKETSTONE_CACHE=DIR; then --resume"));
                }
                let killed = status.is_some_and(|status| status.signal().is_some());
                let died = died(self.emulator, status);
                let text = if said.trim().is_empty() { died } else { format!("{died} ({})", said.trim()) };
                // The console's last lines go with it, if it said anything.
                Err(Error::board(text).hint(match killed {
                    true => "run fewer boards at once if memory is short (dmesg tells); then --resume",
                    false => "boot it by hand and see: pocketstone board start NAME",
                }))
            }
            Waited::TimedOut => Err(Error::board(format!("the board did not finish within {} s", limit.as_secs()))
                .hint("raise cell_timeout_s or boot_timeout_s in the board's profile")),
        }
    }

    /// How QEMU ended, whose socket is closed; `None` if it has not.
    fn ended(&mut self) -> Option<ExitStatus> {
        pocketstone_process::ended_within(&mut self.process, ENDING).ok().flatten()
    }

    /// Dumps a part of the stopped machine's memory into a file of its folder.
    ///
    /// # Errors
    /// `ErrorKind::Board` if QEMU cannot do it; with `lost` set if it does not answer.
    pub fn dump_memory(&mut self, at: u32, bytes: usize, file: &str) -> Result<(), Failed> {
        self.qmp.ask("pmemsave", json!({ "val": at, "size": bytes, "filename": file }), None)?;
        Ok(())
    }

    /// Ends QEMU in order, so that a plugin completes what it writes.
    ///
    /// # Errors
    /// `ErrorKind::Board` if it does not end.
    pub fn quit(mut self) -> Result<()> {
        // It may be gone before it has answered.
        let _ = self.qmp.ask("quit", json!({}), None);
        let status = self.process.wait().board(|| format!("cannot wait for {}", self.emulator))?;
        match status.success() {
            true => Ok(()),
            false => Err(Error::board(format!("{} ended with {status}", self.emulator))),
        }
    }

    /// Makes QEMU's main thread yield to the processor's, for the sake of [`super::clock`].
    pub fn favour_processor(&self) {
        // The number of a process is that of its main thread. Without it, more states are made twice.
        if let Some(main) = rustix::process::Pid::from_raw(self.process.id() as i32) {
            let _ = rustix::process::setpriority_process(Some(main), 19);
        }
    }

    /// Saves the stopped machine's state to a file, and returns by how much its clock was moved on
    /// ([`super::clock`]). The machine cannot run on afterwards.
    ///
    /// # Errors
    /// `ErrorKind::Board` if QEMU cannot save it; with `lost` set if it does not answer.
    pub fn save(mut self, path: &Path) -> Result<u64, Failed> {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(true);
        let file = options.open(path).board(|| format!("cannot create {}", path.display()))?;
        let fast = json!({ "max-bandwidth": 1u64 << 40 });
        self.qmp.ask("migrate-set-parameters", fast, None)?;
        self.qmp.ask("getfd", json!({ "fdname": "state" }), Some(&file))?;
        self.qmp.ask("migrate", json!({ "uri": "fd:state" }), None)?;
        loop {
            self.context.check()?;
            let progress = self.qmp.ask("query-migrate", json!({}), None)?;
            match progress["status"].as_str() {
                Some("completed") => return Ok(super::clock::moved_on_ns(&file)?),
                Some("failed" | "cancelled") => {
                    return Err(Error::board(format!("QEMU cannot save the board's state: {progress}"))
                        .hint("is the disk full?")
                        .into());
                }
                _ => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }

    /// Last lines of the console, at most `lines`.
    pub fn console_tail(folder: &Path, lines: usize) -> String {
        let mut text = Vec::new();
        if let Ok(mut file) = File::open(folder.join("console.log")) {
            let length = file.metadata().map_or(0, |m| m.len());
            let _ = file.seek(SeekFrom::Start(length.saturating_sub(16 * 1024)));
            let _ = file.read_to_end(&mut text);
        }
        let text = String::from_utf8_lossy(&text).replace('\r', "");
        let all: Vec<&str> = text.lines().collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Whether there is no room for a small file in a folder: a board's first process ends when it cannot reply.
fn full(folder: &Path) -> bool {
    let path = folder.join("room");
    let written = fs::write(&path, [0; 4096]);
    let _ = fs::remove_file(path);
    written.is_err_and(|error| matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded))
}

/// What ended a board: QEMU ends by itself, with success, when the machine powers off or would start again.
fn died(emulator: &str, status: Option<ExitStatus>) -> String {
    match status {
        Some(status) if status.success() => "the board died: its kernel panicked or powered off".into(),
        Some(status) => format!("the board died: {emulator} ended with {status}"),
        None => format!("the board died: {emulator} closed its socket, and runs on"),
    }
}

fn wait_until_loaded(qmp: &mut Qmp) -> Result<(), Failed> {
    loop {
        let status = qmp.ask("query-status", json!({}), None)?;
        if status["status"].as_str() != Some("inmigrate") {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// What QEMU, or its plugin, left of why it ended.
fn said(folder: &Path) -> String {
    [LOG_FILE, ERROR_FILE].map(|name| fs::read_to_string(folder.join(name)).unwrap_or_default()).concat()
}

/// QEMU with the ways of confinement that are put on before it starts: chroot to the folder it is
/// started in (done by QEMU once its files are open) and a network namespace of its own.
fn confined_command(emulator: &str) -> Result<Command> {
    if rustix::process::geteuid().is_root() {
        let mut command = Command::new("unshare");
        command.args(["--net", "--", emulator, "-chroot", "."]);
        return Ok(command);
    }
    // In a user namespace of one's own anybody may chroot.
    // No mapping of users: Landlock, put on first, lets nobody write /proc/self/uid_map.
    let namespaces = ["--user", "--keep-caps", "--net", "--"];
    let works = Command::new("unshare").args(namespaces).arg("true").stderr(Stdio::null()).status();
    if works.is_ok_and(|s| s.success()) {
        let mut command = Command::new("unshare");
        command.args(namespaces).args([emulator, "-chroot", "."]);
        return Ok(command);
    }
    Ok(Command::new(emulator))
}

/// Starts a command under Landlock, from a thread that lives as long as the returned sender.
///
/// Landlock restricts the thread that asks for it and what that thread starts, so that the rest of
/// this process stays free. The kernel kills QEMU when that thread ends, and so when this process
/// does, by whatever signal.
fn spawn_confined(
    mut command: Command,
    emulator: &'static str,
    folder: PathBuf,
    readable: Vec<PathBuf>,
) -> Result<(Child, mpsc::Sender<()>)> {
    let (keeper, ended) = mpsc::channel::<()>();
    let (report, spawned) = mpsc::channel();
    pocketstone_engine::end_with_this_process(&mut command);
    std::thread::Builder::new()
        .name("qemu".into())
        .spawn(move || {
            let result = restrict(&folder, &readable)
                .and_then(|()| command.spawn().board(|| format!("cannot start {emulator}")));
            // It holds QEMU's end of the QMP socket: as long as that is open, nobody sees QEMU end.
            drop(command);
            let result = result.map_err(|e| e.hint("apt-get install qemu-system-arm util-linux"));
            let started = result.is_ok();
            if report.send(result).is_ok() && started {
                // Returns with an error when the machine is dropped.
                let _ = ended.recv();
            }
        })
        .board(|| "cannot start a thread".into())?;
    let process = spawned.recv().map_err(|_| Error::bug("the thread that starts QEMU exited"))??;
    Ok((process, keeper))
}

/// Confines the calling thread: reading what QEMU is made of, and everything in its folder.
fn restrict(folder: &Path, readable: &[PathBuf]) -> Result<()> {
    let abi = ABI::V3;
    let failed = || "cannot confine QEMU with Landlock".to_owned();
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(abi))
        .and_then(Ruleset::create)
        .and_then(|rules| rules.add_rules(path_beneath_rules(READABLE, AccessFs::from_read(abi))))
        .and_then(|rules| rules.add_rules(path_beneath_rules(readable, AccessFs::from_read(abi))))
        .and_then(|rules| rules.add_rules(path_beneath_rules(["/dev/null"], AccessFs::from_all(abi))))
        .and_then(|rules| rules.add_rules(path_beneath_rules([folder], AccessFs::from_all(abi))))
        .and_then(landlock::RulesetCreated::restrict_self)
        .board(failed)?;
    let chroot = rustix::process::geteuid().is_root();
    if status.ruleset == RulesetStatus::NotEnforced && !chroot {
        return Err(Error::board("QEMU cannot be confined: this kernel has no Landlock, and chroot requires root")
            .hint("run as root, or on Linux 5.13 or later with Landlock enabled"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_powers_off_is_told_from_an_emulator_that_is_killed() {
        let of = |script: &str| Some(Command::new("sh").args(["-c", script]).status().unwrap());
        let died = |status| died("qemu-system-arm", status);
        assert!(died(of("exit 0")).contains("panicked or powered off"));
        let killed = died(of("kill -9 $$"));
        assert!(killed.contains("qemu-system-arm") && killed.contains("signal: 9"), "{killed}");
        assert!(died(of("exit 1")).contains("exit status: 1"));
        assert!(died(None).contains("runs on"));
    }
}
