//! The runner for boards of other processors: static programs that run there without anything else.

use super::quiet;
use pocketstone_board::{runner_architectures, runner_compiler, static_runner};
use pocketstone_core::board::{BoardDescription, Capabilities, Places};
use pocketstone_testing::{Need, or_skip, program, root, say};
use pocketstone_tests::command::{binary, run};
use pocketstone_tests::context;
use pocketstone_workload::plan::{Order, Request};
use std::fs;
use std::process::Command;

/// Of an architecture as Debian names it: its number in ELF files (elf(5), `e_machine`), what links for it with the
/// package that has it, and what runs it here.
const KNOWN: [(&str, u16, [&str; 2], &str); 4] = [
    ("armhf", 40, ["arm-linux-gnueabihf-gcc", "gcc-arm-linux-gnueabihf"], "qemu-arm-static"),
    ("arm64", 183, ["aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu"], "qemu-aarch64-static"),
    ("amd64", 62, ["x86_64-linux-gnu-gcc", "gcc"], "qemu-x86_64-static"),
    ("riscv64", 243, ["riscv64-linux-gnu-gcc", "gcc-riscv64-linux-gnu"], "qemu-riscv64-static"),
];
/// The kind of segment that names a dynamic linker (elf(5), `PT_INTERP`).
const INTERPRETER: u32 = 3;

/// Whether an ELF file asks for a dynamic linker.
fn interpreted(elf: &[u8]) -> bool {
    let wide = elf[4] == 2;
    let number =
        |at: usize, bytes: usize| elf[at..at + bytes].iter().rev().fold(0, |n, byte| n << 8 | u64::from(*byte));
    let (table, entry, count) = match wide {
        true => (number(32, 8), number(54, 2), number(56, 2)),
        false => (number(28, 4), number(42, 2), number(44, 2)),
    };
    (0..count).any(|n| number((table + n * entry) as usize, 4) == u64::from(INTERPRETER))
}

fn runs(architecture: &str) {
    let known = KNOWN.iter().find(|known| known.0 == architecture);
    let (_, machine, [linker, package], emulator) = known.unwrap_or_else(|| panic!("{architecture} is not known here"));
    or_skip!(program(linker, package));
    let emulator = or_skip!(program(emulator, "qemu-user-static"));
    let compiler = runner_compiler(architecture, &context());
    or_skip!(compiler.map(drop).map_err(|error| Need::Programs.lacks(error.chain())));
    let path = static_runner(architecture, &context()).unwrap_or_else(|error| panic!("{}", error.chain()));
    let elf = fs::read(&path).expect("the runner");
    assert_eq!(u16::from_le_bytes([elf[18], elf[19]]), *machine, "{architecture}");
    assert!(!interpreted(&elf), "{architecture}");
    assert!(interpreted(&fs::read(std::env::current_exe().expect("a path")).expect("this program")), "as this is");
    let version = run(Command::new(emulator).arg(&path).arg("version")).ends_with(0);
    assert!(version.out.starts_with("pocketstone-runner "), "{version}");
    say(&format!("the runner for {architecture} is static, and runs"));
}

#[test]
fn the_runner_for_this_processor_is_static_and_runs() {
    let _quiet = quiet();
    let own = |(triple, _): &(&str, &str)| triple.starts_with(std::env::consts::ARCH);
    let (_, architecture) = runner_architectures().find(own).expect("this one is known");
    runs(architecture);
}

#[test]
#[ignore = "compiles for minutes: make torture"]
fn the_runner_of_each_processor_is_static_and_runs() {
    let _quiet = quiet();
    for (_, architecture) in runner_architectures() {
        runs(architecture);
    }
}

/// Its first process there is the runner, as in a container.
#[test]
fn a_runner_with_process_numbers_of_its_own_is_no_virtual_boards_and_traces_nothing() {
    or_skip!(root());
    let contained = |words: &[&str]| {
        let runner = binary().with_file_name("pocketstone-runner");
        let mut command = Command::new("unshare");
        run(command.args(["--pid", "--fork", "--kill-child", "--mount-proc"]).arg(runner).args(words)).ends_with(0)
    };
    contained(&["version"]).says(&["pocketstone-runner "]);

    let folder = tempfile::tempdir().expect("a temporary folder");
    let capabilities = Capabilities { disposable: true, ..Capabilities::unknown() };
    let request = Request {
        board: BoardDescription { capabilities, places: Places::default(), settings: Vec::new() },
        order: Order::Abilities,
    };
    let order = folder.path().join("order.json");
    fs::write(&order, serde_json::to_vec(&request).unwrap()).unwrap();
    contained(&["order", order.to_str().unwrap(), folder.path().to_str().unwrap()]);
    let reply = fs::read_to_string(folder.path().join("reply.json")).unwrap();
    assert!(reply.contains("\"kernel tracing\":{") && reply.contains("process numbers of its own"), "{reply}");
}
