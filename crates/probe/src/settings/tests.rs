//! Tests of settings.

use super::*;
use pocketstone_testing::wait::until;
use std::time::Instant;

fn tree() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (folder.path().join("a"), folder.path().join("b"));
    fs::write(&a, "1\n").unwrap();
    fs::write(&b, "ondemand\n").unwrap();
    (folder, a, b)
}

/// A program that is these lines. Another process writes it: a child that another test has just started would have the
/// file open for writing as long as this process does, and the kernel runs nothing that is open for that.
fn script(folder: &Path, lines: &str) -> PathBuf {
    let program = folder.join("program");
    let write = "printf '#!/bin/sh\\n%s\\n' \"$2\" > \"$1\" && chmod 755 \"$1\"";
    let written = Command::new("sh").args(["-c", write, "sh"]).arg(&program).arg(lines).status().unwrap();
    assert!(written.success());
    program
}

#[test]
fn dropping_puts_the_first_values_back() {
    let (_folder, a, b) = tree();
    let mut settings = Settings::unguarded();
    assert_eq!(settings.set(&a, "0").unwrap(), "1");
    assert_eq!(settings.set(&a, "5").unwrap(), "0");
    assert_eq!(settings.set(&b, "performance").unwrap(), "ondemand");
    assert_eq!(fs::read_to_string(&a).unwrap(), "5\n");
    drop(settings);
    assert_eq!(fs::read_to_string(&a).unwrap(), "1\n");
    assert_eq!(fs::read_to_string(&b).unwrap(), "ondemand\n");
    let missing = Settings::unguarded().set(Path::new("/nowhere/x"), "1").unwrap_err();
    assert!(missing.chain().contains("/nowhere/x"));
}

#[test]
fn what_commands_set_is_undone_in_the_opposite_order_also_by_what_is_left_of_a_dead_process() {
    let (folder, a, log) = (tempfile::tempdir().unwrap(), "a", "log");
    let at = |name: &str| folder.path().join(name).display().to_string();
    let words = |line: String| ["sh", "-c", &line].map(str::to_owned).to_vec();
    let command = |name: &str| Setting::Command {
        set: words(format!("echo {name} >> {}", at(log))),
        undo: words(format!("echo not {name} >> {}", at(log))),
        read: None,
    };
    fs::write(at(a), "1\n").unwrap();
    let mut settings = Settings::unguarded();
    settings.make(&command("one")).unwrap();
    settings.make(&Setting::File { file: at(a).into(), value: "2".into() }).unwrap();
    settings.make(&command("two")).unwrap();
    let failing =
        Setting::Command { set: words("echo why >&2; exit 3".into()), undo: words("exit 0".into()), read: None };
    let error = settings.make(&failing).unwrap_err();
    assert!(error.chain().contains("3") && error.chain().contains("why"), "{}", error.chain());
    assert_eq!(fs::read_to_string(at(a)).unwrap(), "2\n");
    settings.restore().unwrap();
    assert_eq!(fs::read_to_string(at(log)).unwrap(), "one\ntwo\nnot two\nnot one\n");
    assert_eq!(fs::read_to_string(at(a)).unwrap(), "1\n");

    let left = serde_json::json!({"undo": words(format!("echo left >> {}", at(log)))}).to_string() + "\n";
    fs::write(at("1.journal"), left).unwrap();
    assert_eq!(restore_left(folder.path()).unwrap(), 1);
    assert!(fs::read_to_string(at(log)).unwrap().ends_with("left\n"));
}

