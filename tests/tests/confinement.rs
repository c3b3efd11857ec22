//! What a guest can reach: its chip, and of the host nothing but its cell's folder.

use pocketstone_board::Board;
use pocketstone_core::pattern::Pattern;
use pocketstone_core::volume::FileSystem;
use pocketstone_testing::wait::LONG;
use pocketstone_testing::{Need, or_skip};
use pocketstone_tests::command::{Process, board, poll};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Runs a command on the board; its output and exit status.
fn exec(board: &Board, words: &[&str]) -> (String, i32) {
    let words: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
    let (output, status) = board.exec(&words).unwrap_or_else(|failed| {
        panic!("{words:?}: {}\nconsole:\n{}", failed.error.chain(), failed.console.unwrap_or_default())
    });
    (String::from_utf8_lossy(&output).into_owned(), status)
}

#[test]
fn a_guest_opens_no_file_of_the_host_but_its_cells() {
    let board = or_skip!(board());
    let foreign = [
        "/etc/passwd",
        "/etc/hostname",
        "../../../../etc/passwd",
        "../../states",
        "/usr/bin/qemu-system-arm",
        "/proc/self/environ",
        "/proc/1/environ",
        "/root/.bashrc",
        concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"),
    ];
    let words = [&["pocketstone-runner", "host-open"], &foreign[..], &["order.json"]].concat();
    let (output, status) = exec(board, &words);
    let expected: String = foreign.iter().map(|path| format!("{path} refused\n")).collect();
    assert_eq!((output, status), (expected + "order.json OPENED\n", 0));
}

