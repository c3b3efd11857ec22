//! The commands away from their checkout: installed, as a Debian package, and as a static build; and the names that a
//! shell completes.

use pocketstone_testing::{Need, Skip, or_skip, program, root};
use pocketstone_tests::command::{self, Ran, binary, copy_program, run};
use pocketstone_tests::kubernetes::expanded;
use pocketstone_tests::project;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A prefix with the commands, profiles and studies, and a folder to work in that has none of them.
struct Prefix(tempfile::TempDir);

impl Prefix {
    fn new() -> Self {
        let prefix = Prefix(tempfile::tempdir().expect("a temporary folder"));
        let (bin, share) = (prefix.path("bin"), prefix.path("share/pocketstone"));
        for folder in [&bin, &share, &prefix.path("work"), &prefix.path("home")] {
            fs::create_dir_all(folder).expect("a folder");
        }
        copy_program(binary(), &bin.join("pocketstone"));
        for folder in ["devices", "studies"] {
            run(Command::new("cp").arg("-r").arg(project().join(folder)).arg(&share)).ends_with(0);
        }
        prefix
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs the installed command in the folder for work.
    fn lab(&self, arguments: &[&str]) -> Ran {
        let mut command = Command::new(self.path("bin/pocketstone"));
        command.current_dir(self.path("work")).env("HOME", self.path("home")).env_remove("XDG_CONFIG_HOME");
        run(command.env("POCKETSTONE_CACHE", self.path("cache")).args(arguments))
    }
}

#[test]
fn an_installed_command_reads_what_is_installed_and_not_its_checkout() {
    let prefix = Prefix::new();
    prefix.lab(&["board", "list"]).ends_with(0).says(&["virt-nand", "host"]);
    prefix.lab(&["study", "list"]).ends_with(0).says(&["readahead-quick", "governors"]);
    prefix.lab(&["run", "readahead-quick", "--dry-run"]).ends_with(0).says(&["168 cells on the board virt-nand"]);
    prefix.lab(&["study", "check", "scmfs-quick.toml"]).ends_with(0);
    prefix.lab(&["run", "no-such-study", "--dry-run"]).ends_with(1).complains(&["no-such-study", "readahead-quick"]);
    // What is only in the checkout is not used.
    let runner = prefix.path("lib/pocketstone/pocketstone-runner");
    prefix
        .lab(&["board", "build", "host"])
        .ends_with(4)
        .complains(&[&format!("there is no {}", runner.display()), "hint: install the package again"]);
    fs::remove_dir_all(prefix.path("share/pocketstone/devices")).expect("the folder");
    prefix.lab(&["board", "list"]).ends_with(4).complains(&["there is no folder", "hint: install the package again"]);
}

/// What bash offers after `words`, of which the last one is being written.
fn bash_offers(prefix: &Prefix, words: &[&str]) -> Vec<String> {
    let script = r#"
        set -u
        eval "$(pocketstone completions bash)"
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_TYPE=9 COMPREPLY=()
        function=$(complete -p pocketstone | sed 's/.*-F \([^ ]*\).*/\1/')
        "$function" pocketstone "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}" 2>/dev/null
        printf '%s\n' "${COMPREPLY[@]-}"
    "#;
    let path = format!("{}:{}", prefix.path("bin").display(), std::env::var("PATH").unwrap_or_default());
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", script, "bash", "pocketstone"]).args(words).env("PATH", path);
    bash.env("HOME", prefix.path("home")).env_remove("XDG_CONFIG_HOME").current_dir(prefix.path("work"));
    let ran = run(&mut bash).ends_with(0);
    let mut offers: Vec<String> = ran.out.lines().map(|line| line.trim().to_owned()).collect();
    offers.retain(|offer| !offer.is_empty());
    offers.sort();
    offers
}

#[test]
fn bash_completes_boards_devices_and_studies_that_there_are_now() {
    or_skip!(program("bash", "bash"));
    let prefix = Prefix::new();
    assert_eq!(bash_offers(&prefix, &["board", "exp"]), ["export"]);
    let boards = [
        "virt-emmc",
        "virt-emmc-arm64",
        "virt-emmc-small",
        "virt-emmc-small-4k",
        "virt-nand",
        "virt-nand-small",
        "virt-sd",
        "virt-sd-ftl",
        "virt-ufs",
    ];
    assert_eq!(bash_offers(&prefix, &["board", "export", "virt"]), boards);
    assert_eq!(bash_offers(&prefix, &["run", "readahead-q"]), ["readahead-quick"]);
    assert_eq!(bash_offers(&prefix, &["advise", "governor", "run", "--device", "nexus"]), ["nexus-5", "nexus-6"]);
    let all = [&["host"][..], &boards].concat();
    assert_eq!(bash_offers(&prefix, &["run", "governors", "--board", ""]), all);
    assert_eq!(bash_offers(&prefix, &["study", "new", "s.toml", "--workload", "postm"]), ["postmark"]);
    assert_eq!(bash_offers(&prefix, &["study", "new", "s.toml", "--file-systems", "jffs2,ubif"]), ["jffs2,ubifs"]);
    assert_eq!(bash_offers(&prefix, &["run", "--set", "file_sy"]), ["file_system="]);
    assert_eq!(bash_offers(&prefix, &["history", "--metric", "page_pro"]), ["page_programs"]);
    for words in [&["tlb"][..], &["advise", "huge-pages"]] {
        let asked = [words, &["--processor", "cortex-a1"]].concat();
        assert_eq!(bash_offers(&prefix, &asked), ["cortex-a15"]);
    }
    // A board of the user's, and a study in this folder, from now on.
    let own = prefix.path("home/.config/pocketstone/boards");
    fs::create_dir_all(&own).expect("a folder");
    fs::write(own.join("bench-7.toml"), "kind = \"ssh\"\ndescription = \"by ssh\"\nhost = \"bench\"\n")
        .expect("a file");
    fs::write(prefix.path("work/readahead-mine.toml"), "").expect("a file");
    assert_eq!(bash_offers(&prefix, &["run", "s", "--board", "be"]), ["bench-7"]);
    let studies = ["readahead", "readahead-calls", "readahead-mine.toml", "readahead-quick"];
    assert_eq!(bash_offers(&prefix, &["study", "check", "readah"]), studies);
}

#[test]
fn zsh_and_fish_complete_the_same_names() {
    let prefix = Prefix::new();
    let path = format!("{}:{}", prefix.path("bin").display(), std::env::var("PATH").unwrap_or_default());
    or_skip!(program("fish", "fish"));
    let script = "pocketstone completions fish | source; complete -C 'pocketstone board shell virt'";
    let mut fish = Command::new("fish");
    fish.args(["--no-config", "-c", script]).env("PATH", &path).env("HOME", prefix.path("home"));
    run(fish.current_dir(prefix.path("work"))).ends_with(0).says(&["virt-nand\t"]);
    or_skip!(program("zsh", "zsh"));
    // Its widgets need a terminal: the script is read by zsh, and asked what it would offer.
    let script = r#"autoload -U compinit && compinit -u -D && eval "$(pocketstone completions zsh)"
        compadd() { print -l -- "$@"; }; _describe() { shift 2; print -l -- ${(P)1}; }
        words=(pocketstone board shell virt) CURRENT=4; _clap_dynamic_completer_pocketstone"#;
    let mut zsh = Command::new("zsh");
    zsh.args(["-f", "-c", script]).env("PATH", &path).env("HOME", prefix.path("home"));
    run(zsh.current_dir(prefix.path("work"))).says(&["virt-nand"]);
}

/// The targets of a page's links to other files.
fn links(page: &str) -> Vec<String> {
    let targets = page.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let files = targets.filter(|target| !target.contains("://") && !target.starts_with('#') && !target.contains(' '));
    files.filter_map(|target| target.split('#').next().map(str::to_owned)).collect()
}

/// Every page below a folder.
fn pages(folder: &Path) -> Vec<PathBuf> {
    let found = run(Command::new("find").arg(folder).args(["-name", "*.md"])).ends_with(0);
    found.out.lines().map(PathBuf::from).collect()
}

#[test]
fn what_installed_pages_link_to_is_installed_and_so_are_all_licences() {
    let prefix = Prefix::new();
    run(Command::new(project().join("scripts/lay-out-documents")).arg(prefix.0.path())).ends_with(0);
    let doc = prefix.path("share/doc/pocketstone");
    let pages = pages(&doc);
    assert!(pages.len() > 30, "{pages:?}");
    let mut dead = Vec::new();
    for page in &pages {
        let text = fs::read_to_string(page).expect("a page");
        let folder = page.parent().expect("a folder");
        dead.extend(links(&text).into_iter().filter(|to| !folder.join(to).exists()).map(|to| (page.clone(), to)));
    }
    assert!(dead.is_empty(), "{dead:?}");
    let guide = fs::read_to_string(doc.join("docs/guide.md")).expect("the guide");
    let commands: Vec<&str> = guide.lines().filter(|line| line.starts_with("target/")).collect();
    assert!(commands.is_empty(), "not where they are installed: {commands:?}");
    for name in ["LICENSE-MIT", "LICENSE-APACHE", "CHANGELOG.md", "copyright", "examples/app.db", "studies/scmfs.toml"]
    {
        assert!(doc.join(name).is_file(), "{name}");
    }
    assert!(prefix.path("include/scmfs.h").is_file());
    let notices = fs::read_to_string(doc.join("THIRD-PARTY")).expect("the licences of others");
    for part in ["SQLite", "\nrusqlite 0.", "\nserde 1.", "The OpenLDAP Public License", "Apache License"] {
        assert!(notices.contains(part), "{part}");
    }
}

/// A fresh Debian with the package in it.
struct Debian {
    root: PathBuf,
    _folder: tempfile::TempDir,
}

impl Debian {
    /// # Errors
    /// A counted [`Skip`] where this is not root, a program is missing that makes packages or systems, or no system can
    /// be made, for example without a network.
    fn with_package() -> Result<Self, Skip> {
        root()?;
        for (name, package) in [("mmdebstrap", "mmdebstrap"), ("unshare", "util-linux"), ("dpkg-shlibdeps", "dpkg-dev")]
        {
            program(name, package)?;
        }
        let folder = tempfile::tempdir_in("/var/tmp").expect("a temporary folder");
        let root = folder.path().join("root");
        // What mmdebstrap calls in the root may need to read it, whoever made the folder.
        run(Command::new("chmod").arg("755").arg(folder.path())).ends_with(0);
        let built = binary();
        let mut make = Command::new(project().join("scripts/deb"));
        let made = run(make.arg(folder.path()).arg(built.parent().expect("a folder"))).ends_with(0);
        let package = PathBuf::from(made.out.lines().last().expect("the package's path"));
        let mut debootstrap = Command::new("mmdebstrap");
        debootstrap.args(["--quiet", "--mode=root", "--variant=apt", "bookworm"]).arg(&root);
        if run(&mut debootstrap).status != Some(0) {
            return Err(Need::Programs.lacks("mmdebstrap makes no Debian here (is there network?)"));
        }
        run(Command::new("cp").arg(&package).arg(root.join("package.deb"))).ends_with(0);
        let debian = Debian { root, _folder: folder };
        let install = "apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y \
            --no-install-recommends /package.deb qemu-system-arm squashfs-tools >/dev/null";
        debian.run(true, install).ends_with(0);
        Ok(debian)
    }

