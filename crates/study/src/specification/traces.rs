//! Prepared workloads: made once, kept by their digest, with what they must return.

use crate::specification::archive;
use pocketstone_board::{Measured, archive_file, trace_file};
use pocketstone_core::database::{DatabaseEngine, DatabaseSpec, DatabaseWorkload, Recipe};
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use pocketstone_workload::Workload;
use pocketstone_workload::calls::{self, KeptCalls, Selection};
use pocketstone_workload::database::{Prepares, Trace, check, from_file, prepare};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// Makes and keeps the prepared workloads of a study.
#[derive(Debug)]
pub struct Traces {
    /// Where they are kept: a file DIGEST.trace for each. `None`: recipes are checked, and nothing is made.
    folder: Option<PathBuf>,
    /// Paths in a study count from here.
    base: PathBuf,
    /// Digests of the whole and of its loading steps, by recipe and seed.
    made: BTreeMap<(String, u64), (String, String)>,
    /// Digests of archives, by the folder or file that was packed.
    packed: BTreeMap<PathBuf, String>,
    /// Recorded calls, by their file and what of it is replayed.
    recorded: BTreeMap<(PathBuf, Selection), KeptCalls>,
    /// What a workload must return, by its digest.
    expected: Mutex<BTreeMap<String, Option<String>>>,
}

impl Traces {
    /// Keeps workloads in `folder`; paths in recipes count from `base`, the study's folder.
    pub fn new(folder: &Path, base: &Path) -> Self {
        Traces { folder: Some(folder.to_owned()), ..Self::checked(base) }
    }

    /// Checks recipes, and files named in them, and makes nothing: for cells that are counted or listed. Digests are
    /// empty texts.
    pub fn checked(base: &Path) -> Self {
        let (made, packed, recorded) = Default::default();
        Traces { folder: None, base: base.to_owned(), made, packed, recorded, expected: Mutex::default() }
    }

    fn folder(&self) -> Result<&Path> {
        self.folder.as_deref().ok_or_else(|| Error::bug("workloads that are only checked are not stored"))
    }

    /// Refuses what [`Traces::digests`] would; a file is read once.
    fn check_recipe(&mut self, recipe: &Recipe, seed: u64) -> Result<()> {
        let Some(file) = recipe.file.as_ref().filter(|_| recipe.workload == DatabaseWorkload::File) else {
            return match recipe.workload {
                DatabaseWorkload::File => self.make(recipe, seed).map(|_| ()),
                _ => check(recipe),
            };
        };
        let key = (file.to_string_lossy().into_owned(), 0);
        if !self.made.contains_key(&key) {
            self.make(recipe, seed)?;
            self.made.insert(key, Default::default());
        }
        Ok(())
    }

    /// Refuses a workload that an engine cannot run: one of a file, or one whose conditions are SQL's. All others run
    /// on every engine.
    ///
    /// # Errors
    /// `ErrorKind::User`, which says what of the workload it is, or if the file cannot be read.
    pub fn runs(&self, engine: DatabaseEngine, recipe: &Recipe) -> Result<()> {
        match recipe.workload {
            DatabaseWorkload::File => pocketstone_engine::database::runs(engine, &self.make(recipe, 0)?),
            DatabaseWorkload::PocketdataIa | DatabaseWorkload::PocketdataIb | DatabaseWorkload::PocketdataIc => {
                // Its first operations have all of its kinds.
                let few = Recipe { records: 1, operations: 100, ..recipe.clone() };
                pocketstone_engine::database::runs(engine, &prepare(&few, 0)?)
            }
            _ => Ok(()),
        }
    }

    fn put(&self, trace: &Trace) -> Result<String> {
        let file = trace.encode();
        self.put_file(&file, Trace::digest(&file))
    }

    /// Keeps a prepared workload's file under its digest.
    fn put_file(&self, file: &[u8], digest: String) -> Result<String> {
        let folder = self.folder()?;
        let path = trace_file(folder, &digest);
        // One that a power cut has emptied, or a full disk cut short, has the same name.
        if !fs::read(&path).is_ok_and(|there| there == file) {
            fs::create_dir_all(folder).board(|| format!("cannot create {}", folder.display()))?;
            let temporary = folder.join(format!("{digest}.{}", std::process::id()));
            fs::write(&temporary, file).board(|| format!("cannot write {}", temporary.display()))?;
            put_in_place(&temporary, &path).board(|| format!("cannot store {}", path.display()))?;
        }
        Ok(digest)
    }