#[test]
fn what_a_command_has_set_becomes_what_was_there_before() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let setting = |read: &str| Setting::Command {
        set: words(&["sh", "-c", &format!("echo 7 > {}", at("now"))]),
        undo: words(&["sh", "-c", &format!("printf %s \"$1\" > {}", at("now")), "sh", "{}"]),
        read: Some(words(&["sh", "-c", read])),
    };
    for was in ["3", "it's; $HOME", ""] {
        fs::write(at("now"), was).unwrap();
        let mut settings = Settings::unguarded();
        settings.make(&setting(&format!("cat {}", at("now")))).unwrap();
        assert_eq!(fs::read_to_string(at("now")).unwrap(), "7\n");
        settings.restore().unwrap();
        assert_eq!(fs::read_to_string(at("now")).unwrap(), was);
    }
    // What is not known cannot be put back: nothing is set then.
    let error = Settings::unguarded().make(&setting("echo why >&2; exit 3")).unwrap_err();
    assert!(error.chain().contains("why"), "{}", error.chain());
    assert_eq!(fs::read_to_string(at("now")).unwrap(), "");
}

#[test]
fn what_a_command_leaves_in_the_background_is_not_waited_for() {
    let words = ["sh", "-c", "sleep 30 & echo $! >&2; exit 3"].map(str::to_owned).to_vec();
    let begin = Instant::now();
    let error = run(&words, Some(LIMIT)).unwrap_err();
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
    let left = error.message().rsplit(' ').next().unwrap();
    assert!(Command::new("kill").arg(left).status().unwrap().success(), "{}", error.chain());
}

#[test]
fn a_command_that_does_not_end_is_killed_with_what_it_started() {
    let mut command = Command::new("sh");
    command.args(["-c", "sleep 30 & echo $!; wait"]).stdout(Stdio::piped()).process_group(0);
    let mut child = command.spawn().unwrap();
    assert_eq!(ended_or_killed(&mut child, Duration::from_secs(3)).unwrap(), None);
    // The pipe ends with the last of them.
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.trim().parse::<u32>().is_ok(), "{said}");
    let mut quick = Command::new("false").process_group(0).spawn().unwrap();
    assert_eq!(ended_or_killed(&mut quick, LIMIT).unwrap().and_then(|status| status.code()), Some(1));
}

#[test]
fn a_left_journal_is_carried_out_once_and_not_while_its_owner_lives() {
    let (folder, a, b) = tree();
    let journal = folder.path().join("1.journal");
    let line = |path: &Path, before: &str| {
        serde_json::to_string(&Change::File { path: path.into(), before: before.into() }).unwrap() + "\n"
    };
    fs::write(&a, "7\n").unwrap();
    let gone = line(&folder.path().join("gone"), "1");
    // Twice the same file: the older value counts. The last line is not whole.
    let text = line(&a, "1") + &line(&a, "2") + &gone + line(&b, "powersave").trim_end();
    fs::write(&journal, text).unwrap();
    let owner = File::open(&journal).unwrap();
    lock(&owner, &journal, FlockOperation::NonBlockingLockExclusive).unwrap();
    assert_eq!(restore_left(folder.path()).unwrap(), 0);
    assert_eq!(fs::read_to_string(&a).unwrap(), "7\n");
    drop(owner);
    // A process that another test has just started holds the lock until it runs its program.
    until("the lock is free, and the journal carried out", || match restore_left(folder.path()).unwrap() {
        0 => false,
        restored => {
            assert_eq!(restored, 1);
            true
        }
    });
    assert_eq!(fs::read_to_string(&a).unwrap(), "1\n");
    assert_eq!(fs::read_to_string(&b).unwrap(), "ondemand\n");
    assert!(!journal.exists());
    assert_eq!(restore_left(folder.path()).unwrap(), 0);
    assert_eq!(restore_left(Path::new("/nowhere")).unwrap(), 0);
    fs::write(&journal, "nonsense\n").unwrap();
    assert!(restore_left(folder.path()).unwrap_err().chain().contains("line 1"));
    assert!(journal.exists());
}