    /// Runs a shell's command in it, as root, with the machine's network or with none.
    fn run(&self, network: bool, command: &str) -> Ran {
        let inside = r#"
            mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && mount --rbind /sys "$0/sys" &&
            { [ -z "$2" ] || cp -L /etc/resolv.conf "$0/etc/resolv.conf"; } &&
            exec env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$0" sh -c "cd /root && $1""#;
        let mut unshare = Command::new("unshare");
        unshare.args(["--mount", "--pid", "--fork"]).args((!network).then_some("--net"));
        run(unshare.args(["sh", "-c", inside]).arg(&self.root).args([command, if network { "yes" } else { "" }]))
    }
}

/// What each cell of a run logged, call by call and flash operation by flash operation: SHA-256.
fn digests(results: &Path) -> Vec<(String, String)> {
    let store = rusqlite::Connection::open(results.join("results.sqlite")).expect("the results");
    let query = "SELECT experiment || point || seed || traced, digest FROM cell ORDER BY 1";
    let mut statement = store.prepare(query).expect("the cells");
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).expect("the cells");
    rows.map(|row| row.expect("a cell with a digest")).collect()
}

#[test]
#[ignore = "takes minutes: make torture"]
fn the_quick_study_runs_from_the_package_in_a_fresh_debian_also_without_a_network() {
    let debian = or_skip!(Debian::with_package());
    debian.run(true, "pocketstone run readahead-quick --board virt-nand --output first").ends_with(0);
    debian.run(true, "pocketstone board export virt-nand board.tar.gz").ends_with(0).says(&["saved state"]);

    // Another machine of that kind: nothing of the board, and no network.
    fs::remove_dir_all(debian.root.join("root/.cache")).expect("the cache");
    let without = debian.run(false, "pocketstone board build virt-nand").ends_with(4);
    without.complains(&["is the network up?"]);
    let imported = debian.run(false, "pocketstone board import board.tar.gz").ends_with(0);
    assert_eq!(imported.err, "", "the states fit");
    let begin = fs::read_dir(debian.root.join("root/.cache/pocketstone/states")).expect("the states").count();
    debian.run(false, "pocketstone run readahead-quick --board virt-nand --output second").ends_with(0);
    let end = fs::read_dir(debian.root.join("root/.cache/pocketstone/states")).expect("the states").count();
    assert_eq!(begin, end, "no state was made again");

    let [first, second] = ["first", "second"].map(|name| digests(&debian.root.join("root").join(name)));
    assert_eq!(first.len(), 104);
    assert_eq!(first, second);
}