    /// Copies what workloads were prepared as into a run's folder, each once: `workloads/DIGEST.trace` or
    /// `workloads/DIGEST.tar`.
    ///
    /// # Errors
    /// `ErrorKind::User` if it cannot be written.
    pub fn keep<'a>(&self, workloads: impl Iterator<Item = &'a Workload>, run: &Path) -> Result<()> {
        let mut kept = BTreeSet::new();
        for workload in workloads {
            let prepared = workload.trace().map(|trace| (trace, trace_file as fn(&Path, &str) -> PathBuf));
            let files = || Some((workload.command()?.files.as_deref()?, archive_file as fn(&Path, &str) -> PathBuf));
            let Some((digest, file)) = prepared.or_else(files) else { continue };
            if kept.insert(digest) {
                keep_file(&file(self.folder()?, digest), &file(&run.join("workloads"), digest))?;
            }
        }
        Ok(())
    }

    /// Checks what an engine returned against what SQLite returns for the same workload in memory.
    ///
    /// # Errors
    /// `ErrorKind::Board` if the results differ.
    pub fn check(&self, spec: &DatabaseSpec, measured: Measured) -> Result<Measured> {
        let found = measured.outcome.database.as_ref().and_then(|d| d.digest.clone());
        let (Some(found), false) = (found, spec.engine == DatabaseEngine::Null) else { return Ok(measured) };
        match self.expected(&spec.trace)? {
            Some(expected) if expected != found => Err(Error::board(format!(
                "{} returned wrong results: their digest is {found}, in-memory SQLite's is {expected}",
                spec.engine.name()
            ))
            .hint("the trial does not count; check the engine's version and configuration")),
            _ => Ok(measured),
        }
    }

    /// The digest of what a workload must return; `None` where it is not the same each time.
    fn expected(&self, digest: &str) -> Result<Option<String>> {
        let mut known = self.expected.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(expected) = known.get(digest) {
            return Ok(expected.clone());
        }
        let path = trace_file(self.folder()?, digest);
        let file = fs::read(&path).board(|| format!("cannot read {}", path.display()))?;
        let trace = Arc::new(Trace::decode(&file)?);
        let run = || pocketstone_engine::database::reference(&trace);
        let (first, second) = (run()?, run()?);
        let expected = (first == second).then_some(first);
        known.insert(digest.to_owned(), expected.clone());
        Ok(expected)
    }

    fn make(&self, recipe: &Recipe, seed: u64) -> Result<Trace> {
        match (recipe.workload, &recipe.file) {
            (DatabaseWorkload::File, Some(file)) => {
                let path = self.base.join(file);
                let bytes = read(&path, "the workload", "workload_file is relative to the study's folder")?;
                from_file(&bytes, &path.display().to_string(), recipe.delay, seed)
            }
            (DatabaseWorkload::File, None) => Err(Error::user("workload = \"prepared\" requires a workload_file")
                .hint("create one with `pocketstone import`, or specify a published JSON file")),
            _ => prepare(recipe, seed),
        }
    }
}

/// Reads a file that a study names.
fn read(path: &Path, what: &str, hint: &str) -> Result<Vec<u8>> {
    let failed = || format!("cannot read {what} {}", path.display());
    let facts = fs::metadata(path).user(failed).map_err(|e| e.hint(hint))?;
    if facts.is_dir() || facts.is_file() {
        return fs::read(path).user(failed).map_err(|e| e.hint(hint));
    }
    // It is read again by whoever goes on with the run or repeats it, and what has been read of a pipe is gone.
    Err(Error::user(failed()).because(Error::user("it is no regular file")).hint("save what it gives in a file first"))
}

/// Makes a whole file what a name stands for, once it would outlive a power cut.
fn put_in_place(temporary: &Path, path: &Path) -> io::Result<()> {
    File::open(temporary)?.sync_all()?;
    fs::rename(temporary, path)
}

/// Copies a file, unless the copy is there.
fn keep_file(from: &Path, to: &Path) -> Result<()> {
    if same(from, to).unwrap_or(false) {
        return Ok(());
    }
    let folder = to.parent().unwrap_or(to);
    fs::create_dir_all(folder).user(|| format!("cannot create {}", folder.display()))?;
    let temporary = to.with_extension("new");
    let copied = fs::copy(from, &temporary).and_then(|_| put_in_place(&temporary, to));
    copied.user(|| format!("cannot copy a prepared workload to {}", to.display()))
}

