//! Cells: one point of a matrix, one seed, traced or not.

use crate::factor::{Point, describe, on_database};
use crate::study::{Experiment, Study, Traced};
use crate::traces::Traces;
use pocketstone_core::database::*;
use pocketstone_core::plan::*;
use pocketstone_core::{Error, Result};
use serde::de::DeserializeOwned;
use std::path::Path;

/// A cell of a study.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// Its experiment.
    pub experiment: String,
    /// Its factors.
    pub point: Point,
    /// Number of the repetition, from 0 on.
    pub repetition: u32,
    /// Whether it is a traced twin.
    pub traced: bool,
    /// What the board is told.
    pub plan: Plan,
}

impl Cell {
    /// The cell in words.
    pub fn describe(&self) -> String {
        let names: Vec<&str> = self.point.keys().map(String::as_str).collect();
        let traced = if self.traced { " traced" } else { "" };
        format!("{}: {} seed={}{traced}", self.experiment, describe(&self.point, &names), self.plan.seed)
    }
}

/// The cells of a study on boards of `kind`, in the order to measure them: seeds outermost, so that
/// what is compared lies close in time.
///
/// # Errors
/// When a point makes no plan.
pub fn cells(
    study: &Study,
    kind: &str,
    directory: Option<&Path>,
    traced: bool,
    traces: &mut Traces,
) -> Result<Vec<Cell>> {
    let mut cells = Vec::new();
    let most = study.experiments.iter().map(|e| repetitions(study, e)).max().unwrap_or(0);
    for repetition in 0..most {
        for experiment in study.experiments.iter().filter(|e| repetition < repetitions(study, e)) {
            for point in experiment.points(kind) {
                let seed = study.seed + u64::from(repetition);
                let twin = traced && has_twin(experiment, &point, repetition)?;
                for trace in [false, true].into_iter().take(1 + usize::from(twin)) {
                    let plan = plan(&point, seed, directory, trace, traces).map_err(|e| {
                        Error::user(format!("experiment `{}` of {}.toml makes no plan", experiment.name, study.name))
                            .because(e)
                    })?;
                    let experiment = experiment.name.clone();
                    cells.push(Cell { experiment, point: point.clone(), repetition, traced: trace, plan });
                }
            }
        }
    }
    Ok(cells)
}

/// Whether a traced twin stands beside a cell: nothing that is in memory has flash operations, but whatever a
/// database does has system calls.
fn has_twin(experiment: &Experiment, point: &Point, repetition: u32) -> Result<bool> {
    let wanted = match experiment.traced {
        Traced::Each => true,
        Traced::First => repetition == 0,
        Traced::None => false,
    };
    let workload = point["workload"].as_str();
    let files = workload.is_some_and(|w| !on_database(w));
    let file_system: FileSystem = word(point, "file_system")?;
    let on_flash = !file_system.in_memory() && file_system != FileSystem::NullFuse;
    Ok(wanted && workload != Some("null") && (!files || on_flash))
}

fn repetitions(study: &Study, experiment: &Experiment) -> u32 {
    experiment.repetitions.unwrap_or(study.repetitions)
}