#[test]
#[ignore = "takes minutes: make torture"]
fn the_package_has_a_runner_for_each_processor_and_pleases_lintian() {
    or_skip!(program("lintian", "lintian"));
    or_skip!(program("dpkg-shlibdeps", "dpkg-dev"));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let built = binary();
    let mut make = Command::new(project().join("scripts/deb"));
    let made = run(make.arg(folder.path()).arg(built.parent().expect("a folder"))).ends_with(0);
    let package = made.out.lines().last().expect("the package's path").to_owned();
    run(Command::new("dpkg-deb").arg("-x").arg(&package).arg(folder.path())).ends_with(0);
    // Each runner is for its own processor: `e_machine` of an ELF file, as elf(5) numbers them.
    let runners = folder.path().join("usr/lib/pocketstone/runners");
    for (triple, machine) in [
        ("armv7-unknown-linux-gnueabihf", 40),
        ("x86_64-unknown-linux-gnu", 62),
        ("aarch64-unknown-linux-gnu", 183),
        ("riscv64gc-unknown-linux-gnu", 243),
    ] {
        let Ok(runner) = fs::read(runners.join(triple)) else {
            assert!(made.err.contains("left out: the runner for"), "{triple}: {made}");
            continue;
        };
        assert_eq!(u16::from_le_bytes([runner[18], runner[19]]), machine, "{triple}");
    }
    let library = folder.path().join("usr/lib/scmfs/libscmfs.so");
    assert_eq!(library.exists(), built.with_file_name("libscmfs.so").exists(), "{}", library.display());
    for study in ["androsh.toml", "androsh/androsh.sh"] {
        assert!(folder.path().join("usr/share/pocketstone/studies").join(study).is_file(), "{study}");
    }
    let said = run(Command::new("lintian").args(["--allow-root", "--fail-on=error,warning"]).arg(&package));
    said.ends_with(0);
}

