//! Cells: one point of a matrix, one seed, traced or not.

use crate::specification::factor::{
    COUNTERS, ENERGY, IO_SCHEDULER, POWER_CUTS, Point, READ_AHEAD_BY, READ_AHEAD_BYTES, TLB, describe,
};
use crate::specification::refusals::{faults_of, refuse_cuts, refuse_read_ahead, refuse_what_cannot_be};
use crate::specification::study::{Experiment, Study, Traced};
use crate::specification::traces::Traces;
use crate::specification::volume;
use pocketstone_core::database::DatabaseWorkload;
use pocketstone_core::volume::{FileSystem, Medium, Volume};
use pocketstone_core::{Error, Result};
use pocketstone_workload::Workload;
use pocketstone_workload::factor::{Impossible, blame};
use pocketstone_workload::plan::{Plan, ReadAhead};
use pocketstone_workload::table::{Name, WORKLOAD};
use std::path::Path;

/// A cell of a study.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// Its place among the cells of its study on boards of one kind, from 1 on; its row in the results.
    pub number: u64,
    /// Its experiment.
    pub experiment: String,
    /// Its factors.
    pub point: Point,
    /// Number of the repetition, from 0 on.
    pub repetition: u32,
    /// Whether it is a traced twin.
    pub traced: bool,
    /// The board's plan.
    pub plan: Plan,
}

impl Cell {
    /// The cell in words.
    pub fn describe(&self) -> String {
        in_words(&self.experiment, &self.point, self.plan.seed, self.traced)
    }
}

/// A cell in words: no other one of its study has the same.
pub(crate) fn in_words(experiment: &str, point: &Point, seed: impl std::fmt::Display, traced: bool) -> String {
    let names: Vec<&str> = point.keys().map(String::as_str).collect();
    let traced = if traced { " traced" } else { "" };
    format!("{experiment}: {} seed={seed}{traced}", describe(point, &names))
}

/// The cells of a study on boards of `kind`, in the order to measure them: seeds outermost, so that
/// what is compared lies close in time.
///
/// # Errors
/// `ErrorKind::User` if a point has no valid plan, or a seed is larger than results can hold.
pub fn cells(
    study: &Study,
    kind: &str,
    directory: Option<&Path>,
    traced: bool,
    traces: &mut Traces,
) -> Result<Vec<Cell>> {
    let mut cells = Vec::new();
    let most = study.experiments.iter().map(|e| repetitions(study, e)).max().unwrap_or(0);
    refuse_large_seeds(study, most)?;
    study.experiments.iter().try_for_each(|experiment| refuse_none(study, experiment, kind))?;
    let invalid = |experiment: &Experiment, point: &Point, impossible: Impossible| {
        let names: Vec<&str> = point.keys().map(String::as_str).filter(|n| varies(experiment, n)).collect();
        let of = if names.is_empty() { String::new() } else { format!(" of {}", describe(point, &names)) };
        let what = format!("experiment `{}` has no valid plan{of}", experiment.name);
        study.error_at(experiment.place(kind, impossible.factor), Error::user(what).because(impossible.error))
    };
    // A point has one volume in all repetitions; what is wrong with it is said where it comes first.
    let with_volume = |point: Point| (volume::of_point(&point).ok(), point);
    let points = |e: &Experiment| e.points(kind).into_iter().map(with_volume).collect();
    let points: Vec<Vec<(Option<Volume>, Point)>> = study.experiments.iter().map(points).collect();
    for repetition in 0..most {
        let those = study.experiments.iter().zip(&points).filter(|(e, _)| repetition < repetitions(study, e));
        for (experiment, points) in those {
            for (volume, point) in points {
                let seed = study.seed + u64::from(repetition);
                let volume = volume.clone().map_or_else(|| volume::of_point(point), Ok);
                let plan = volume.and_then(|volume| plan(point, volume, seed, directory, traces));
                let plan = plan.map_err(|impossible| invalid(experiment, point, impossible))?;
                let power_cuts = u32::try_from(point.of(&POWER_CUTS)?).unwrap_or(u32::MAX);
                let has_twin = has_twin(experiment, point, &plan.volume, repetition)?;
                if power_cuts > 0 && experiment.traced == Traced::None {
                    let error = Error::user("the power is cut in traced twins, and this experiment has none");
                    let error = error.hint("set traced = \"each\", or omit power_cuts");
                    return Err(study.error_at(experiment.place(kind, POWER_CUTS.name()), error));
                }
                let twin = (traced && has_twin).then(|| Plan { trace: true, power_cuts, ..plan.clone() });
                for plan in std::iter::once(plan).chain(twin) {
                    let (experiment, traced) = (experiment.name.clone(), plan.trace);
                    let number = cells.len() as u64 + 1;
                    cells.push(Cell { number, experiment, point: point.clone(), repetition, traced, plan });
                }
            }
        }
    }
    Ok(cells)
}

