//! Raw flash of a board behind ssh: a whole machine in QEMU with busybox, dropbear and the simulated chip of the
//! virtual board, which the lab knows by ssh alone. What it counts is what the virtual board counts.

use pocketstone_board::{Board, Profile};
use pocketstone_core::pattern::Pattern;
use pocketstone_core::volume::FileSystem;
use pocketstone_testing::wait::until;
use pocketstone_testing::{Need, Skip, or_skip, program};
use pocketstone_tests::command::{Ran, run};
use pocketstone_tests::{context, measure, plan, project, virtual_board};
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// What the chip's one partition is called by the simulator (drivers/mtd/nand/raw/nandsim.c).
const PARTITION: &str = "NAND simulator partition 0";
/// The first process. The modules of the virtual board are in /modules, those of the network in /network.
///
/// Time passes here as on the wall: on a busy machine the kernel's five seconds until it writes back what is dirty (in
/// JFFS2, until it pads and writes its buffer) could be over while files are written, and lay them out otherwise than
/// the virtual board does, whose time stands still meanwhile. They are 40; UBIFS asserts that they are less than 43.
const INIT: &str = r#"#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t devtmpfs devtmpfs /dev
mkdir -p /var/tmp /etc /root; mount -t tmpfs tmpfs /tmp; mount -t tmpfs tmpfs /run; mount -t tmpfs tmpfs /var/tmp
mount -t tracefs tracefs /sys/kernel/tracing
echo 4000 > /proc/sys/vm/dirty_writeback_centisecs
cd /modules; while read file parameters; do insmod $file $parameters; done < order
cd /network; for file in virtio virtio_ring virtio_mmio failover net_failover virtio_net; do
  [ ! -e $file.ko ] || insmod $file.ko
done
ip link set lo up; ip link set eth0 up; ip addr add 10.0.2.15/24 dev eth0
cd /; exec /ssh/lib/ld-linux-armhf.so.3 --library-path /ssh/lib /ssh/dropbear -F -E -R -s -p 22
"#;

/// The machine in QEMU, until this is dropped.
struct Machine {
    folder: TempDir,
    qemu: Child,
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
    }
}

/// The newest file below `folder` that a path of these parts leads to.
fn newest(folder: &Path, part: &str) -> PathBuf {
    let files = fs::read_dir(folder).expect("the board's cache").flatten().map(|entry| entry.path());
    let files = files.filter(|path| path.to_string_lossy().contains(part));
    let age = |path: &PathBuf| fs::metadata(path).and_then(|metadata| metadata.modified()).expect("its time");
    files.max_by_key(age).unwrap_or_else(|| panic!("{} has no {part}", folder.display()))
}

impl Machine {
    /// # Errors
    /// A counted [`Skip`] where QEMU, `ssh-keygen`, cpio or dropbear is missing.
    fn new() -> Result<Machine, Skip> {
        // What it boots is what the virtual board boots.
        let digest = virtual_board()?.facts()["image.digest"].clone();
        let (ssh_keygen, cpio) = (program("ssh-keygen", "openssh-client")?, program("cpio", "cpio")?);
        let dropbear = project().join(".cache/dropbear");
        if !dropbear.is_dir() {
            return Err(Need::Programs.lacks("there is no dropbear: scripts/ssh-servers"));
        }
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path();
        run(Command::new(ssh_keygen).args(["-q", "-t", "ed25519", "-N", "", "-f", "key"]).current_dir(at)).ends_with(0);
        let root = at.join("root");
        for inner in ["ssh", "network", "etc", "root/.ssh", "var/tmp"] {
            fs::create_dir_all(root.join(inner)).expect("a folder");
        }
        fs::write(root.join("init"), INIT).expect("a file");
        fs::set_permissions(root.join("init"), fs::Permissions::from_mode(0o755)).expect("its mode");
        fs::write(root.join("etc/passwd"), "root::0:0:root:/root:/bin/sh\n").expect("a file");
        fs::copy(at.join("key.pub"), root.join("root/.ssh/authorized_keys")).expect("a key");
        fs::create_dir_all(root.join("etc/dropbear")).expect("a folder");
        run(Command::new("cp")
            .arg("-r")
            .arg(dropbear.join("dropbear"))
            .arg(dropbear.join("lib"))
            .arg(root.join("ssh")))
        .ends_with(0);
        // Others than the superuser of this machine must not own what the superuser of that one is asked for.
        symlink("/run", root.join("var/run")).expect("a link");
        let cache = context().cache;
        let packages = cache.folder("packages").expect("the packages");
        let kernel = newest(&packages, "linux-image-armmp");
        let modules = newest(&kernel.join("lib/modules"), "armmp");
        for name in ["virtio/virtio", "virtio/virtio_ring", "virtio/virtio_mmio", "net/virtio_net", "net/net_failover"]
        {
            let from = modules.join("kernel/drivers").join(name).with_extension("ko");
            let _ = fs::copy(&from, root.join("network").join(from.file_name().expect("a name")));
        }
        let _ = fs::copy(modules.join("kernel/net/core/failover.ko"), root.join("network/failover.ko"));
        // The kernel takes archives one behind the other, and files of the last one.
        let own = run(Command::new("sh")
            .current_dir(&root)
            .args(["-c", "find . | \"$0\" -o -H newc -R 0:0 > ../own.cpio"])
            .arg(&cpio));
        own.ends_with(0);
        let board = cache.folder("initramfs").expect("the initramfs").join(format!("{digest}.cpio"));
        let mut archive = fs::read(board).expect("the initramfs");
        archive.resize(archive.len().next_multiple_of(512), 0);
        archive.extend(fs::read(at.join("own.cpio")).expect("the archive"));
        fs::write(at.join("initramfs"), archive).expect("a file");
        let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port").port();
        fs::write(
            at.join("config"),
            format!(
                "Host board\n  HostName 127.0.0.1\n  Port {port}\n  User root\n  IdentityFile {0}/key\n  \
                 IdentitiesOnly yes\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n",
                at.display()
            ),
        )
        .expect("a file");
        let console = fs::File::create(at.join("console")).expect("a file");
        let mut qemu = Command::new("qemu-system-arm");
        qemu.args(["-M", "virt", "-cpu", "cortex-a15", "-m", "1024", "-nographic", "-no-reboot", "-append"]);
        qemu.args(["console=ttyAMA0 panic=-1", "-device", "virtio-net-device,netdev=net", "-netdev"]);
        qemu.arg(format!("user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:{port}-:22"));
        qemu.arg("-kernel").arg(newest(&kernel.join("boot"), "vmlinuz")).arg("-initrd").arg(at.join("initramfs"));
        qemu.stdin(Stdio::null()).stdout(console.try_clone().expect("a file")).stderr(console);
        let machine = Machine { qemu: qemu.spawn().expect("QEMU starts"), folder };
        until("the machine is up", || {
            let said = fs::read_to_string(machine.folder.path().join("console")).unwrap_or_default();
            assert!(!said.contains("Kernel panic"), "{said}");
            machine.shell("true").status == Some(0)
        });
        Ok(machine)
    }