/// A study of this machine that takes a second.
const SMALL: &str = r#"title = "A small file"
board = "host"
seed = 1

[[experiment]]
name = "small"
[experiment.factors]
file_system = "directory"
file_bytes = "1MiB"
requests = 8
read_ahead_by = "file"
"#;

/// Does what a recipe says in a folder, as a runner would: the file, the job's key, and the commit before the change.
const RUN_RECIPE: &str = r#"
import os, re, subprocess, sys, yaml
text = open('/ci.md').read()
base = subprocess.run(['git', 'rev-parse', 'HEAD~1'], capture_output=True, text=True).stdout.strip()
blocks = [yaml.safe_load(block) for block in re.findall(r'```yaml\n(.*?)```', text, re.S)]
if sys.argv[1] == 'github':
    steps = blocks[0]['jobs']['regression']['steps']
    commands = [step['run'] for step in steps if 'run' in step]
else:
    job = blocks[1]['storage']
    commands = job['before_script'] + job['script']
    os.environ.update({k: v.replace('$CI_PROJECT_DIR', os.getcwd()) for k, v in job['variables'].items()})
for command in commands:
    command = command.replace('${{ github.event.pull_request.base.sha }}', base)
    status = subprocess.run(['bash', '-e', '-c', command]).returncode
    print('step:', command.splitlines()[0], '->', status, flush=True)
    if status: sys.exit(status)