/// Refuses an experiment of which no combination exists, by what is wrong with the first.
fn refuse_none(study: &Study, experiment: &Experiment, kind: &str) -> Result<()> {
    let Some(point) = experiment.impossible(kind) else { return Ok(()) };
    let generic = || {
        let error = Error::user("no combination of its factors exists");
        blame(WORKLOAD.name())(error.hint("docs/studies.md says which values go together"))
    };
    let impossible = volume::of_point(&point).err().unwrap_or_else(generic);
    let error = Error::user(format!("experiment `{}` has no cells", experiment.name)).because(impossible.error);
    Err(study.error_at(experiment.place(kind, impossible.factor), error))
}

/// How many cells [`cells`] makes, counted without making them.
///
/// # Errors
/// `ErrorKind::User` if a point has no file system.
pub fn count(study: &Study, kind: &str) -> Result<u64> {
    let mut count = 0u64;
    for experiment in &study.experiments {
        for (point, points) in experiment.kinds_of_points(kind) {
            // What is wrong with a volume is said, with its place, where its plan is made.
            let volume = volume::of_point(&point).ok();
            let with_twin = |n: u32| match &volume {
                Some(volume) => has_twin(experiment, &point, volume, n).map(|twin| 1 + u64::from(twin)),
                None => Ok(1),
            };
            // Repetitions after the second are as the second.
            let all = repetitions(study, experiment);
            let of_one = with_twin(0)? + if all > 1 { u64::from(all - 1).saturating_mul(with_twin(1)?) } else { 0 };
            count = count.saturating_add(points.saturating_mul(of_one));
        }
    }
    Ok(count)
}

fn varies(experiment: &Experiment, factor: &str) -> bool {
    experiment.factors.get(factor).is_some_and(|values| values.len() > 1)
}

/// Whether a traced twin stands beside a cell: nothing that is in memory has flash operations, but whatever a
/// database or a command does has system calls.
fn has_twin(experiment: &Experiment, point: &Point, volume: &Volume, repetition: u32) -> Result<bool> {
    let wanted = match experiment.traced {
        Traced::Each => true,
        Traced::First => repetition == 0,
        Traced::None => false,
    };
    let has_something_to_trace = match point.of(&WORKLOAD)? {
        Name::Database(workload) => workload != DatabaseWorkload::Null,
        Name::Command => true,
        Name::OnFiles(_) => !volume.volatile() && volume.file_system != FileSystem::Null,
    };
    Ok(wanted && has_something_to_trace)
}

/// The results store seeds as SQLite's integers, which have a sign.
fn refuse_large_seeds(study: &Study, repetitions: u32) -> Result<()> {
    let largest = (i64::MAX as u64).saturating_sub(u64::from(repetitions.saturating_sub(1)));
    if study.seed > largest {
        let error = Error::user(format!("the seed is too large: results can hold up to {largest} here"));
        return Err(study.error_at(study.seed_place.clone(), error));
    }
    Ok(())
}

fn repetitions(study: &Study, experiment: &Experiment) -> u32 {
    experiment.repetitions.unwrap_or(study.repetitions)
}

