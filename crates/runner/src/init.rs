//! The first process of a virtual board.

use crate::say::print;
use crate::{block, hosted, modules, stop::StopRegister};
use pocketstone_core::block::BLOCK_FILE;
use pocketstone_core::board::Places;
use pocketstone_core::error::Context;
use pocketstone_core::outcome::{Failure, Response};
use pocketstone_core::{Error, Result};
use pocketstone_workload::plan::Request;
use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, mount};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

const ORDER: &str = "/run/order.json";
const FOLDER: &str = "/run/reply";

/// Brings the board up, then takes orders; never returns.
pub fn main() -> ! {
    if let Err(error) = bring_up_and_serve() {
        print(&format!("pocketstone: {}\n", error.chain()));
        if let Some(hint) = error.cure() {
            print(&format!("pocketstone: hint: {hint}\n"));
        }
    }
    // Powering off tells the host at once that nothing more will come.
    rustix::fs::sync();
    let _ = rustix::system::reboot(rustix::system::RebootCommand::PowerOff);
    std::process::exit(1)
}

fn bring_up_and_serve() -> Result<()> {
    for (kind, target) in
        [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev"), ("tmpfs", "/run"), ("tmpfs", "/tmp")]
    {
        fs::create_dir_all(target).board(|| format!("cannot create {target}"))?;
        mount(kind, target, kind, MountFlags::empty(), None).board(|| format!("cannot mount {kind} on {target}"))?;
    }
    console()?;
    // A kernel without tracefs still measures; flashmon will say what is missing.
    let _ = mount("tracefs", "/sys/kernel/tracing", "tracefs", MountFlags::empty(), None);
    let _ = Command::new("/bin/busybox").args(["--install", "-s", "/bin"]).status();
    let modules = modules::load_all().and_then(|()| serve_block_device());
    let stop = StopRegister::map()?;
    let mut reply = match modules {
        Ok(()) => Response::Ready { facts: pocketstone_probe::facts::gather() },
        Err(error) => Response::Failed { failure: Failure::from(&error) },
    };
    loop {
        let text = serde_json::to_vec(&reply).map_err(|e| Error::bug("a reply is not valid JSON").because(e))?;
        hosted::write("reply.json", &text)?;
        stop.stop();
        reply = match serve() {
            Ok(reply) => reply,
            Err(error) => Response::Failed { failure: Failure::from(&error) },
        };
    }
}

/// Makes the console the standard streams; the kernel opened none where the initramfs has no /dev.
fn console() -> Result<()> {
    let console = rustix::fs::open("/dev/console", OFlags::RDWR, Mode::empty()).board(|| "no /dev/console".into())?;
    rustix::stdio::dup2_stdin(&console).board(|| "no standard input".into())?;
    rustix::stdio::dup2_stdout(&console).board(|| "no standard output".into())?;
    rustix::stdio::dup2_stderr(&console).board(|| "no standard error".into())
}

/// Brings the block device up that the initramfs describes, if it does.
fn serve_block_device() -> Result<()> {
    let description = Path::new("/").join(BLOCK_FILE);
    if description.exists() { block::start(&description, &Places::default().block) } else { Ok(()) }
}

/// Takes the host's order, has a child process carry it out, and hands its files to the host.
fn serve() -> Result<Response> {
    let order = hosted::read("order.json")?;
    let needed = serde_json::from_slice::<Request>(&order).map_or_else(|_| Vec::new(), |r| r.order.files());
    fs::write(ORDER, order).board(|| format!("cannot write {ORDER}"))?;
    for name in needed {
        let beside = Path::new(ORDER).with_file_name(name);
        fs::write(&beside, hosted::read(name)?).board(|| format!("cannot write {}", beside.display()))?;
    }
    let _ = fs::remove_dir_all(FOLDER);
    fs::create_dir(FOLDER).board(|| format!("cannot create {FOLDER}"))?;
    let status = Command::new("/bin/pocketstone-runner")
        .args(["order", ORDER, FOLDER])
        .env("PATH", "/bin:/sbin")
        .stdin(Stdio::inherit())
        .status()
        .board(|| "cannot start the runner".into())?;
    let reply = fs::read(Path::new(FOLDER).join("reply.json"))
        .board(|| format!("the runner produced no reply ({status}); see the console's last lines"))?;
    hand_over(Path::new(FOLDER), hosted::write)?;
    serde_json::from_slice(&reply).map_err(|e| Error::bug("the runner's reply is not valid JSON").because(e))
}

/// Gives the files of a folder, without the reply, to the host. If it does not take one of them whole, all are emptied
/// there: what it had no room for would take the room of the reply that says so.
fn hand_over(folder: &Path, mut write: impl FnMut(&str, &[u8]) -> Result<()>) -> Result<()> {
    let mut begun = Vec::new();
    for entry in fs::read_dir(folder).board(|| format!("cannot list {}", folder.display()))?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        // Folders are mount points of what ended with the runner.
        if name == "reply.json" || !entry.path().is_file() {
            continue;
        }
        let bytes = fs::read(entry.path()).board(|| format!("cannot read {name}"))?;
        begun.push(name);
        if let Err(error) = write(&begun[begun.len() - 1], &bytes) {
            for name in begun {
                let _ = write(&name, &[]);
            }
            return Err(error);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// A host whose disk has room for so many bytes.
    struct Host {
        room: usize,
        files: BTreeMap<String, Vec<u8>>,
    }

    impl Host {
        /// As "wb" does: what the file held is gone, and as much is written as fits.
        fn write(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
            self.files.remove(name);
            let left = self.room - self.files.values().map(Vec::len).sum::<usize>();
            self.files.insert(name.into(), bytes[..bytes.len().min(left)].to_vec());
            if bytes.len() > left { Err(Error::board(format!("no room for {name}"))) } else { Ok(()) }
        }
    }

    #[test]
    fn a_host_whose_disk_is_full_has_room_for_the_reply_that_says_so() {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in [("calls.bin", 300), ("events.bin", 900), ("reply.json", 50)] {
            fs::write(folder.path().join(name), vec![1; bytes]).unwrap();
        }
        fs::create_dir(folder.path().join("mnt")).unwrap();
        let mut large = Host { room: 1200, files: BTreeMap::new() };
        hand_over(folder.path(), |name, bytes| large.write(name, bytes)).unwrap();
        let sizes: Vec<_> = large.files.iter().map(|(name, bytes)| (name.as_str(), bytes.len())).collect();
        assert_eq!(sizes, [("calls.bin", 300), ("events.bin", 900)]);

        let mut small = Host { room: 1000, files: BTreeMap::new() };
        let error = hand_over(folder.path(), |name, bytes| small.write(name, bytes)).unwrap_err();
        assert!(error.chain().contains("no room for"), "{}", error.chain());
        small.write("reply.json", &[1; 1000]).unwrap();
    }
}