"#;

/// A project whose last change makes its program write one page more in a hundred.
const PROJECT: &str = r#"
    set -e
    apt-get install -qq -y --no-install-recommends git python3-yaml >/dev/null
    mkdir -p project/tools && cd project && git init -q && cp /package.deb tools/pocketstone.deb
    git config --global user.email a@b.c && git config --global user.name a
    printf 'app-arm:\n\tarm-linux-gnueabihf-gcc -O1 -static -o app app.c\n' >Makefile
    printf 'app\nbefore\nafter\nresults\n.cache\n' >.gitignore
    cat >study.toml <<END
title = "The program"
board = "virt-nand"
repetitions = 1
[[experiment]]
name = "app"
[experiment.factors]
workload = "command"
command = "./app"
command_files = "app"
file_system = "jffs2"
[[claim]]
name = "writes"
text = "It writes"
value = "SELECT min(median) FROM summary WHERE metric = 'page_programs'"
unit = "number"
at_least = 100
END
    program() {
        cat >app.c <<END
#include <fcntl.h>
#include <unistd.h>
static char page[4096];
int main(void) {
    int data = open("data", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    for (int n = 0; n < $1; n++) {
        page[n] = n;
        if (write(data, page, 4096) != 4096 || fsync(data)) return 1;
    }
    return 0;
}
END
        git add -A && git commit -qm "$1 pages"
    }
    program 200
    program 202
"#;

#[test]
#[ignore = "takes minutes: make torture"]
fn the_recipes_for_ci_do_what_they_say_in_a_fresh_debian() {
    let debian = or_skip!(Debian::with_package());
    fs::copy(project().join("docs/ci.md"), debian.root.join("ci.md")).expect("the page");
    fs::write(debian.root.join("recipe.py"), RUN_RECIPE).expect("a file");
    fs::write(debian.root.join("project.sh"), PROJECT).expect("a file");
    debian.run(true, "sh /project.sh").ends_with(0);
    let github = "cd project && GITHUB_STEP_SUMMARY=/root/summary python3 /recipe.py github";
    let failed = debian.run(true, github);
    // One page more in a hundred is told, in the job's summary.
    failed.ends_with(3).says(&["step: pocketstone compare before after --max-regression 0.5"]);
    let summary = fs::read_to_string(debian.root.join("root/summary")).expect("a summary");
    assert!(summary.contains("**Failed**") && summary.contains("total_ns"), "{summary}");

    // What is as it was passes.
    let same = "cd project && git checkout -q master 2>/dev/null; git checkout -q HEAD~1 && make -s app-arm && \
                pocketstone run study.toml --output baseline && rm -rf after && python3 /recipe.py gitlab";
    debian.run(true, same).ends_with(0).says(&["step: pocketstone compare baseline after --max-regression 0.5 -> 0"]);
    let claims = fs::read_to_string(debian.root.join("root/project/claims.xml")).expect("the claims");
    assert!(claims.contains("failures=\"0\"") && claims.contains("writes: It writes"), "{claims}");
}

#[test]
#[ignore = "takes minutes: make torture"]
fn a_container_of_the_static_build_measures_this_machine_and_runs_a_jobs_shard() {
    or_skip!(root());
    or_skip!(program("buildah", "buildah"));
    or_skip!(program("readelf", "binutils"));
    let folder = tempfile::tempdir_in("/var/tmp").expect("a temporary folder");
    let profile = if binary().parent().is_some_and(|built| built.ends_with("debug")) { "dev" } else { "release" };
    run(Command::new(project().join("scripts/static")).arg(folder.path()).arg(profile)).ends_with(0);
    let work = folder.path().join("work");
    fs::create_dir(&work).expect("a folder");
    fs::write(work.join("small.toml"), SMALL).expect("a study");
    // Kept apart from the images of this machine's user.
    let buildah = |arguments: &[&str]| {
        let mut command = Command::new("buildah");
        command.arg("--root").arg(folder.path().join("images")).arg("--runroot").arg(folder.path().join("state"));
        run(command.args(["--storage-driver", "vfs"]).args(arguments)).ends_with(0)
    };
    let file = project().join("packaging/Containerfile").to_string_lossy().into_owned();
    let context = folder.path().join("static").to_string_lossy().into_owned();
    buildah(&["build", "--isolation", "chroot", "-t", "pocketstone-test", "-f", &file, &context]);
    let container = buildah(&["from", "--pull-never", "pocketstone-test"]).out.trim().to_owned();
    let volume = format!("{}:/work", work.display());
    let lab = |words: &[&str]| {
        let before = ["run", "--isolation", "chroot", "-v", &volume, &container, "--"];
        buildah(&[&before, words].concat())
    };
    lab(&["/bin/pocketstone", "study", "list"]).says(&["readahead-quick"]);
    lab(&["/bin/yaffs2", "--version"]).says(&["yaffs2"]);
    lab(&["/bin/pocketstone", "run", "small.toml", "--output", "results"]);
    assert!(work.join("results/report.html").is_file());
    let shell = folder.path().join("static/bin/sh").exists();
    let lacks = || Need::Programs.lacks("there is no static busybox: scripts/static with a network");
    or_skip!(shell.then_some(()).ok_or_else(lacks));
    // The command of a Job, as the second of its pods gets it.
    let words = "cluster kubernetes work/small.toml --board host --shards 2 --image i --claim c";
    let job = command::lab(folder.path(), &words.split(' ').collect::<Vec<_>>());
    let job: serde_json::Value = serde_json::from_str(&job.ends_with(0).out).expect("a Job");
    let command: Vec<String> = job["spec"]["template"]["spec"]["containers"][0]["command"]
        .as_array()
        .expect("its command")
        .iter()
        .map(|word| expanded(word.as_str().expect("a word")))
        .collect();
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    let shared = format!("{}:/shared", work.display());
    let pod = ["run", "--isolation", "chroot", "-v", &shared, "-e", "JOB_COMPLETION_INDEX=1", &container, "--"];
    buildah(&[&pod, &command[..]].concat());
    let place = command[2].lines().find_map(|line| line.strip_prefix("shards=/shared/")).expect("a folder");
    assert!(work.join(place).join("2/results.sqlite").is_file());
    buildah(&["rm", &container]);
    buildah(&["rmi", "pocketstone-test"]);
}