#[test]
fn a_program_that_is_no_watchdog_is_refused() {
    let (folder, ..) = tree();
    let error = Settings::guarded(Path::new("/bin/true"), folder.path(), None).unwrap_err();
    assert!(error.message().contains("exited immediately"), "{}", error.chain());
    let error = Settings::guarded(Path::new("/nowhere"), folder.path(), None).unwrap_err();
    assert!(error.message().contains("/nowhere"));
    assert!(watchdog_main(&[]).unwrap_err().cure().is_some());
}

#[test]
fn of_a_list_of_choices_the_one_in_force_is_the_value() {
    assert_eq!(in_force("[none] mq-deadline kyber bfq\n"), "none");
    assert_eq!(in_force("always [madvise] never\n"), "madvise");
    for whole in ["performance", "0 1 2", "[] x", "[a] [b]", "wlan0 [up", ""] {
        assert_eq!(in_force(&format!(" {whole}\n")), whole);
    }
}

/// The kernel takes one of its choices alone, not the line that it shows: what journals of earlier versions hold.
#[test]
fn a_journal_that_holds_a_list_of_choices_puts_back_the_one_that_was_in_force() {
    let (_folder, file, _) = tree();
    let before = "[none] mq-deadline kyber".to_owned();
    put_back(vec![Change::File { path: file.clone(), before }]).unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), "none\n");
}

/// Otherwise no cell would ever be measured there again.
#[test]
fn a_journal_that_cannot_be_carried_out_says_which_one_it_is_and_one_without_an_undo_has_nothing_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, copied) = (folder.path().join("1.journal"), folder.path().join("lab-2.journal"));
    fs::write(&journal, "{\"undo\": []}\n").unwrap();
    assert_eq!(restore_left(folder.path()).unwrap(), 1);
    let wrong = "{\"undo\": [\"/nowhere/undo\"]}\n";
    for path in [&journal, &copied] {
        fs::write(path, wrong).unwrap();
        let error = restore_left(folder.path()).unwrap_err();
        assert!(error.chain().contains(path.to_str().unwrap()), "{}", error.chain());
        // What the hint says is enough, also where a lab has a copy.
        let (_, by_hand) = error.cure().unwrap().split_once("and then: ").unwrap();
        assert!(Command::new("sh").args(["-c", by_hand]).status().unwrap().success());
        assert_eq!(restore_left(folder.path()).unwrap(), 0);
    }
    restore_copy(folder.path(), "lab-2.journal", wrong).unwrap();
    let lost = restore_copy(folder.path(), "lab-3.journal", wrong).unwrap_err();
    assert!(lost.cure().unwrap().contains("lab-3.restored"), "{lost}");
}

/// Otherwise the next cell would be measured with what an earlier one has set.
#[test]
fn what_cannot_be_put_back_is_said_with_where_it_is_noted_and_what_could_not_be_set_has_nothing_to_put_back() {
    let folder = tempfile::tempdir().unwrap();
    // A watchdog that puts nothing back.
    let program = script(folder.path(), "printf 1\ncat >/dev/null");
    let mut settings = Settings::guarded(&program, folder.path(), None).unwrap();
    let words = |word: &str| vec![word.to_owned()];
    settings.make(&Setting::Command { set: words("true"), undo: words("false"), read: None }).unwrap();
    let error = settings.restore().unwrap_err();
    assert!(error.chain().contains("cannot put back") && error.chain().contains("`false` failed"), "{}", error.chain());
    let (_, by_hand) = error.cure().unwrap().split_once("and then: rm ").unwrap();
    assert!(Path::new(by_hand).exists(), "{by_hand}");

    let mut settings = Settings::guarded(&program, folder.path(), None).unwrap();
    let fixed = Path::new("/proc/self/comm");
    let now = fs::read_to_string("/proc/version").unwrap();
    assert!(settings.set(Path::new("/proc/version"), "1").is_err());
    assert!(settings.set(fixed, "a name that is longer than the kernel keeps").is_err());
    settings.restore().unwrap();
    assert_eq!(fs::read_to_string("/proc/version").unwrap(), now);
}
