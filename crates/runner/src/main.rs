//! The program that works on a board: it carries out one order and leaves the reply in a folder, or,
//! as a virtual board's first process, brings the board up and takes orders until it is switched off.

mod cell;
mod database;
mod energy;
mod files;
mod hosted;
mod in_memory;
mod init;
mod loop_device;
mod mtd;
mod order;
mod read_ahead;
mod served;
mod session;
mod settings;
mod speed;
mod squashfs;
mod stop;
mod ubi;
mod volume;

use pocketstone_engine::database::serve_informing;
use pocketstone_probe::command::{self, Options};
use pocketstone_probe::settings::watchdog_main;
use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage: pocketstone-runner order ORDER.json FOLDER
       pocketstone-runner serve REGION DIRECTORY (mounts an SCMFS volume, for the cell that starts it)
       pocketstone-runner serve-yaffs2 DEVICE DIRECTORY (mounts the YAFFS2 volume of an MTD device, for the board)
       pocketstone-runner serve-null FILE BYTES DIRECTORY (mounts a file of zeros, for the board)
       pocketstone-runner database TASK.json (an engine's process, for the cell that starts it)
       pocketstone-runner watchdog JOURNAL (puts settings back, for the cell that starts it)
       pocketstone-runner flashmon [--summary FILE] [--log FILE] -- COMMAND...
       pocketstone-runner host-open PATH... (on a virtual board: which files of the host can be opened)
       pocketstone-runner version";

fn main() -> ExitCode {
    if std::process::id() == 1 {
        init::main();
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["order", order, folder] => exit(order::carry_out(Path::new(order), Path::new(folder))),
        ["serve", region, directory] => exit(in_memory::serve(Path::new(region), Path::new(directory), print)),
        ["serve-yaffs2", device, directory] => exit(served::serve_yaffs2(device, Path::new(directory), print)),
        ["serve-null", file, bytes, directory] => exit(served::serve_null(file, bytes, Path::new(directory), print)),
        ["database", task] => {
            let (input, output) = (std::io::stdin().lock(), std::io::stdout().lock());
            ExitCode::from(serve_informing(Path::new(task), input, output, speed::informs))
        }
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

/// Writes to standard output. A reader that went away is no reason to fail.
fn print(text: &str) {
    use std::io::Write;
    let _ = std::io::stdout().write_all(text.as_bytes());
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