fn plan(point: &Point, seed: u64, directory: Option<&Path>, trace: bool, traces: &mut Traces) -> Result<Plan> {
    let file_system: FileSystem = word(point, "file_system")?;
    let uncompressed = matches!(file_system, FileSystem::Yaffs2 | FileSystem::NullFuse);
    let mut options = Vec::new();
    match point["compression"].as_str() {
        Some("default") | None => {}
        // They never compress: what others have to be told is how they are.
        Some("none") if uncompressed => {}
        Some(compressor) => options.push(format!("compr={compressor}")),
    }
    if point["bulk_read"] == serde_json::Value::Bool(true) {
        options.push("bulk_read".to_owned());
    }
    let workload = match point["workload"].as_str() {
        Some("files") => Workload::Files(files(point)?),
        Some("read") => Workload::Read(read(point)?),
        Some("postmark") => Workload::Postmark(postmark(point)?),
        Some("app-start") => Workload::AppStart(app_start(point)?),
        _ => Workload::Database(Box::new(database(point, seed, traces)?)),
    };
    let read_ahead = match point.get("read_ahead_bytes") {
        None | Some(serde_json::Value::String(_)) => None,
        Some(_) => Some(ReadAhead { by: word(point, "read_ahead_by")?, bytes: number(point, "read_ahead_bytes")? }),
    };
    let in_memory = file_system.in_memory();
    let name = file_system.name();
    let cold = matches!(workload, Workload::Read(_) | Workload::Postmark(_) | Workload::AppStart(_));
    if in_memory && cold {
        return Err(Error::user(format!("a cold read of {name} in memory measures nothing"))
            .hint("set workload = \"files\", whose operation may be read"));
    }
    if file_system == FileSystem::NullFuse && !matches!(workload, Workload::Read(_)) {
        return Err(Error::user("null-fuse has one file that can be read, and nothing else")
            .hint("set workload = \"read\" for it, or leave it out"));
    }
    if uncompressed && !options.is_empty() {
        return Err(Error::user(format!("{name} does not compress")).hint("set compression = \"none\" for it"));
    }
    if in_memory && !options.is_empty() {
        return Err(Error::user(format!("{name} in memory has no compression"))
            .hint("leave compression out, or give it by [experiment.on.KIND]"));
    }
    if matches!(file_system, FileSystem::Scmfs | FileSystem::ScmfsPcm) && matches!(workload, Workload::Database(_)) {
        return Err(Error::user(format!("a database needs files that the kernel knows; {name} here is a library"))
            .hint("set file_system = \"scmfs-fuse\""));
    }
    if file_system.read_only() && !matches!(workload, Workload::Read(_) | Workload::AppStart(_)) {
        return Err(Error::user(format!("{name} is read-only, and this workload writes"))
            .hint("set workload = \"read\" or \"app-start\" for it, or leave it out"));
    }
    let many = matches!(workload, Workload::Postmark(_) | Workload::AppStart(_));
    if let (true, Some(ReadAhead { by: ReadAheadBy::File, .. })) = (many, read_ahead) {
        return Err(Error::user("programs open many files, and give no advice about any of them")
            .hint("set read_ahead_by = \"mount\""));
    }
    if let (Workload::Database(_), Some(ReadAhead { by: ReadAheadBy::File, .. })) = (&workload, read_ahead) {
        return Err(Error::user("a database's files are opened by its engine, which gives no advice about them")
            .hint("set read_ahead_by = \"mount\""));
    }
    if in_memory && read_ahead.is_some() {
        return Err(Error::user(format!("{name} in memory has no read-ahead")).hint("leave read_ahead_bytes out"));
    }
    let directory = (file_system == FileSystem::Directory).then(|| directory.map(Path::to_path_buf)).flatten();
    Ok(Plan {
        format: PLAN_FORMAT,
        seed,
        volume: Volume { file_system, options, directory },
        workload,
        read_ahead,
        trace,
        energy: point.get("energy") == Some(&serde_json::Value::Bool(true)),
    })
}

fn number(point: &Point, name: &str) -> Result<u64> {
    point.get(name).and_then(|v| v.as_u64()).ok_or_else(|| Error::bug(format!("{name} is no number")))
}

fn read(point: &Point) -> Result<ReadSpec> {
    let spec = ReadSpec {
        pattern: word(point, "pattern")?,
        requests: number(point, "requests")?,
        request_bytes: number(point, "request_bytes")?,
        file_bytes: number(point, "file_bytes")?,
        inter_arrival_ns: number(point, "inter_arrival_ns")?,
        data: word(point, "data")?,
        access: word(point, "access")?,
        prefetch: word(point, "prefetch")?,
    };
    if spec.request_bytes == 0 || spec.request_bytes > spec.file_bytes {
        let (request, file) = (spec.request_bytes, spec.file_bytes);
        return Err(Error::user(format!("requests of {request} bytes do not fit a file of {file} bytes"))
            .hint("request_bytes must be from 1 to file_bytes"));
    }
    Ok(spec)
}

fn files(point: &Point) -> Result<FilesSpec> {
    let spec = FilesSpec {
        operation: word(point, "operation")?,
        pattern: word(point, "pattern")?,
        requests: number(point, "requests")?,
        request_bytes: number(point, "request_bytes")?,
        files: number(point, "files")?,
        file_bytes: number(point, "file_bytes")?,
        inter_arrival_ns: number(point, "inter_arrival_ns")?,
        data: word(point, "data")?,
        sync: word(point, "sync")?,
    };
    spec.check().map(|()| spec)
}