/// A program for the board, as text for `printf`: it makes one semihosting call with `operation` and
/// the address of a text, and ends with 0 if the call's result is 0, else with 1.
fn semihosting_program(operation: u8, text: &str) -> String {
    const BASE: u32 = 0x0001_0000;
    const HEAD: u32 = 52 + 32;
    let code: [u32; 8] = [
        0xe3a0_0000 | u32::from(operation), // mov r0, #operation
        0xe28f_1014,                        // add r1, pc, #20: the parameters, behind the code
        0xef12_3456,                        // svc 0x123456
        0xe350_0000,                        // cmp r0, #0
        0x13a0_0001,                        // movne r0, #1
        0xe3a0_7001,                        // mov r7, #1: exit
        0xef00_0000,                        // svc 0
        0xe1a0_0000,                        // nop
    ];
    let end = HEAD + 4 * code.len() as u32;
    // Address and length of the text, which follows them; no address where there is no text.
    let parameters = [if text.is_empty() { 0 } else { BASE + end + 8 }, text.len() as u32];
    let size = end + 8 + text.len() as u32 + 1;
    let mut program = b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x28\0\x01\0\0\0".to_vec();
    let words = |program: &mut Vec<u8>, words: &[u32]| words.iter().for_each(|w| program.extend(w.to_le_bytes()));
    // Entry, program headers, section headers, flags (EABI 5).
    words(&mut program, &[BASE + HEAD, 52, 0, 0x0500_0000]);
    // Sizes and counts of headers: 52; 32, 1; 0, 0; 0.
    program.extend([52, 0, 32, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    // One segment that is loaded whole, to read and execute.
    words(&mut program, &[1, 0, BASE, BASE, size, size, 5, 0x1000]);
    words(&mut program, &code);
    words(&mut program, &parameters);
    program.extend(text.bytes().chain([0]));
    program.iter().map(|b| format!("\\0{b:03o}")).collect()
}

#[test]
fn a_guest_runs_no_command_on_the_host() {
    const IS_ERROR: u8 = 0x08;
    const SYSTEM: u8 = 0x12;
    let board = or_skip!(board());
    let call = |operation: u8, text: &str| {
        let program = semihosting_program(operation, text);
        exec(board, &["sh", "-c", &format!("printf '%b' '{program}' > /tmp/p; chmod +x /tmp/p; /tmp/p")])
    };
    // "Is 0 an error?" It is not: the calls of this program do arrive.
    assert_eq!(call(IS_ERROR, ""), (String::new(), 0), "a harmless call");
    assert_eq!(call(SYSTEM, "exit 0"), (String::new(), 1), "a shell's command");
}

/// What a machine could reach at one time while it ran.
struct Seen {
    network: PathBuf,
    /// The root of its files, where that is not the host's.
    root: Option<PathBuf>,
    cell: PathBuf,
    devices: Vec<String>,
}

impl Seen {
    /// `None` if the machine ended meanwhile: the others of this program are short-lived, too.
    fn of(machine: &Process, is_root: bool) -> Option<Seen> {
        let network = machine.link("ns/net")?;
        // QEMU confines itself to its folder once its files are open.
        let confined = || match machine.link("root") {
            Some(root) if root != Path::new("/") => Some(Some(root)),
            _ if !is_root || !machine.runs() => Some(None),
            _ => None,
        };
        let root = poll(LONG, confined).expect("the machine runs with the host's files");
        let cell = machine.cell()?;
        let open = fs::read_dir(format!("/proc/{}/fd", machine.pid)).ok()?;
        let open = open.flatten().filter_map(|f| fs::read_link(f.path()).ok()).map(|f| f.display().to_string());
        let devices = open.filter(|f| f.contains("/dev/kvm") || f.contains("/dev/net")).collect();
        machine.runs().then_some(Seen { network, root, cell, devices })
    }
}

#[test]
fn a_machine_has_no_network_and_no_other_files() {
    let board = or_skip!(board());
    let (interfaces, _) = exec(board, &["ls", "/sys/class/net"]);
    assert_eq!(interfaces, "lo\n", "interfaces in the guest");
    let is_root = rustix::process::geteuid().is_root();
    // About a second of work, during which a machine is looked at from outside; again where it was over too soon.
    let work = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; echo $i";
    let look = || {
        std::thread::scope(|scope| {
            let guest = scope.spawn(|| exec(board, &["sh", "-c", work]));
            let seen = || {
                let machines = Process::machines_of(std::process::id());
                let seen = machines.iter().find_map(|machine| Seen::of(machine, is_root));
                (seen.is_some() || guest.is_finished()).then_some(seen)
            };
            let seen = poll(Duration::from_secs(600), seen).expect("the guest's work ends");
            let (output, status) = guest.join().expect("the guest's work");
            assert_eq!((output.as_str(), status), ("60000\n", 0));
            seen
        })
    };
    let seen = (0..20).find_map(|_| look()).expect("a machine that is looked at while it runs");
    let own = fs::read_link("/proc/self/ns/net").expect("our network");
    match is_root || seen.network != own {
        true => assert_ne!(seen.network, own, "the machine's network is the host's"),
        false => _ = Need::Root.lacks("a network namespace: this user may have none"),
    }
    match seen.root {
        Some(folder) => assert_eq!(folder, seen.cell, "the machine's root"),
        None => _ = Need::Root.lacks("chroot: this user may not"),
    }
    assert_eq!(seen.devices, [""; 0], "devices that the machine has open");
}

// --- flashmon on a board, outside any study -------------------------------------------------------

/// A line `sec.nsec;R;page;dd`; its page.
fn classic_read(line: &str) -> Option<u32> {
    let fields: Vec<&str> = line.split(';').collect();
    let [time, "R", page, "dd"] = fields[..] else { return None };
    let (seconds, nanoseconds) = time.split_once('.')?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    (digits(seconds) && digits(nanoseconds) && nanoseconds.len() == 9).then_some(page.parse().ok()?)
}

#[test]
fn flashmon_counts_what_a_command_does_on_a_board() {
    let board = or_skip!(board());
    let dd = "dd if=/dev/mtd0 of=/dev/null bs=2048 count=64";
    let flashmon = "pocketstone-runner flashmon --log /tmp/l --summary /tmp/s --";
    let (table, status) = exec(board, &["sh", "-c", &format!("{flashmon} {dd} 2>/dev/null")]);
    assert_eq!(status, 0, "{table}");
    let rows: Vec<Vec<&str>> = table.lines().map(|l| l.split_whitespace().collect()).collect();
    assert_eq!(rows[0].join(" "), "task page senses page reads programs erases", "{table}");
    let dd_row = rows.iter().find(|r| r[0] == "dd").unwrap_or_else(|| panic!("no row for dd:\n{table}"));
    assert_eq!(dd_row[1..], ["64", "64", "0", "0"], "senses, reads, programs and erases of dd:\n{table}");

    let script = format!("{flashmon} {dd} >/dev/null 2>&1; cat /tmp/l; echo; cat /tmp/s");
    let (files, status) = exec(board, &["sh", "-c", &script]);
    assert_eq!(status, 0, "{files}");
    let (log, summary) = files.split_once("\n\n").expect("a log and a summary");
    let pages: Vec<u32> = log
        .lines()
        .map(|line| classic_read(line).unwrap_or_else(|| panic!("{line:?} is no line sec.nsec;R;page;dd")))
        .collect();
    assert_eq!(pages, (0..64).collect::<Vec<u32>>(), "pages in the log");
    assert_eq!(summary.lines().count(), 2048, "a line for each block of the chip");
    assert_eq!(summary.lines().next(), Some("64 0 0"), "reads, writes and erases of the first block");
    assert!(summary.lines().skip(1).all(|l| l == "0 0 0"), "nothing happened to other blocks");
    // A command that fails is not hidden by the table.
    let (said, status) = exec(board, &["sh", "-c", "pocketstone-runner flashmon -- sh -c 'exit 9'"]);
    assert_eq!(status, 9, "{said}");
}

#[test]
fn flashmon_counts_a_file_systems_reads_by_task() {
    let board = or_skip!(board());
    let plan = pocketstone_tests::plan(FileSystem::Jffs2, Pattern::Sequential, 16, 0, 1);
    let script = "echo 1 > /proc/sys/vm/drop_caches
        pocketstone-runner flashmon -- dd if=/mnt/target of=/dev/null bs=4096 count=16 2>/dev/null";
    let words = ["sh", "-c", script].map(str::to_owned);
    let (output, status) = board.exec_after(&plan.steps(), &words).unwrap_or_else(|f| panic!("{}", f.error.chain()));
    let table = String::from_utf8_lossy(&output);
    assert_eq!(status, 0, "{table}");
    let dd: Vec<&str> = table.lines().find(|l| l.starts_with("dd ")).expect(&table).split_whitespace().collect();
    let senses: u32 = dd[1].parse().expect("a number");
    // 64 KiB are 32 pages; each node's header and the file's first pages cost more.
    assert!((32..200).contains(&senses), "{senses} page senses for 64 KiB:\n{table}");
    assert_eq!(dd[3..], ["0", "0"], "programs and erases of a reader:\n{table}");
}
