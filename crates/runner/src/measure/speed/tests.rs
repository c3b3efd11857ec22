use super::*;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// A kernel that writes down what it is asked for, or refuses with an error's number.
#[derive(Clone, Default)]
struct Fake {
    calls: Arc<Mutex<Vec<Option<u32>>>>,
    refuses: Option<i32>,
}

impl Fake {
    fn calls(&self) -> Vec<Option<u32>> {
        self.calls.lock().unwrap().clone()
    }
}

impl SetsClamp for Fake {
    fn set(&mut self, clamp: Option<u32>) -> io::Result<()> {
        self.calls.lock().unwrap().push(clamp);
        self.refuses.map_or(Ok(()), |errno| Err(io::Error::from_raw_os_error(errno)))
    }
}

/// 100 x 1024 / 1.25 / 100 = 819.2, and half of it.
const FULL: Option<u32> = Some(819);
const HALF: Option<u32> = Some(409);

fn starts(following: u32) -> Hint {
    Hint::OperationStarts { following }
}

#[test]
fn a_clamp_is_set_when_an_operation_needs_another_one_and_never_else() {
    let fake = Fake::default();
    let speeds = Speeds::of("database").unwrap().unwrap();
    let mut clamps = Clamps { speeds, set: fake.clone(), last: None };
    let ends = Hint::OperationEnds { transaction_ended: true, next_in_ns: Some(6_000_000) };
    for hint in [starts(0), Hint::Blocks, Hint::Resumes, ends, starts(0), ends, starts(2), ends, starts(1), ends] {
        clamps.hint(hint);
    }
    assert_eq!(fake.calls(), [HALF, FULL]);
    clamps.hint(starts(0));
    assert_eq!(fake.calls(), [HALF, FULL, HALF]);
}

#[test]
fn a_refusal_during_the_run_is_not_asked_for_again_with_every_operation() {
    let fake = Fake { refuses: Some(libc::EPERM), ..Fake::default() };
    let speeds = Speeds { alone: 50, batch: 50 };
    let mut clamps = Clamps { speeds, set: fake.clone(), last: None };
    (0..3).for_each(|n| clamps.hint(starts(n)));
    assert_eq!(fake.calls(), [HALF]);
}

#[test]
fn speeds_are_read_as_a_study_writes_them() {
    let of = |text: &str| Speeds::of(text).map(|s| s.map(|s| (s.alone, s.batch)).map_err(|e| e.chain()));
    assert_eq!(of("database:40"), Some(Ok((40, 100))));
    assert_eq!(of("database:40:60"), Some(Ok((40, 60))));
    // Who waits is never served more slowly.
    assert_eq!(of("database:40:20"), Some(Ok((40, 40))));
    for wrong in ["database:0", "database:101", "database:x", "database:1:2:3", "databases", "database:"] {
        assert_eq!(of(wrong), Some(Err(format!("`{wrong}` is not a governor"))));
    }
    assert_eq!(of("schedutil"), None);
}

fn put(root: &Path, file: &str, text: &str) {
    let path = root.join("sys/devices/system/cpu").join(file);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, format!("{text}\n")).unwrap();
}

fn phone(offers: &str) -> tempfile::TempDir {
    let tree = tempfile::tempdir().unwrap();
    put(tree.path(), "cpu0/online", "1");
    put(tree.path(), "cpufreq/policy0/scaling_governor", "interactive");
    put(tree.path(), "cpufreq/policy0/scaling_available_governors", offers);
    tree
}

fn ask(root: &Path, governor: &str, kernel: &mut Fake, engine: DatabaseEngine) -> (Condition, Option<String>) {
    let mut asked = Conditions { governor: Some(governor.into()), ..Conditions::default() };
    let mut settings = Settings::unguarded();
    let mut said = apply_on(&Machine::at(root), kernel, &mut asked, hints(engine), &mut settings);
    assert_eq!(said.len(), 1);
    (said.remove(0), asked.governor)
}

#[test]
fn with_clamps_and_schedutil_it_is_in_force_and_the_engine_is_told() {
    let (tree, mut fake) = (phone("interactive schedutil"), Fake::default());
    let (said, told) = ask(tree.path(), "database:50", &mut fake, DatabaseEngine::Sqlite);
    assert_eq!((said.asked.as_str(), said.why.as_str()), ("database:50", ""));
    assert_eq!(said.in_force.as_deref(), Some("schedutil with clamps of 409 and 819 of 1024"));
    assert_eq!(told.as_deref(), Some("database:50"));
    // Both are tried and taken away again.
    assert_eq!(fake.calls(), [HALF, FULL, None]);
}

#[test]
fn without_one_of_them_it_is_asked_for_and_not_in_force() {
    let tree = phone("interactive schedutil");
    let mut without = Fake { refuses: Some(libc::EOPNOTSUPP), ..Fake::default() };
    let (said, told) = ask(tree.path(), "database", &mut without, DatabaseEngine::Sqlite);
    assert!(said.why.contains("sched_setattr") && said.why.contains("CONFIG_UCLAMP_TASK"), "{}", said.why);
    // Nothing of it is done in part.
    assert_eq!((said.in_force.as_deref(), told), (Some("interactive"), None));

    let old = phone("interactive ondemand");
    let (said, told) = ask(old.path(), "database", &mut Fake::default(), DatabaseEngine::Sqlite);
    assert!(said.why.contains("no governor `schedutil`"), "{}", said.why);
    assert_eq!((said.asked.as_str(), said.in_force.as_deref(), told), ("database", Some("interactive"), None));

    let mut fake = Fake::default();
    let (said, told) = ask(tree.path(), "database", &mut fake, DatabaseEngine::H2);
    assert!(said.why.contains("Java") && told.is_none() && fake.calls().is_empty(), "{}", said.why);
    let (said, _) = ask(tree.path(), "database:0", &mut fake, DatabaseEngine::Sqlite);
    assert!(said.why.contains("`database:0` is not a governor"), "{}", said.why);
    let (said, _) = ask(tree.path(), "interactive", &mut fake, DatabaseEngine::Sqlite);
    assert_eq!((said.in_force.as_deref(), fake.calls().len()), (Some("interactive"), 0));
}

/// Whatever this machine's kernel answers: the thread has no clamp afterwards, or it never had.
#[test]
fn the_real_call_is_taken_or_refused_with_its_reason() {
    let speeds = Speeds { alone: 100, batch: 100 };
    match offered(&mut Kernel, speeds, Ok(())) {
        Ok(same) => assert_eq!(same, speeds),
        Err(error) => {
            let _ = io::Write::write_all(&mut io::stderr(), format!("{}\n", error.chain()).as_bytes());
            assert!(error.chain().contains("os error") && error.cure().is_some());
        }
    }
}