fn plan(
    point: &Point,
    mut volume: Volume,
    seed: u64,
    directory: Option<&Path>,
    traces: &mut Traces,
) -> Result<Plan, Impossible> {
    let workload = Workload::of_point(point, seed, traces)?;
    let read_ahead = match point.of(&READ_AHEAD_BYTES)? {
        Some(bytes) => Some(ReadAhead { by: point.of(&READ_AHEAD_BY)?, bytes }),
        None => None,
    };
    refuse_what_cannot_be(&volume, &workload)?;
    refuse_read_ahead(&volume, &workload, read_ahead)?;
    volume.directory = directory.filter(|_| volume.file_system == FileSystem::Directory).map(Path::to_path_buf);
    let io_scheduler = point.of(&IO_SCHEDULER)?;
    if io_scheduler.is_some() && volume.medium != Medium::Block {
        let error = Error::user(format!("{} is not on a block device of the board", volume.name()));
        return Err(blame(IO_SCHEDULER.name())(error.hint("omit io_scheduler for it, or set medium = \"block\"")));
    }
    refuse_cuts(point, &volume, &workload)?;
    let faults = faults_of(point, &volume, &workload)?;
    let (energy, counters, tlb) = (point.of(&ENERGY)?, point.of(&COUNTERS)?, point.of(&TLB)?);
    let plain = Plan::new(seed, volume, workload);
    Ok(Plan { read_ahead, io_scheduler, energy, counters, tlb, faults, ..plain })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pocketstone_core::database::DatabaseEngine;
    use pocketstone_core::volume::Medium;

    fn made(study: &Study, kind: &str, traced: bool) -> Result<Vec<Cell>> {
        let folder = tempfile::tempdir().unwrap();
        cells(study, kind, None, traced, &mut Traces::new(folder.path(), Path::new(".")))
    }

    #[test]
    fn seeds_that_results_cannot_hold_are_refused_where_they_are() {
        let made = |seed: &str| {
            let text = format!(
                "title='t'\nboard='b'\nrepetitions=2\nseed={seed}\n[[experiment]]\nname='e'\n[experiment.factors]\n\
                 file_system='jffs2'\nfile_bytes='1MiB'\nrequests=16\nread_ahead_bytes=0\n"
            );
            let study = Study::parse("s.toml", &text)?;
            cells(&study, "virtual", None, false, &mut Traces::checked(Path::new("")))
        };
        assert_eq!(made("9223372036854775806").unwrap()[1].plan.seed, i64::MAX as u64);
        for seed in ["9223372036854775807", "9223372036854775808", "18446744073709551615"] {
            let error = made(seed).unwrap_err().chain();
            assert!(error.contains("s.toml:4:6"), "{error}");
        }
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
        let expected = r#"{"format":3,"seed":0,"volume":{"file_system":"jffs2","medium":"mtd","access":"kernel","#
            .to_owned()
            + r#""options":[],"directory":null},"#
            + r#""workload":{"kind":"read","pattern":"sequential","requests":8,"request_bytes":4096,"#
            + r#""file_bytes":5242880,"inter_arrival_ns":0,"data":"random"},"read_ahead":null,"trace":false}"#;
        assert_eq!(text, expected);
    }

    #[test]
    fn volatile_volumes_have_every_workload_on_files_and_no_twins() {
        let factors = "file_system=['scmfs', 'ext4', 'directory']\nworkload='files'\n\
                       operation=['read', 'create']\nsync=['none', 'each']\nfile_bytes='1MiB'\nrequests=8\n";
        let found = made(&study(factors), "host", true).unwrap();
        // Reads are never synced: three of the four combinations exist, and the directory has twins.
        assert_eq!(found.len(), 3 + 3 + 6);
        assert!(found.iter().all(|c| !c.traced || c.plan.volume.file_system == FileSystem::Directory));
        for workload in ["read", "postmark", "app-start"] {
            let sizes = if workload == "app-start" { "" } else { "file_bytes='10KiB'\nrequests=8\n" };
            let factors =
                format!("file_system=['scmfs', 'tmpfs', 'ext4', 'scmfs-fuse']\nworkload='{workload}'\n{sizes}");
            assert_eq!(made(&study(&factors), "host", true).unwrap().len(), 4, "{workload}");
        }
        let refused = |more: &str| {
            let factors = format!("file_system='tmpfs'\nworkload='files'\nfile_bytes=4096\nrequests=8\n{more}\n");
            made(&study(&factors), "host", true).unwrap_err().chain()
        };
        assert!(refused("compression='zstd'").contains("does not support compression"));
        let text = "title='t'\nboard='host'\n[[experiment]]\nname='e'\n[experiment.factors]\nfile_system='tmpfs'\n\
                    workload='files'\nfile_bytes=4096\nrequests=8\nread_ahead_bytes=0\n";
        assert!(Study::parse("s.toml", text).unwrap_err().chain().contains("read_ahead_bytes"));
        let databases = |factors: &str| {
            let factors = format!("workload='ycsb-a'\nrecords=5\noperations=5\n{factors}\n");
            made(&study(&factors), "host", true).unwrap_err().chain()
        };
        let kept = databases("file_system='null-anonymous'");
        assert!(kept.contains("null-anonymous keeps no content, and a database needs its own"), "{kept}");
        assert!(databases("file_system='tmpfs'\nread_ahead_bytes=0").contains("does not support read-ahead"));
        assert!(databases("file_system='directory'\nread_ahead_by='file'\nread_ahead_bytes=0").contains("advice"));
        // SQLite opens an SCMFS volume in a file by itself; nobody else does, and nothing else.
        assert!(databases("file_system='scmfs'\nengine='lmdb'").contains("lmdb needs files visible to the kernel"));
        assert!(databases("file_system='scmfs-pcm'").contains("sqlite needs files visible to the kernel"));
        let own = "workload='ycsb-a'\nrecords=5\noperations=5\nfile_system='scmfs'\n";
        assert!(
            made(&study(own), "host", true).unwrap().iter().all(|c| c.plan.volume.opens_for(DatabaseEngine::Sqlite))
        );
        assert!(databases("file_system='directory'\ndelay='own'").contains("own"));
        assert!(refused("request_bytes=8192").contains("do not fit"));
        assert!(databases("file_system='directory'\nfrequency='fast'").contains("not a frequency bound"));
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
        assert!(refused.chain().contains("yaffs2 does not support compression"));
        let refused = plans("file_system='null-fuse'\nworkload='files'\noperation='read'").unwrap_err();
        assert!(refused.chain().contains("only reading its one file"));
        // In memory it has names and sizes, which is all that files need.
        assert_eq!(plans("file_system='null-anonymous'\nworkload='files'\noperation='create'").unwrap().len(), 1);
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
        let writes = "file_bytes='10KiB'\nrequests=8\noperation='write'\n";
        for (workload, more) in [("postmark", sizes), ("files", writes), ("contacts", "")] {
            let factors = format!("file_system='squashfs-mtdblock'\nworkload='{workload}'\n{more}");
            let refused = plans(&factors).unwrap_err();
            assert!(refused.chain().contains("squashfs is read-only"), "{}", refused.chain());
        }
        let advised = format!(
            "file_system='jffs2'\nworkload='postmark'\n{sizes}read_ahead_by='file'\n\
                               read_ahead_bytes=0"
        );
        assert!(plans(&advised).unwrap_err().cure().unwrap().contains("mount"));
        let in_process = "file_system='yaffs2'\nvolume_access='in-process'\nworkload='app-start'\nfiles=3\n";
        assert!(plans(in_process).unwrap_err().chain().contains("a mapping is unsupported on yaffs2-in-process"));
        let asked = format!("file_system='scmfs'\n{mapped}");
        assert!(plans(&asked).unwrap_err().cure().unwrap().contains("prefetch = \"none\""));
    }

    #[test]
    fn transactions_make_the_plan_that_they_always_made_and_whole_runs_one_with_their_program() {
        let of = |more: &str| {
            let base = "file_system='jffs2'\nworkload='postmark'\nfile_bytes='10KiB'\nrequests=8\nrequest_bytes=512\n";
            made(&study(&format!("{base}{more}\n")), "virtual", false)
        };
        let workload = |more: &str| serde_json::to_string(&of(more).unwrap()[0].plan.workload).unwrap();
        let always = r#"{"kind":"postmark","files":1,"least_file_bytes":500,"file_bytes":10240,"transactions":8,"#
            .to_owned()
            + r#""request_bytes":512,"data":"random""#;
        assert_eq!(workload(""), format!("{always}}}"));
        let program =
            r#","program":{"write_bytes":512,"bias_read":5,"bias_create":null,"subdirectories":4,"buffered":true}}"#;
        assert_eq!(workload("phases='all'\nbias_create='none'\nsubdirectories=4"), format!("{always}{program}"));
        assert!(!of("").unwrap()[0].point.contains_key("phases"), "names of cells stay what they were");
    }

    /// What is made of an experiment with files, and what is said where nothing is.
    fn of_files(factors: &str) -> Result<Vec<Cell>, String> {
        let text = format!("title='t'\nboard='host'\n[[experiment]]\nname='e'\n[experiment.factors]\n{factors}\n");
        let made = Study::parse("s.toml", &text).and_then(|study| made(&study, "host", false));
        made.map_err(|error| format!("{} {}", error.chain(), error.cure().unwrap_or_default()))
    }

    #[test]
    fn workloads_on_files_are_on_every_volume_within_their_bounds() {
        let (memory, all) = ("'scmfs', 'scmfs-fuse', 'tmpfs', 'ext4'", "'yaffs2-in-process', 'jffs2'");
        let of = |workload: &str, volumes: &str, more: &str| {
            of_files(&format!("workload='{workload}'\nfile_system=[{volumes}]\n{more}"))
        };
        let six = &format!("{memory}, {all}");
        let iozone = "file_bytes='100MiB'\nrequest_bytes=['4KiB', '16MiB']\npass=['all', 'random-write']";
        assert_eq!(of("iozone", &six[..six.len() - ", 'jffs2'".len()], iozone).unwrap().len(), 20);
        let lookup = "requests=9\nfolder_names=[20, 1000000]\nnames_are=['cached', 'cold']";
        assert_eq!(of("lookup", memory, lookup).unwrap().len(), 16);
        assert_eq!(of("androsh", six, "script='copy'\nmedia=['photo', 'video']\nscale=[1, 4]").unwrap().len(), 24);
        let sizes = "files=1000\nfile_bytes='16KiB'\nrequests=10\nrequest_bytes='1MiB'\npicks='rotating'\n";
        let servers = format!("{sizes}threads=[1, 100]\ndirectory_width=[20, 1000000]");
        assert_eq!(of("filebench", six, &servers).unwrap().len(), 24);
        // What only others have is no factor of theirs.
        assert!(of("iozone", memory, "file_bytes='1MiB'\nfiles=3").unwrap_err().contains("files"));
        assert!(of("filebench", memory, &format!("{sizes}pass='all'")).unwrap_err().contains("pass"));
    }

    #[test]
    fn only_scmfs_has_thresholds_and_only_volumes_in_memory_have_a_size() {
        let of = |more: &str| of_files(&format!("workload='capacity'\nfiles=3\nfile_bytes='2MiB'\n{more}"));
        let volumes = "file_system=['scmfs', 'scmfs-fuse', 'ext4']\n";
        // Two volumes with five thresholds, ext4 with none.
        let thresholds = "threshold=['default', 'never', '128KiB', '512KiB', '2MiB']";
        assert_eq!(of(&format!("{volumes}{thresholds}\nvolume_bytes='1GiB'")).unwrap().len(), 11);
        let null_files = "null_files=['none', 64]\ncollector=[false, true]";
        assert_eq!(of(&format!("{volumes}{null_files}")).unwrap().len(), 8);
        let found = of("file_system='scmfs'\nnull_files='none'\ncollector=true\nvolume_bytes='1GiB'").unwrap();
        let setup = &found[0].plan.volume.setup;
        assert_eq!((setup.bytes, setup.null_files, setup.collector), (Some(1 << 30), Some(0), true));
        let wrong = |more: &str| of(more).unwrap_err();
        assert!(wrong("file_system='jffs2'\nvolume_bytes='1GiB'").contains("omit volume_bytes"));
        assert!(wrong("file_system='ramfs'\nvolume_bytes='1GiB'").contains("ramfs has no size"));
        assert!(wrong("file_system='ramfs'").contains("set file_system = \"tmpfs\""));
        let on_chip = wrong("file_system='scmfs'\nmedium='pcm'\nvolume_access='preload'");
        assert!(on_chip.contains("cannot map a region on pcm") && on_chip.contains("\"hugetlbfs\""), "{on_chip}");
    }

    #[test]
    fn only_phase_change_memory_has_times() {
        let sizes = "files=3\nfile_bytes='16KiB'\nrequest_bytes='4KiB'\nrequests=3";
        let of = |more: &str| of_files(&format!("workload='files'\noperation='read'\n{sizes}\n{more}"));
        // One with three times, and two that have none.
        let volumes = "file_system=['scmfs-anonymous', 'scmfs-pcm', 'tmpfs']\n";
        let found = of(&format!("{volumes}pcm_read=['default', 0, '150ns']\npcm_write=['default']")).unwrap();
        let setups = found.iter().map(|cell| (cell.plan.volume.medium, &cell.plan.volume.setup));
        let on_pcm: Vec<_> = setups.filter(|(medium, _)| *medium == Medium::Pcm).map(|(_, s)| s.pcm_read_ns).collect();
        assert_eq!((found.len(), on_pcm), (2 + 3, vec![None, Some(0), Some(150)]));
        let found = of("file_system='scmfs'\nmedium=['tmpfs', 'pcm']\npcm_write='1us'").unwrap();
        assert_eq!((found.len(), found[0].plan.volume.setup.pcm_write_ns), (1, Some(1000)));
    }

    #[test]
    fn only_ext4_goes_past_the_page_cache_and_only_where_the_lab_opens_its_files() {
        let sizes = "files=3\nfile_bytes='2MiB'\n";
        let of = |workload: &str, more: &str| of_files(&format!("workload='{workload}'\n{more}"));
        let all = "file_system=['scmfs', 'tmpfs', 'ext4']\ndirect=[false, true]\nbarriers=[true, false]\n";
        let found = of("capacity", &format!("{all}{sizes}")).unwrap();
        let setups = found.iter().map(|cell| &cell.plan.volume).filter(|volume| volume.file_system == FileSystem::Ext4);
        let setups: Vec<_> = setups.map(|volume| (volume.setup.direct, volume.setup.no_barriers)).collect();
        assert_eq!(setups, [(false, false), (false, true), (true, false), (true, true)]);
        assert_eq!(found.len(), 2 + 4, "the others are as they always were");
        let wrong = |workload: &str, more: &str| of(workload, more).unwrap_err();
        let ext4 = "file_system='ext4'\ndirect=true\n";
        let none = wrong("capacity", &format!("{sizes}file_system='tmpfs'\ndirect=true"));
        assert!(none.contains("s.toml:10") && none.contains("has neither O_DIRECT") && none.contains("omit"), "{none}");
        let read = "file_bytes='1MiB'\nrequests=8\n";
        for (workload, more, why) in [
            ("ycsb-a", "records=5\noperations=5\n".to_owned(), "a program opens its files by itself"),
            ("app-start", "files=3\n".to_owned(), "a mapping goes through the page cache"),
            ("read", format!("{read}access='mmap'\n"), "a mapping goes through the page cache"),
            ("read", format!("{read}prefetch='willneed'\n"), "prefetch fills the page cache"),
        ] {
            let wrong = wrong(workload, &format!("{more}{ext4}"));
            assert!(wrong.contains(why) && wrong.contains("direct=true") && wrong.contains("omit direct"), "{wrong}");
        }
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
        let expected = [None, Some(pocketstone_core::database::Frequency::FixedShare { per_cent: 50 })];
        assert_eq!(cells.iter().map(frequency).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn the_power_of_traced_twins_is_cut_and_only_where_promises_are_known() {
        let on = |factors: &str| made(&study(&format!("file_system='ubifs'\n{factors}\n")), "virtual", true);
        let files = "workload='files'\noperation='append'\nfile_bytes='4KiB'\nrequests=3\nfiles=2\n";
        let cells = on(&format!("{files}power_cuts=[5, 'none']")).unwrap();
        let cuts: Vec<_> = cells.iter().map(|cell| (cell.traced, cell.plan.power_cuts)).collect();
        assert_eq!(cuts, [(false, 0), (true, 5), (false, 0), (true, 0)]);
        let text = serde_json::to_string(&cells[3].plan).unwrap();
        assert!(!text.contains("power_cuts"), "plans without cuts are what they were: {text}");
        let refused = |factors: &str| on(factors).unwrap_err().chain();
        assert!(refused(&format!("{files}threads=2\npower_cuts=5")).contains("several threads"));
        assert!(refused("workload='ycsb-a'\nengine='bdb'\npower_cuts=5").contains("only databases of SQLite"));
        assert!(on("workload='ycsb-a'\nengine=['lmdb', 'redb']\npower_cuts=5").is_ok());
        assert!(refused("workload='ycsb-a'\nthreads=2\npower_cuts=5").contains("several threads"));
        assert!(refused("workload='command'\ncommand='true'\npower_cuts=5").contains("what a command was promised"));
        let plain = format!(
            "title='t'\nboard='b'\n[[experiment]]\nname='e'\ntraced='none'\n[experiment.factors]\n\
                             file_system='ubifs'\n{files}power_cuts=5\n"
        );
        let error = made(&Study::parse("s.toml", &plain).unwrap(), "virtual", true).unwrap_err().chain();
        assert!(error.contains("the power is cut in traced twins"), "{error}");
        assert!(Study::parse("s.toml", &plain.replace("power_cuts=5", "power_cuts=1001")).is_err());
    }

    #[test]
    fn faults_are_of_raw_nand_and_of_runs_whose_contents_are_known() {
        let on = |factors: &str| made(&study(factors), "virtual", false);
        let files = "workload='files'\noperation='write'\nfile_bytes='4KiB'\nrequests=3\n";
        let cells =
            on(&format!("file_system='ubifs'\n{files}faults=['none', 'weakblocks=5%:2 bitflips=1']\n")).unwrap();
        let faults: Vec<_> = cells.iter().map(|cell| cell.plan.faults.map(String::from)).collect();
        assert_eq!(faults, [None, Some("bitflips=1 weakblocks=5%:2".into())]);
        let steps = [0, 1].map(|cell: usize| cells[cell].plan.steps().len());
        assert_eq!(steps, [2, 3], "the volume is filled before it is on the worn chip");
        assert!(!serde_json::to_string(&cells[0].plan).unwrap().contains("faults"), "plans without are what they were");
        let refused = |factors: &str| {
            let error = on(factors).unwrap_err();
            format!("{} ({})", error.chain(), error.cure().unwrap_or_default())
        };
        let elsewhere = refused(&format!("file_system='f2fs'\n{files}faults='bitflips=1'\n"));
        assert!(elsewhere.contains("f2fs is not on raw NAND") && elsewhere.contains("jffs2"), "{elsewhere}");
        let of = |more: &str| refused(&format!("file_system='jffs2'\n{more}\n"));
        assert!(of(&format!("{files}faults='rust=1'")).contains("`rust` is not a fault of a chip"));
        assert!(of(&format!("{files}faults='bitflips=1'\nthreads=2")).contains("several threads"));
        assert!(of("workload='command'\ncommand='true'\nfaults='bitflips=1'").contains("what a command was promised"));
        assert!(of(&format!("{files}faults='bitflips=1'\npower_cuts=2")).contains("omit power_cuts"));
        assert!(of(&format!("{files}faults='bitflips=1'\ntlb='cortex-a76'")).contains("omit tlb"));
    }
}
