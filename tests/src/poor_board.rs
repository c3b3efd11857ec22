//! A poor board at the end of a cable: dropbear and a static busybox in a root folder of its own, with processes and a
//! network of its own, and nothing else than this machine's kernel. No library is where a program would look for it.

use crate::command::{Process, Ran, binary, run, write};
use crate::network::Network;
use crate::project;
use pocketstone_testing::wait::until;
use pocketstone_testing::{Need, Skip, program, root};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// Where the frequency of the board's processors is set: ordinary files, as this machine may have none.
const POLICY: &str = "sys/devices/system/cpu/cpufreq/policy0";
/// The governor before any cell.
pub const GOVERNOR: &str = "ondemand";

/// The boards' folder: what reaches them, their profiles, and the root folder of each.
pub struct PoorBoards {
    home: TempDir,
    /// The network of the lab, at one end of all cables.
    lab: Network,
    boards: Vec<PoorBoard>,
}

/// One of them, until this is dropped.
pub struct PoorBoard {
    root: PathBuf,
    network: Network,
    /// The first process of its own.
    server: Child,
}

impl PoorBoards {
    /// So many boards, with profiles `board0.toml`, `board1.toml` and so on.
    ///
    /// # Errors
    /// A counted [`Skip`] where this is not root, or `ssh-keygen`, or dropbear with busybox is missing.
    #[track_caller]
    pub fn new(number: usize) -> Result<PoorBoards, Skip> {
        root()?;
        let keygen = program("ssh-keygen", "openssh-client")?;
        let programs = project().join(".cache/poor");
        if !programs.is_dir() {
            return Err(Need::Programs.lacks("there is no dropbear with busybox: scripts/ssh-servers"));
        }
        let home = tempfile::tempdir().expect("a folder");
        let at = home.path();
        run(Command::new(keygen).args(["-q", "-t", "ed25519", "-N", "", "-f", "key"]).current_dir(at)).ends_with(0);
        let lab = Network::new();
        let boards = (0..number).map(|index| PoorBoard::new(at, index, &programs, &lab)).collect();
        let boards = PoorBoards { home, lab, boards };
        for index in 0..number {
            until("the board answers", || boards.shell(index, "true").is_ok());
        }
        // The first of them compiles the runner: nobody who waits for a cell should wait for that.
        run(&mut boards.lab(&["board", "doctor", "./board0.toml"])).ends_with(0);
        Ok(boards)
    }

    /// The folder with the profiles, where the lab works.
    pub fn path(&self) -> &Path {
        self.home.path()
    }

    /// One board.
    pub fn board(&self, index: usize) -> &PoorBoard {
        &self.boards[index]
    }

    /// The network of the lab.
    pub fn network(&self) -> &Network {
        &self.lab
    }

    /// `pocketstone` in the lab's network.
    pub fn lab(&self, arguments: &[&str]) -> Command {
        let mut command = self.lab.command(&binary().to_string_lossy());
        command.current_dir(self.path()).args(arguments);
        command
    }

    /// A run that goes on meanwhile.
    pub fn begin(&self, arguments: &[&str]) -> Child {
        let mut begun = self.lab(arguments);
        begun.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the lab runs")
    }

    /// What a line in the shell of a board says.
    fn shell(&self, index: usize, line: &str) -> Result<String, String> {
        let mut ssh = self.lab.command("ssh");
        ssh.arg("-F").arg(self.path().join(format!("board{index}.config")));
        let ran = run(ssh.args(["-o", "BatchMode=yes", "-o", "ConnectTimeout=5", "board", line]));
        if ran.status == Some(0) { Ok(ran.out) } else { Err(ran.to_string()) }
    }
}

