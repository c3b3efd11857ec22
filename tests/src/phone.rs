//! A phone at the other end of adb: Android's own daemon as the user of its shell, in a root folder of its own that has
//! a static busybox and scripts for Android's programs, which answer what a phone has said. Kernel and processor are
//! this machine's. Its network is its own, as its daemon asks nobody for a key.

use crate::command::{Process, Ran, binary, run, write};
use crate::network::Network;
use crate::project;
use pocketstone_testing::{Need, Skip, root};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use tempfile::TempDir;

/// The user that adb's shell is on a phone that is not rooted.
pub const SHELL: &str = "2000";
/// The one folder that its user may write to, as on a phone.
pub const LOCAL: &str = "/data/local/tmp";
/// Where its programs are.
const BIN: &str = "system/bin";
/// What answers in place of a phone's services.
const SAID: &str = "/said";

/// A phone, until this is dropped. Its folder has its root folder `phone`, the client and profiles.
pub struct Phone {
    home: TempDir,
    network: Network,
    port: u16,
    daemon: Child,
    /// Folders of this machine that it has, too.
    shared: &'static [&'static str],
}

impl Phone {
    /// A phone with the profile `phone.toml`.
    ///
    /// # Errors
    /// As [`Phone::with`].
    #[track_caller]
    pub fn new() -> Result<Phone, Skip> {
        Phone::with(&[])
    }

    /// One that has these folders of this machine, for scripts that need more than a shell.
    ///
    /// # Errors
    /// A counted [`Skip`] where this is not root, or the kernel's namespaces of time, `adbd` or a static busybox are
    /// missing.
    #[track_caller]
    pub fn with(shared: &'static [&'static str]) -> Result<Phone, Skip> {
        root()?;
        if !Path::new("/proc/self/ns/time").exists() {
            return Err(Need::Kernel.lacks("this kernel has no namespaces of time"));
        }
        let programs = project().join(".cache/phone");
        if !programs.join("daemon/adbd").exists() {
            return Err(Need::Programs.lacks("there is no adbd: scripts/phone"));
        }
        let busybox = project().join(".cache/poor/busybox");
        if !busybox.exists() {
            return Err(Need::Programs.lacks("there is no static busybox: scripts/ssh-servers"));
        }
        let network = Network::new();
        run(network.command("ip").args(["link", "set", "lo", "up"])).ends_with(0);
        let home = tempfile::tempdir().expect("a folder");
        let at = home.path();
        fs::set_permissions(at, fs::Permissions::from_mode(0o755)).expect("permissions");
        let copy = |from: PathBuf, to: &Path| {
            run(Command::new("cp").arg("-rL").arg(fs::canonicalize(from).expect("a path")).arg(to)).ends_with(0);
        };
        copy(programs.join("client"), &at.join("client"));
        // For the client's key.
        fs::create_dir(at.join("adb")).expect("a folder");
        script(&at.join("bin/adb"), &format!("LD_LIBRARY_PATH={0}/client exec {0}/client/adb \"$@\"", at.display()));

        let own = at.join("phone");
        for folder in [BIN, "bin", "dev", "proc", "sys", "said", "adbd", LOCAL.trim_start_matches('/')] {
            fs::create_dir_all(own.join(folder)).expect("a folder");
        }
        for folder in shared {
            fs::create_dir_all(own.join(folder.trim_start_matches('/'))).expect("a folder");
        }
        copy(programs.join("daemon"), &own.join("adbd/lib"));
        libraries(&own.join("adbd/lib"));
        copy(busybox, &own.join(BIN).join("busybox"));
        let tools =
            ["sh", "cat", "sha256sum", "uname", "mkdir", "ls", "chmod", "mv", "rm", "test", "env", "sleep", "sed"];
        for tool in tools {
            symlink("busybox", own.join(BIN).join(tool)).expect("a link");
        }
        // Where Debian's daemon looks for a shell.
        symlink(format!("/{BIN}/sh"), own.join("bin/sh")).expect("a link");
        let phone = own.display();
        run(Command::new("chown").arg(SHELL).arg(format!("{phone}{LOCAL}"))).ends_with(0);
        let port = port();
        let daemon = daemon(&own, &network, port, shared);
        let phone = Phone { home, network, port, daemon, shared };
        phone.program("getprop", &format!("sed -n \"s/^$1=//p\" {SAID}/properties"));
        phone.program("dumpsys", &format!("cat {SAID}/dumpsys.$1"));
        phone.says("properties", "ro.product.model=Pixel 2\nro.build.version.sdk=30\nro.build.type=user\n");
        phone.says("dumpsys.thermalservice", "IsStatusOverride: false\nThermal Status: 1\n");
        phone.battery(85);
        phone.profile("phone.toml", "");
        Ok(phone)
    }

    /// The phone, as adb knows it.
    pub fn serial(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The folder where the lab works.
    pub fn path(&self) -> &Path {
        self.home.path()
    }

    /// The phone's root folder.
    pub fn root(&self) -> PathBuf {
        self.path().join("phone")
    }

    /// The folder that its user may write to.
    pub fn local(&self) -> PathBuf {
        self.root().join(LOCAL.trim_start_matches('/'))
    }

    /// A program of the phone, as a line of its shell.
    pub fn program(&self, name: &str, line: &str) {
        script(&self.root().join(BIN).join(name), line);
    }

    /// What a service of the phone says, by the name of the program and of the service.
    pub fn says(&self, name: &str, text: &str) {
        write(&self.root().join(SAID.trim_start_matches('/')), name, text);
    }

    /// How full its battery is.
    pub fn battery(&self, percent: u32) {
        let text = format!("Current Battery Service state:\n  status: 3\n  level: {percent}\n  temperature: 281\n");
        self.says("dumpsys.battery", &text);
    }

    /// Writes a profile of it, with more keys.
    pub fn profile(&self, name: &str, more: &str) {
        let text = format!("kind = \"adb\"\nserial = \"{}\"\nfolder = \"{LOCAL}/runner\"\n{more}\n", self.serial());
        write(self.path(), name, &text);
    }

    /// The lab, with adb's server and key of its own.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.network.command(&binary().to_string_lossy());
        let path = format!("{}/bin:{}", self.path().display(), std::env::var("PATH").expect("a PATH"));
        command.current_dir(self.path()).args(arguments).env("PATH", path);
        command.env("ADB_SERVER_SOCKET", "tcp:localhost:15037").env("ADB_VENDOR_KEYS", self.path().join("adb"));
        // The board's cache is the user's, adb's key is not.
        let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
        let cache = std::env::var_os("XDG_CACHE_HOME").map_or_else(|| home.join(".cache"), PathBuf::from);
        command.env("XDG_CACHE_HOME", cache).env("HOME", self.path().join("adb"));
        // Nor are the compilers that make the runner.
        for (variable, folder) in [("RUSTUP_HOME", ".rustup"), ("CARGO_HOME", ".cargo")] {
            command.env(variable, std::env::var_os(variable).map_or_else(|| home.join(folder), PathBuf::from));
        }
        command
    }

    /// The lab's command, at its end.
    pub fn lab(&self, arguments: &[&str]) -> Ran {
        run(&mut self.command(arguments))
    }

    /// A run that goes on meanwhile.
    pub fn begin(&self, arguments: &[&str]) -> Child {
        let mut command = self.command(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the lab runs")
    }

    /// The processes of runners: all whose program or folder is where adb's user may write.
    pub fn processes(&self) -> Vec<Process> {
        Process::within(&self.local())
    }

    /// Ends the daemon and starts another one, as when a cable is pulled and plugged in: neither side is told by the
    /// other, and what runs on the phone runs on.
    pub fn lose_connection(&mut self) {
        self.daemon.kill().expect("the daemon is killed");
        self.daemon.wait().expect("the daemon ends");
        self.daemon = daemon(&self.root(), &self.network, self.port, self.shared);
    }
}