    /// Runs a line in its shell.
    fn shell(&self, line: &str) -> Ran {
        let mut ssh = Command::new("ssh");
        ssh.arg("-F").arg(self.folder.path().join("config")).args(["-o", "BatchMode=yes", "-o", "ConnectTimeout=5"]);
        run(ssh.args(["-o", "LogLevel=ERROR", "board", line]))
    }

    /// It as a board of the lab, with this in its profile.
    fn board(&self, flash: &str) -> Board {
        let options = format!("options = [\"-F\", \"{}/config\"]", self.folder.path().display());
        let text = format!("kind = \"ssh\"\nhost = \"board\"\n{options}\n{flash}");
        fs::write(self.folder.path().join("far.toml"), text).expect("a file");
        let profile = Profile::load(self.folder.path(), "far").expect("a profile");
        pocketstone_board::open(&profile, false, &context()).unwrap_or_else(|error| panic!("{}", error.chain()))
    }
}

#[test]
#[ignore = "boots Debian on an emulated board: make torture"]
fn raw_flash_by_ssh_counts_what_the_virtual_board_counts_and_is_nobody_elses() {
    let machine = or_skip!(Machine::new());
    let virtual_board = or_skip!(virtual_board());
    let allowed = |partition: &str| format!("[flash]\npartition = \"{partition}\"\nerase = \"allowed\"\n");
    // The last one leaves a volume of JFFS2.
    let volumes = [FileSystem::Ubifs, FileSystem::Jffs2];
    let plan = |file_system| {
        let mut plan = plan(file_system, Pattern::Sequential, 64, 0, 1);
        plan.trace = true;
        plan
    };
    let far = machine.board(&allowed(PARTITION));
    for file_system in volumes {
        let [here, there] = [&virtual_board, &far].map(|board| measure(board, &plan(file_system)).outcome);
        let counts = |outcome: &pocketstone_core::outcome::Outcome| outcome.flash.clone().expect("counts").workload;
        assert_eq!(counts(&here), counts(&there), "{file_system:?}");
        assert!(counts(&here).page_senses >= 64, "{:?}", counts(&here));
        assert_eq!(here.chip, there.chip);
    }

    // Meanwhile nobody else sees the mount, and nothing is left when the lab is gone.
    machine.shell("grep -c -e jffs2 -e ubifs /proc/mounts").ends_with(1);
    drop(far);
    until("UBI is detached", || machine.shell("ls -d /sys/class/ubi/ubi*").status != Some(0));

    // A partition that somebody uses is not erased, nor is one that is not named, or that may not be.
    let refusal = |board: &Board| {
        let Err(failed) = board.measure(&plan(FileSystem::Jffs2)) else { panic!("it was erased") };
        failed.error.chain()
    };
    machine.shell("mkdir -p /mnt/own && mount -t jffs2 mtd0 /mnt/own && echo kept > /mnt/own/file").ends_with(0);
    let said = refusal(&machine.board(&allowed(PARTITION)));
    assert!(said.contains("it is mounted at /mnt/own"), "{said}");
    machine.shell("umount /mnt/own && { sleep 1000 < /dev/mtd0 > /dev/null 2>&1 & }").ends_with(0);
    let said = refusal(&machine.board(&allowed(PARTITION)));
    assert!(said.contains("(sleep) has /dev/mtd0 open"), "{said}");
    machine
        .shell("killall sleep; mount -t jffs2 mtd0 /mnt/own && cat /mnt/own/file && umount /mnt/own")
        .says(&["kept"]);
    let said = refusal(&machine.board(&allowed("data")));
    assert!(said.contains(&format!("no MTD device named \"data\"; it has mtd0 {PARTITION:?}")), "{said}");
    for flash in [String::new(), allowed(PARTITION).replace("allowed", "forbidden")] {
        let board = machine.board(&flash);
        let error = board.offers(&plan(FileSystem::Jffs2).volume).expect_err("it would erase it").error;
        assert!(error.cure().is_some_and(|cure| cure.contains("erase = \"allowed\"")), "{}", error.chain());
    }
}