/// Whether two files hold the same. Archives may be larger than memory.
fn same(a: &Path, b: &Path) -> io::Result<bool> {
    let (a, b) = (File::open(a)?, File::open(b)?);
    if a.metadata()?.len() != b.metadata()?.len() {
        return Ok(false);
    }
    let (mut a, mut b) = (BufReader::new(a), BufReader::new(b));
    loop {
        let (of_a, of_b) = (a.fill_buf()?, b.fill_buf()?);
        let length = of_a.len().min(of_b.len());
        if of_a[..length] != of_b[..length] || length == 0 {
            return Ok(length == 0);
        }
        a.consume(length);
        b.consume(length);
    }
}

/// Whether a file of a run's `workloads` is a kept workload by its name.
pub fn is_kept(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "trace" || extension == "tar")
}

/// Whether a kept workload is what its name says: a prepared one ends in its digest, of all others it is the digest of
/// all bytes.
pub fn intact(path: &Path) -> bool {
    let named = |digest: &str| path.file_stem().is_some_and(|stem| stem == digest);
    let whole = pocketstone_board::digest_of_file(path).is_ok_and(|digest| named(&digest));
    let prepared = |file: Vec<u8>| named(&Trace::digest(&file)) && Trace::decode(&file).is_ok();
    whole || path.extension().is_some_and(|e| e == "trace") && fs::read(path).is_ok_and(prepared)
}

impl Prepares for Traces {
    fn digests(&mut self, recipe: &Recipe, seed: u64) -> Result<(String, String)> {
        if self.folder.is_none() {
            return self.check_recipe(recipe, seed).map(|()| Default::default());
        }
        let text = serde_json::to_string(recipe).map_err(|e| Error::bug("a recipe is not valid JSON").because(e))?;
        let key = (text, seed);
        if let Some(digests) = self.made.get(&key) {
            return Ok(digests.clone());
        }
        let whole = self.make(recipe, seed)?;
        let digests = (self.put(&whole)?, self.put(&whole.loading_only()?)?);
        self.made.insert(key, digests.clone());
        Ok(digests)
    }

    fn files(&mut self, path: &str) -> Result<String> {
        let path = self.base.join(path);
        let Some(folder) = &self.folder else { return archive::check(&path).map(|()| String::new()) };
        if let Some(digest) = self.packed.get(&path) {
            return Ok(digest.clone());
        }
        let digest = archive::pack(&path, folder)?;
        self.packed.insert(path, digest.clone());
        Ok(digest)
    }

    fn text(&mut self, path: &str) -> Result<String> {
        let (path, hint) =
            (self.base.join(path), "paths in a study are relative to the study's folder, and name texts");
        let text = String::from_utf8(read(&path, "the text", hint)?);
        text.user(|| format!("{} is no text", path.display())).map_err(|e| e.hint(hint))
    }