fn postmark(point: &Point) -> Result<PostmarkSpec> {
    let spec = PostmarkSpec {
        files: number(point, "files")?,
        least_file_bytes: number(point, "least_file_bytes")?,
        file_bytes: number(point, "file_bytes")?,
        transactions: number(point, "requests")?,
        request_bytes: number(point, "request_bytes")?,
        data: word(point, "data")?,
    };
    spec.check().map(|()| spec)
}

fn app_start(point: &Point) -> Result<AppStartSpec> {
    let spec = AppStartSpec {
        files: number(point, "files")?,
        libraries: number(point, "libraries")?,
        request_bytes: number(point, "request_bytes")?,
        data: word(point, "data")?,
    };
    spec.check().map(|()| spec)
}

fn database(point: &Point, seed: u64, traces: &mut Traces) -> Result<DatabaseSpec> {
    let text = |name: &str| point.get(name).and_then(|v| v.as_str()).map(str::to_owned);
    let set = |name: &str| text(name).filter(|value| value != "default");
    let workload: DatabaseWorkload = word(point, "workload")?;
    let delay = match text("delay").as_deref() {
        Some("own") if workload != DatabaseWorkload::File => {
            return Err(Error::user(
                "delay = \"own\" is for workload = \"prepared\": others have no delays of their own",
            ));
        }
        Some("own") | None => None,
        Some(delay) => Some(delay.parse()?),
    };
    let recipe = Recipe {
        workload,
        file: text("workload_file").filter(|f| !f.is_empty()).map(Into::into),
        records: number(point, "records")?,
        operations: number(point, "operations")?,
        fields: number(point, "fields")?,
        field_bytes: number(point, "field_bytes")?,
        scan_records: number(point, "scan_records")?,
        pattern: if point.contains_key("pattern") { word(point, "pattern")? } else { Pattern::Random },
        delay,
    };
    let (trace, loading_trace) = traces.digests(&recipe, seed)?;
    let engine: DatabaseEngine = word(point, "engine")?;
    Ok(DatabaseSpec {
        trace,
        loading_trace,
        recipe,
        engine,
        // A key-value store has no SQL in any form.
        sql: if engine.speaks_sql() { word(point, "sql")? } else { SqlForm::Prepared },
        configuration: Configuration {
            journal_mode: set("journal_mode"),
            synchronous: set("synchronous"),
            locking_mode: set("locking_mode"),
            page_bytes: point.get("page_bytes").and_then(|v| v.as_u64()),
            cache_bytes: point.get("cache_bytes").and_then(|v| v.as_u64()),
        },
        threads: number(point, "threads")? as u32,
        waiting: word(point, "waiting")?,
        arrival: word(point, "arrival")?,
        cold: text("page_cache").as_deref() == Some("cold"),
        conditions: Conditions {
            governor: set("governor"),
            cores: point.get("cores").and_then(|v| v.as_u64()).map(|n| n as u32),
            power: set("power"),
            frequency: set("frequency").map(|text| text.parse()).transpose()?,
        },
    })
}

