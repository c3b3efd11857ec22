//! The program that works on a board: it carries out one order and leaves the reply in a folder, or,
//! as a virtual board's first process, brings the board up and takes orders until it is switched off.

mod block;
mod context;
mod hosted;
mod init;
mod measure;
mod modules;
mod order;
mod probes;
mod say;
mod serve;
mod stop;
mod volume;

use measure::informs;
use pocketstone_core::Error;
use pocketstone_core::board::OWN_MOUNTS;
use pocketstone_core::error::Context as _;
use pocketstone_engine::command::{GATE, KEEPER, gate, keep};
use pocketstone_engine::database::serve_informing;
use pocketstone_mount::guard;
use pocketstone_probe::command::{self, Options};
use pocketstone_probe::settings::watchdog_main;
use say::print;
use serve::COPIED;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// What the kernel of a virtual board starts, from its initramfs.
const INIT: &str = "/init";

const USAGE: &str = "usage: pocketstone-runner order ORDER.json FOLDER [copied] (copied: each setting is said over \
    standard input, a socket, before it is made)
       pocketstone-runner serve FOLDER PATIENCE_S [own-mounts] (takes \
    orders from a lab on another machine, over standard input and output; waits so long for the end of another one)
       pocketstone-runner serve ACCESS MEDIUM BYTES \
    REGION SETUP DIRECTORY (creates and mounts an SCMFS volume, for its cell)
       pocketstone-runner \
    serve-yaffs2-anonymous BYTES DIRECTORY (the same with YAFFS2 on a simulated chip)
       pocketstone-runner \
    serve-null-anonymous DIRECTORY (the same with names and sizes alone)
       pocketstone-runner \
    serve-yaffs2 DEVICE NOTE DIRECTORY (mounts the YAFFS2 volume of an MTD device, for the board)
       \
    pocketstone-runner serve-null FILE BYTES NOTE DIRECTORY (mounts a file of zeros, for the board)
       \
    pocketstone-runner serve-block DEVICE.json DEVICE (is the block device of a virtual board)
       \
    pocketstone-runner block-times DEVICE COUNT (measures the times of a block device, whose content is lost)
       \
    pocketstone-runner database TASK.json (an engine process, for the cell that starts it)
       \
    pocketstone-runner inspect-database ENGINE FOLDER (reads all of a database, for the order that looks at a cut)
       pocketstone-runner \
    gate LINE (waits for a byte and runs a command line, for the cell that starts it)
       pocketstone-runner \
    keeper LINE (is the parent of a command line, and ends whatever that leaves running, for the cell that starts it)
       pocketstone-runner \
    watchdog JOURNAL (restores settings, for the cell that starts it)
       pocketstone-runner flashmon [--summary \
    FILE] [--log FILE] -- COMMAND...
       pocketstone-runner host-open PATH... (on a virtual board: tests which \
    host files can be opened)
       pocketstone-runner version";

fn main() -> ExitCode {
    // In a container that starts it, its number is 1, too.
    if std::process::id() == 1 && std::env::args_os().next().is_some_and(|program| program == INIT) {
        init::main();
    }
    if guard::is_guard() {
        return exit(guard::watch());
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["order", order, folder] => exit(order::carry_out(Path::new(order), Path::new(folder), None)),
        ["order", order, folder, COPIED] => {
            let done = take_input().and_then(|lab| order::carry_out(Path::new(order), Path::new(folder), Some(&lab)));
            exit(done)
        }
        ["serve", folder, patience_s] | ["serve", folder, patience_s, OWN_MOUNTS] => {
            let Ok(patience_s) = patience_s.parse() else { return exit(Err(Error::user("PATIENCE_S is no number"))) };
            let served = serve::serve(Path::new(folder), Duration::from_secs(patience_s), words.len() > 3);
            ExitCode::from(served.map_or_else(|e| e.kind().exit_code(), |()| 0))
        }
        ["serve", access, medium, bytes, region, setup, directory] => {
            exit(volume::serve_scmfs([access, medium, bytes, region, setup], Path::new(directory), print))
        }
        ["serve-yaffs2-anonymous", bytes, directory] => {
            exit(volume::serve_yaffs2_anonymous(bytes, Path::new(directory), print))
        }
        ["serve-null-anonymous", directory] => exit(volume::serve_null_anonymous(Path::new(directory), print)),
        [volume::served::SERVE_YAFFS2, device, note, directory] => {
            exit(volume::served::serve_yaffs2(device, Path::new(note), Path::new(directory), print))
        }
        ["serve-null", file, bytes, note, directory] => {
            exit(volume::served::serve_null(file, bytes, Path::new(note), Path::new(directory), print))
        }
        [block::SERVE, description, at] => exit(block::serve(Path::new(description), Path::new(at), print)),
        ["block-times", device, count] => exit(block::times(device, count, print)),
        [volume::recovered::INSPECT, engine, folder] => {
            exit(volume::recovered::inspect(engine, Path::new(folder), print))
        }
        ["database", task] => {
            let (input, output) = (std::io::stdin().lock(), std::io::stdout().lock());
            ExitCode::from(serve_informing(Path::new(task), input, output, informs))
        }
        [GATE, line] => exit(gate(line)),
        [KEEPER, line] => exit(keep(line)),
        ["watchdog", ..] => exit(watchdog_main(&arguments[1..])),
        ["flashmon", ..] => match Options::parse(&arguments[1..]).and_then(|o| command::run(&o)) {
            Ok((report, status)) => {
                print(&report);
                ExitCode::from(status)
            }
            Err(error) => exit(Err(error)),
        },
        ["host-open", ref paths @ ..] => {
            paths.iter().for_each(|path| {
                let opened = hosted::File::open(path, hosted::READ).is_ok();
                print(&format!("{path} {}\n", if opened { "OPENED" } else { "refused" }));
            });
            ExitCode::SUCCESS
        }
        ["version"] => {
            print(concat!("pocketstone-runner ", env!("CARGO_PKG_VERSION"), "\n"));
            ExitCode::SUCCESS
        }
        _ => {
            print(USAGE);
            ExitCode::from(2)
        }
    }
}

/// Standard input for this process alone: what it starts has none.
fn take_input() -> pocketstone_core::Result<OwnedFd> {
    let failed = || "cannot keep standard input".to_owned();
    let own = std::io::stdin().as_fd().try_clone_to_owned().board(failed)?;
    let nothing = std::fs::File::open("/dev/null").board(failed)?;
    rustix::stdio::dup2_stdin(&nothing).board(failed)?;
    Ok(own)
}

fn exit(result: pocketstone_core::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print(&format!("error: {}\n", error.chain()));
            if let Some(hint) = error.cure() {
                print(&format!("hint: {hint}\n"));
            }
            ExitCode::from(error.kind().exit_code())
        }
    }
}