    fn calls(&mut self, path: &str, selection: &Selection) -> Result<KeptCalls> {
        let key = (self.base.join(path), selection.clone());
        if let Some(kept) = self.recorded.get(&key) {
            return Ok(kept.clone());
        }
        let path = &key.0;
        let file = read(path, "the recorded calls", "calls_file is relative to the study's folder")?;
        let calls = Arc::new(calls::read(&file, &path.display().to_string(), selection)?);
        let digest = match &self.folder {
            Some(_) => {
                let text = calls::text::encode(&calls);
                self.put_file(text.as_bytes(), calls::text::digest(&text))?
            }
            None => String::new(),
        };
        let kept = KeptCalls { digest, calls };
        self.recorded.insert(key, kept.clone());
        Ok(kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::nothing;
    use pocketstone_core::database::*;
    use pocketstone_core::outcome::Outcome;
    use pocketstone_core::pattern::Pattern;

    fn recipe(workload: DatabaseWorkload) -> Recipe {
        Recipe {
            records: 5,
            operations: 4,
            fields: 2,
            field_bytes: 3,
            scan_records: 2,
            delay: Some(Delay::None),
            ..Recipe::new(workload)
        }
    }

    fn spec(trace: &str, engine: DatabaseEngine) -> DatabaseSpec {
        let spec = DatabaseSpec::new(recipe(DatabaseWorkload::YcsbA), engine);
        DatabaseSpec { trace: trace.to_owned(), ..spec }
    }

    fn measured(digest: Option<&str>) -> Measured {
        let database = DatabaseOutcome {
            digest: digest.map(str::to_owned),
            engine: "an engine".into(),
            startup_ns: None,
            process_ns: None,
            pid: 1,
            threads: vec![1],
            rows: 0,
            usage: Usage::default(),
            conditions: Vec::new(),
        };
        let outcome = Outcome { database: Some(database), ..nothing(0, 0) };
        Measured::of(outcome)
    }

    #[test]
    fn an_engine_that_lies_fails_its_trial() {
        let folder = tempfile::tempdir().unwrap();
        let mut traces = Traces::new(folder.path(), Path::new("."));
        let (trace, loading) = traces.digests(&recipe(DatabaseWorkload::YcsbA), 1).unwrap();
        assert!(trace_file(folder.path(), &trace).exists() && trace_file(folder.path(), &loading).exists());
        let lmdb = spec(&trace, DatabaseEngine::Lmdb);
        let error = traces.check(&lmdb, measured(Some("0123456789abcdef"))).unwrap_err();
        assert!(error.message().contains("lmdb") && error.message().contains("0123456789abcdef"));
        let truth = traces.expected(&trace).unwrap().unwrap();
        traces.check(&lmdb, measured(Some(&truth))).unwrap();
        // Threads have no digest, and who does nothing returns nothing.
        traces.check(&lmdb, measured(None)).unwrap();
        traces.check(&spec(&trace, DatabaseEngine::Null), measured(Some("0"))).unwrap();
    }

    #[test]
    fn what_was_kept_and_is_damaged_is_written_again() {
        let home = tempfile::tempdir().unwrap();
        let (cache, run) = (home.path().join("cache"), home.path().join("run"));
        let made = || Traces::new(&cache, Path::new(".")).digests(&recipe(DatabaseWorkload::YcsbA), 1).unwrap().0;
        let digest = made();
        let file = trace_file(&cache, &digest);
        let whole = fs::read(&file).unwrap();
        assert!(intact(&file));
        let spec = spec(&digest, DatabaseEngine::Lmdb);
        let workload = Workload::Database(Box::new(spec));
        let keep = || Traces::new(&cache, Path::new(".")).keep([&workload, &workload].into_iter(), &run).unwrap();
        keep();
        let copy = trace_file(&run.join("workloads"), &digest);
        // Cut short, emptied, and of the same length.
        let mut other = whole.clone();
        other[whole.len() / 2] ^= 1;
        for damaged in [&whole[..20], &[], &other] {
            for path in [&file, &copy] {
                fs::write(path, damaged).unwrap();
                assert!(!intact(path));
            }
            assert_eq!(made(), digest);
            assert!(fs::read(&file).unwrap() == whole);
            keep();
            assert!(fs::read(&copy).unwrap() == whole);
        }
    }

    /// Whoever opened it would wait for somebody who writes.
    #[test]
    fn what_can_be_read_once_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let mut traces = Traces::checked(folder.path());
        let file = Recipe { file: Some("pipe".into()), ..recipe(DatabaseWorkload::File) };
        let selection = Selection { below: String::new(), pauses: false };
        let errors =
            [traces.calls("pipe", &selection).err(), traces.text("pipe").err(), traces.digests(&file, 1).err()];
        for error in errors.map(Option::unwrap) {
            assert!(error.chain().contains("no regular file") && error.cure().is_some(), "{}", error.chain());
        }
        assert!(traces.text("none").unwrap_err().cure().unwrap().contains("relative"));
    }

    #[test]
    fn what_is_not_the_same_each_time_cannot_be_checked() {
        let folder = tempfile::tempdir().unwrap();
        let traces = Traces::new(folder.path(), Path::new("."));
        let sql = "SELECT random()\nSELECT 1\n";
        let trace = pocketstone_workload::database::from_sql_log(sql, Vec::new(), None, 1).unwrap();
        assert_eq!(traces.expected(&traces.put(&trace).unwrap()).unwrap(), None);
    }

    #[test]
    fn the_same_state_is_loaded_for_every_order_of_operations() {
        let folder = tempfile::tempdir().unwrap();
        let mut traces = Traces::new(folder.path(), Path::new("."));
        let contacts =
            |pattern, operations| Recipe { pattern, operations, field_bytes: 64, ..recipe(DatabaseWorkload::Contacts) };
        let (a, loads_a) = traces.digests(&contacts(Pattern::Sequential, 4), 1).unwrap();
        let (b, loads_b) = traces.digests(&contacts(Pattern::Random, 5), 1).unwrap();
        assert_ne!(a, b);
        assert_eq!(loads_a, loads_b);
    }
}