fn word<T: DeserializeOwned>(point: &Point, name: &str) -> Result<T> {
    serde_json::from_value(point.get(name).cloned().unwrap_or_default())
        .map_err(|e| Error::bug(format!("{name} is no word of a plan")).because(e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_of_a_factor_is_a_word_of_a_plan() {
        let words = [
            "file_system",
            "access",
            "prefetch",
            "pattern",
            "data",
            "operation",
            "sync",
            "read_ahead_by",
            "engine",
            "sql",
            "arrival",
        ];
        for name in words.into_iter().chain(["waiting"]) {
            let crate::factor::Kind::Word(words) = crate::factor::named(name).unwrap().kind else { panic!("{name}") };
            for value in words {
                let point = Point::from([(name.to_owned(), (*value).into())]);
                let understood = match name {
                    "file_system" => word::<FileSystem>(&point, name).is_ok(),
                    "access" => word::<Access>(&point, name).is_ok(),
                    "prefetch" => word::<Prefetch>(&point, name).is_ok(),
                    "pattern" => word::<Pattern>(&point, name).is_ok(),
                    "data" => word::<Data>(&point, name).is_ok(),
                    "operation" => word::<FileOperation>(&point, name).is_ok(),
                    "sync" => word::<Sync>(&point, name).is_ok(),
                    "engine" => word::<DatabaseEngine>(&point, name).is_ok(),
                    "sql" => word::<SqlForm>(&point, name).is_ok(),
                    "arrival" => word::<Arrival>(&point, name).is_ok(),
                    "waiting" => word::<Waiting>(&point, name).is_ok(),
                    _ => word::<ReadAheadBy>(&point, name).is_ok(),
                };
                assert!(understood, "{name} = {value}");
            }
        }
    }

    #[test]
    fn every_workload_of_the_factor_is_one_of_a_plan() {
        let crate::factor::Kind::Word(words) = crate::factor::named("workload").unwrap().kind else { panic!() };
        for value in words.iter().filter(|w| on_database(w)) {
            let point = Point::from([("workload".to_owned(), (*value).into())]);
            assert!(word::<DatabaseWorkload>(&point, "workload").is_ok(), "{value}");
        }
    }

    fn made(study: &Study, kind: &str, traced: bool) -> Result<Vec<Cell>> {
        let folder = tempfile::tempdir().unwrap();
        cells(study, kind, None, traced, &mut Traces::new(folder.path(), Path::new(".")))
    }

    #[test]
    fn twins_follow_their_cell_and_seeds_are_outermost() {
        let text = "title='t'\nboard='b'\nrepetitions=2\nseed=5\n[[experiment]]\nname='e'\n[experiment.factors]\n\
                    file_system='jffs2'\nfile_bytes='5MiB'\nrequests=[8, 16]\ncompression='none'\n";
        let study = Study::parse("s.toml", text).unwrap();
        let cells = made(&study, "virtual", true).unwrap();
        let short: Vec<_> =
            cells.iter().map(|c| (c.plan.seed, c.point["requests"].as_u64().unwrap(), c.traced)).collect();
        assert_eq!(short[..3], [(5, 8, false), (5, 8, true), (5, 16, false)]);
        assert_eq!((short.len(), short[7]), (8, (6, 16, true)));
        assert_eq!(cells[0].plan.volume.options, ["compr=none"]);
        assert_eq!(cells[0].plan.read_ahead, None);
    }

    fn study(factors: &str) -> Study {
        let text = format!("title='t'\nboard='host'\n[[experiment]]\nname='e'\n[experiment.factors]\n{factors}");
        Study::parse("s.toml", &text).unwrap()
    }

    #[test]
    fn a_read_makes_the_plan_that_it_always_made() {
        let study = study("file_system='jffs2'\nfile_bytes='5MiB'\nrequests=8\n");
        let cells = made(&study, "virtual", false).unwrap();
        let text = serde_json::to_string(&cells[0].plan).unwrap();
        let expected = r#"{"format":2,"seed":0,"volume":{"file_system":"jffs2","options":[],"directory":null},"#
            .to_owned()
            + r#""workload":{"kind":"read","pattern":"sequential","requests":8,"request_bytes":4096,"#
            + r#""file_bytes":5242880,"inter_arrival_ns":0,"data":"random"},"read_ahead":null,"trace":false}"#;
        assert_eq!(text, expected);
    }

    #[test]
    fn file_systems_in_memory_have_the_files_workload_and_no_twins() {
        let factors = "file_system=['scmfs', 'ext4', 'directory']\nworkload=['read', 'files']\n\
                       operation=['read', 'create']\nsync=['none', 'each']\nfile_bytes='1MiB'\nrequests=8\n";
        let found = made(&study(factors), "host", true);
        assert!(found.unwrap_err().cure().unwrap().contains("workload = \"files\""));
        let found = made(&study(&factors.replace("['read', 'files']", "'files'")), "host", true).unwrap();
        // Reads are never synced: three of the four combinations exist, and the directory has twins.
        assert_eq!(found.len(), 3 + 3 + 6);
        assert!(found.iter().all(|c| !c.traced || c.plan.volume.file_system == FileSystem::Directory));
        let refused = |more: &str| {
            let factors = format!("file_system='tmpfs'\nworkload='files'\nfile_bytes=4096\nrequests=8\n{more}\n");
            made(&study(&factors), "host", true).unwrap_err().chain()
        };
        assert!(refused("compression='zstd'").contains("no compression"));
        let text = "title='t'\nboard='host'\n[[experiment]]\nname='e'\n[experiment.factors]\nfile_system='tmpfs'\n\
                    workload='files'\nfile_bytes=4096\nrequests=8\nread_ahead_bytes=0\n";
        assert!(Study::parse("s.toml", text).unwrap_err().chain().contains("read_ahead_bytes"));
        let databases = |factors: &str| {
            let factors = format!("workload='ycsb-a'\nrecords=5\noperations=5\n{factors}\n");
            made(&study(&factors), "host", true).unwrap_err().chain()
        };
        assert!(databases("file_system='tmpfs'\nread_ahead_bytes=0").contains("no read-ahead"));
        assert!(databases("file_system='directory'\nread_ahead_by='file'\nread_ahead_bytes=0").contains("advice"));
        assert!(databases("file_system='scmfs'").contains("files that the kernel knows"));
        assert!(databases("file_system='directory'\ndelay='own'").contains("own"));
        assert!(refused("request_bytes=8192").contains("do not fit"));
        assert!(databases("file_system='directory'\nfrequency='fast'").contains("no bound of a frequency"));
    }

    #[test]
    fn file_systems_by_fuse_never_compress_and_the_null_one_is_only_read() {
        let plans = |factors: &str| {
            let factors = format!("file_bytes='1MiB'\nrequests=8\n{factors}\n");
            made(&study(&factors), "virtual", true)
        };
        let found = plans("file_system=['jffs2', 'yaffs2', 'null-fuse']\ncompression='none'").unwrap();
        let options: Vec<_> = found.iter().map(|c| (c.traced, c.plan.volume.options.join(","))).collect();
        let expected = [(false, "compr=none"), (true, "compr=none"), (false, ""), (true, ""), (false, "")];
        assert_eq!(options, expected.map(|(traced, text)| (traced, text.to_owned())), "no flash, no twin");
        let refused = plans("file_system='yaffs2'\ncompression='zlib'").unwrap_err();
        assert!(refused.chain().contains("yaffs2 does not compress"));
        let refused = plans("file_system='null-fuse'\nworkload='files'\noperation='read'").unwrap_err();
        assert!(refused.chain().contains("can be read, and nothing else"));
    }

    #[test]
    fn what_writes_is_refused_on_a_read_only_file_system_and_advice_on_many_files() {
        let plans = |factors: &str| made(&study(&format!("{factors}\n")), "virtual", true);
        let mapped = "file_bytes='1MiB'\nrequests=8\naccess='mmap'\nprefetch='willneed'\n";
        for (workload, more) in [("read", mapped), ("app-start", "files=30\n")] {
            let factors = format!("file_system='squashfs-ubiblock'\nworkload='{workload}'\n{more}");
            assert_eq!(plans(&factors).unwrap().len(), 2, "{workload}, and its twin");
        }
        let sizes = "file_bytes='10KiB'\nrequests=8\n";
        for (workload, more) in [("postmark", sizes), ("files", sizes), ("contacts", "")] {
            let factors = format!("file_system='squashfs-mtdblock'\nworkload='{workload}'\n{more}");
            let refused = plans(&factors).unwrap_err();
            assert!(refused.chain().contains("squashfs-mtdblock is read-only"), "{}", refused.chain());
        }
        let advised = format!(
            "file_system='jffs2'\nworkload='postmark'\n{sizes}read_ahead_by='file'\n\
                               read_ahead_bytes=0"
        );
        assert!(plans(&advised).unwrap_err().cure().unwrap().contains("mount"));
        let in_memory = format!("file_system='tmpfs'\nworkload='postmark'\n{sizes}");
        assert!(plans(&in_memory).unwrap_err().chain().contains("measures nothing"));
    }

    #[test]
    fn energy_and_bounds_of_the_frequency_go_into_the_plan() {
        let factors = "file_system='directory'\nworkload='ycsb-c'\nrecords=5\noperations=5\nenergy=true\n\
                       frequency=['default', 'fixed:50']\n";
        let cells = made(&study(factors), "host", false).unwrap();
        assert_eq!(cells.len(), 2);
        assert!(cells.iter().all(|c| c.plan.energy));
        let frequency = |c: &Cell| match &c.plan.workload {
            Workload::Database(d) => d.conditions.frequency,
            _ => None,
        };
        let expected = [None, Some(Frequency::FixedShare { per_cent: 50 })];
        assert_eq!(cells.iter().map(frequency).collect::<Vec<_>>(), expected);
    }
}