impl PoorBoard {
    fn new(at: &Path, index: usize, programs: &Path, lab: &Network) -> PoorBoard {
        let root = at.join(format!("board{index}"));
        for inner in ["bin", "dev", "proc", "tmp", "var/tmp", "etc/dropbear", "root/.ssh", POLICY] {
            fs::create_dir_all(root.join(inner)).expect("a folder");
        }
        fs::create_dir_all(root.join("sys/devices/system/cpu/cpu0")).expect("a folder");
        for inner in ["tmp", "var/tmp"] {
            fs::set_permissions(root.join(inner), fs::Permissions::from_mode(0o1777)).expect("its mode");
        }
        let ssh = root.join("ssh");
        run(Command::new("cp").arg("-rL").arg(programs).arg(&ssh)).ends_with(0);
        fs::rename(ssh.join("busybox"), root.join("bin/busybox")).expect("busybox");
        for name in ["sh", "cat", "sha256sum", "uname", "mkdir", "ls", "chmod", "mv", "rm", "test", "env", "sleep"] {
            symlink("busybox", root.join("bin").join(name)).expect("a link");
        }
        write(&root, "etc/passwd", "root::0:0:root:/root:/bin/sh\n");
        write(&root, &format!("{POLICY}/scaling_governor"), &format!("{GOVERNOR}\n"));
        write(&root, &format!("{POLICY}/scaling_available_governors"), "ondemand performance\n");
        fs::copy(at.join("key.pub"), root.join("root/.ssh/authorized_keys")).expect("a key");
        let network = Network::new();
        let [near, far] = [1, 2].map(|end| format!("10.77.{index}.{end}"));
        lab.cable(&network, &format!("cable{index}"), [&near, &far]);
        write(
            at,
            &format!("board{index}.config"),
            &format!(
                "Host board\n  HostName {far}\n  User root\n  IdentityFile {0}/key\n  IdentitiesOnly yes\n  \
                 StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  LogLevel ERROR\n",
                at.display()
            ),
        );
        let options = format!("options = [\"-F\", \"{}/board{index}.config\"]", at.display());
        write(at, &format!("board{index}.toml"), &format!("kind = \"ssh\"\nhost = \"board\"\n{options}\n"));
        let serve = format!(
            "mount --bind {0} {0} && mount --bind /dev {0}/dev && mount -t proc proc {0}/proc && cd {0} && exec chroot \
             {0} /ssh/lib/{1} --library-path /ssh/lib /ssh/dropbear -F -E -R -s -p 22 -P ''",
            root.display(),
            loader(&ssh.join("lib"))
        );
        let log = fs::File::create(at.join(format!("board{index}.log"))).expect("a file");
        let mut server = network.command("unshare");
        server.args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-c", &serve]);
        server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        PoorBoard { root, server: server.spawn().expect("unshare runs"), network }
    }

    /// The root folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Runs a line of this machine's shell where the board's mounts are.
    pub fn inside(&self, line: &str) -> Ran {
        let server = Process::descendants(self.server.id()).first().map(|process| process.pid.to_string());
        let server = server.expect("the board runs");
        run(Command::new("nsenter").args(["--mount", "--target", &server, "sh", "-c", line]))
    }

    /// The governor that is set.
    pub fn governor(&self) -> String {
        let text = fs::read_to_string(self.root.join(POLICY).join("scaling_governor")).expect("the governor");
        text.trim().to_owned()
    }

    /// Sets the governor, as its owner does.
    pub fn set_governor(&self, governor: &str) {
        write(&self.root, &format!("{POLICY}/scaling_governor"), &format!("{governor}\n"));
    }

    /// Pulls the cable, or plugs it in again.
    pub fn cable(&self, plugged: bool) {
        let state = if plugged { "up" } else { "down" };
        run(self.network.command("ip").args(["link", "set", "cable", state])).ends_with(0);
    }

    /// Its processes but the server's own.
    pub fn processes(&self) -> Vec<Process> {
        let first = Process::descendants(self.server.id());
        let Some(space) = first.first().and_then(|process| process.link("ns/pid")) else { return Vec::new() };
        let all = Process::all().filter(|process| !process.ended && process.name != "dropbear");
        let own = |process: &Process| process.link("ns/pid").as_ref() == Some(&space);
        all.filter(|process| own(process) && !process.name.starts_with("ld-linux")).collect()
    }

    /// The runners that serve a lab: those that no runner has started.
    pub fn serving(&self) -> Vec<Process> {
        let all: Vec<Process> = self.processes().into_iter().filter(|p| p.name.starts_with("runner-")).collect();
        all.iter().filter(|p| all.iter().all(|other| other.pid != p.parent)).cloned().collect()
    }
}

impl Drop for PoorBoard {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// The name of the dynamic linker in a folder of libraries.
fn loader(libraries: &Path) -> String {
    let names = fs::read_dir(libraries).expect("the libraries").flatten();
    let mut names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.find(|name| name.starts_with("ld-linux")).expect("a dynamic linker")
}