impl Drop for Phone {
    fn drop(&mut self) {
        let mut adb = self.network.command("env");
        let server = "ADB_SERVER_SOCKET=tcp:localhost:15037";
        let _ = adb.arg(server).arg(self.path().join("bin/adb")).arg("kill-server").output();
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

fn script(path: &Path, line: &str) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(path, format!("#!/bin/sh\n{line}\n")).expect("a script");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("permissions");
}

/// Gives the daemon what it needs of this machine's libraries, and their loader.
fn libraries(folder: &Path) {
    let mut ldd = Command::new("ldd");
    let said = run(ldd.env("LD_LIBRARY_PATH", folder).arg(folder.join("adbd"))).ends_with(0).out;
    let words: BTreeSet<&str> = said.split_whitespace().filter(|word| word.starts_with('/')).collect();
    for library in words.into_iter().map(Path::new).filter(|library| !library.starts_with(folder)) {
        fs::copy(library, folder.join(library.file_name().expect("a name"))).expect("a copy");
    }
}

/// A port that no other phone has: what was set on one is put back on the one that is reached in the same way.
fn port() -> u16 {
    static PHONES: AtomicU32 = AtomicU32::new(0);
    const PORTS: u32 = 20_000;
    let one = std::process::id().wrapping_mul(16) + PHONES.fetch_add(1, Ordering::Relaxed);
    20_000 + (one % PORTS) as u16
}

/// The daemon and all that it starts have a CLOCK_BOOTTIME that is ahead of CLOCK_MONOTONIC, as of a phone that has
/// slept.
fn daemon(own: &Path, network: &Network, port: u16, shared: &[&str]) -> Child {
    let at = own.display();
    let names = fs::read_dir(own.join("adbd/lib")).expect("libraries").flatten().map(|entry| entry.file_name());
    let loader = names.map(|name| name.to_string_lossy().into_owned()).find(|name| name.starts_with("ld-linux"));
    let shared: String = shared.iter().map(|folder| format!("mount --bind {folder} {at}{folder} && ")).collect();
    let serve = format!(
        "mount --bind /dev {at}/dev && mount --bind /sys {at}/sys && mount -t proc proc {at}/proc && {shared}exec \
         chroot --userspec={SHELL}:{SHELL} --groups= {at} /{BIN}/env -i PATH=/{BIN}:/usr/bin HOME=/ ADBD_PORT={port} \
         /adbd/lib/{} --library-path /adbd/lib /adbd/lib/adbd",
        loader.expect("a loader")
    );
    let mut command = network.command("unshare");
    command.args(["--mount", "--time", "--boottime", "5000", "sh", "-c", &serve]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("adbd starts")
}
