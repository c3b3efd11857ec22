//! A board: a machine that executes plans through a transport.

use crate::BoardContext;
use crate::measured::{Console, Failed, Measured};
use crate::members::{Member, Members};
use crate::modelled;
use crate::orders::{TRACES, put, read_measured, read_response, read_watched, trace_file};
use crate::power::{self, BlockRecorded, Record, Recorded};
use crate::transport::{ATTEMPTS, Offer, Transport, tried};
use pocketstone_core::block_record::BlockImage;
use pocketstone_core::board::{Ability, Capabilities};
use pocketstone_core::chip::{Found, SURVIVORS_FILE, Survivor, decode_survivors};
use pocketstone_core::database::DatabaseEngine;
use pocketstone_core::error::Context;
use pocketstone_core::outcome::{Facts, Response};
use pocketstone_core::volume::{Medium, Volume};
use pocketstone_core::{Error, Result};
use pocketstone_media::nand::RawChip;
use pocketstone_tlb::Processor;
use pocketstone_workload::database::Trace;
use pocketstone_workload::plan::{Order, Plan, Request, Step};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Facts in which two runs must agree to be of the same machine.
pub const SAME_MACHINE: [&str; 5] = ["image.digest", "kernel.release", "machine", "qemu.version", "qemu.arguments"];

/// Facts in which runs must agree whose numbers are compared, whatever made them: a lab or an image may be newer.
pub const COMPARABLE: [&str; 3] = ["kernel.release", "machine", "qemu.arguments"];

/// A machine that carries out plans.
pub struct Board {
    name: String,
    capabilities: Capabilities,
    facts: Facts,
    members: Members,
    context: BoardContext,
    /// Its reply to the question for engines, once it was asked.
    engines: OnceLock<Response>,
}

impl Board {
    /// Creates a board from the ways to the machines that it is made of: one, or several equal ones, of which each
    /// cell takes one that is free.
    ///
    /// # Errors
    /// `ErrorKind::Board` if one does not answer, or they are not equal.
    pub fn new(name: &str, transports: Vec<Box<dyn Transport>>, context: &BoardContext) -> Result<Self> {
        let (members, facts) = Members::new(transports)?;
        let mut capabilities = members.first().description.capabilities.clone();
        capabilities.parallel = members.parallel();
        let (name, context) = (name.to_owned(), context.clone());
        Ok(Board { name, capabilities, facts, members, context, engines: OnceLock::new() })
    }

    /// Name of its profile.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Facts about the machine.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Its capabilities.
    pub fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// Checks whether a volume is supported.
    ///
    /// # Errors
    /// `ErrorKind::Board` with the reason, and the fix as its hint; with `lost` set if the board did not answer.
    pub fn offers(&self, volume: &Volume) -> Result<(), Failed> {
        let first = self.members.first();
        match first.transport.offers(volume)? {
            Offer::Sure => Ok(()),
            // Made and thrown away once: nothing else says as surely that it can be had.
            Offer::Try => {
                let _undisturbed = first.transport.alone()?;
                let order = || Order::Prepare { step: Step::Format { volume: volume.clone() } };
                tried(&*first.transport, || ordered(first, &[], order(), |_, _| Ok(()))).map(|((), _)| ())
            }
        }
    }

    /// Checks whether a volume is supported, as [`Board::offers`] does, but erases nothing on a machine that is kept:
    /// of its raw flash, what it says counts.
    ///
    /// # Errors
    /// As [`Board::offers`].
    pub fn offers_unerased(&self, volume: &Volume) -> Result<(), Failed> {
        if volume.on_raw_nand() && !self.capabilities.disposable {
            return Ok(self.members.first().transport.offers(volume).map(drop)?);
        }
        self.offers(volume)
    }

    /// The version of a database engine there.
    ///
    /// # Errors
    /// `ErrorKind::Board` with the reason, and the fix as its hint; with `lost` set if the board did not answer.
    pub fn engine(&self, engine: DatabaseEngine) -> Result<String, Failed> {
        let first = self.members.first();
        first.transport.offers_engine(engine)?;
        if self.engines.get().is_none() {
            let _ = self
                .engines
                .set(tried(&*first.transport, || ordered(first, &[], Order::Engines, |_, reply| Ok(reply)))?.0);
        }
        let Some(Response::Engines { offered, missing }) = self.engines.get() else {
            return Err(Error::bug("the board's reply does not name engines").into());
        };
        match (offered.get(&engine), missing.get(&engine)) {
            (Some(version), _) => Ok(version.clone()),
            (None, Some(failure)) => Err(Error::from(failure.clone()).into()),
            (None, None) => Err(Error::board(format!("the board does not report the engine {}", engine.name())).into()),
        }
    }

    /// What can be measured on the board, and what not and why, by name: found by attempts there, or as it says.
    ///
    /// # Errors
    /// `ErrorKind::Board` if it does not answer.
    pub fn abilities(&self) -> Result<BTreeMap<String, Ability>> {
        let first = self.members.first();
        let _undisturbed = first.transport.alone()?;
        match tried(&*first.transport, || ordered(first, &[], Order::Abilities, |_, reply| Ok(reply)))?.0 {
            Response::Abilities { found } => {
                let ability = |why: Option<_>| why.map_or(Ability::Yes, Ability::No);
                let found = found.into_iter().map(|(what, why)| (what, ability(why)));
                let said = self.capabilities.abilities().into_iter().filter(|(_, said)| **said != Ability::Unknown);
                // An attempt is surer.
                Ok(said.map(|(what, said)| (what.to_owned(), said.clone())).chain(found).collect())
            }
            other => Err(Error::bug(format!("the board's reply is not what it can do: {other:?}"))),
        }
    }

    /// Executes preparation steps and saves the state, if states are saved.
    ///
    /// # Errors
    /// `ErrorKind::Board` if the machine fails, or a step there; `ErrorKind::User` if the cache cannot be used;
    /// `ErrorKind::Interrupted`. With `lost` set if the board was lost as often as it was tried.
    pub fn prepare(&self, steps: &[Step]) -> Result<(), Failed> {
        let first = self.members.first();
        tried(&*first.transport, || first.transport.keep(steps)).map(|((), _)| ())
    }

    /// Measures one cell from the state its plan starts from. A board that is lost meanwhile is tried again, and after
    /// that another one, if there are several: the outcome's fact `board.attempt` says so.
    ///
    /// # Errors
    /// `ErrorKind::Board` if the board or the plan fails; `ErrorKind::User` if the plan names what is unknown, or cuts
    /// the power of what cannot be looked at afterwards; `ErrorKind::Interrupted`. The board remains usable.
    pub fn measure(&self, plan: &Plan) -> Result<Measured, Failed> {
        let mut waited = Duration::ZERO;
        match self.measure_somewhere(plan, &mut waited) {
            Ok(measured) => Ok(Measured { waited, ..measured }),
            Err(failed) => Err(Failed { waited, ..failed }),
        }
    }

    fn measure_somewhere(&self, plan: &Plan, waited: &mut Duration) -> Result<Measured, Failed> {
        let mut before = 0;
        loop {
            let member = self.members.take(&self.context)?;
            let done = self.measure_on(&member, plan, before, waited);
            let Err(failed) = &done else { return done };
            if !failed.lost {
                return done;
            }
            let gone = member.own.get("board.name").unwrap_or(&self.name).clone();
            if !member.leave_out() {
                return done;
            }
            (self.context.progress)(&format!("{gone} is left out: {}", failed.error.message()));
            before += ATTEMPTS;
        }
    }

    /// Measures on one machine, while nobody else does; `before` attempts were made on others, and `waited` becomes
    /// longer by what its turn takes to come.
    fn measure_on(&self, member: &Member, plan: &Plan, before: u32, waited: &mut Duration) -> Result<Measured, Failed> {
        let asked = Instant::now();
        let undisturbed = member.transport.alone();
        *waited += asked.elapsed();
        let _undisturbed = undisturbed?;
        let mut plan = plan.clone();
        plan.volume = member.transport.resolve(&plan.volume)?;
        let measured =
            tried(&*member.transport, || self.measure_alone(member, &plan)).map(|(mut measured, attempt)| {
                if before + attempt > 1 {
                    measured.outcome.facts.insert("board.attempt".into(), (before + attempt).to_string());
                }
                measured.outcome.facts.extend(member.own.clone());
                measured.outcome.facts.extend(member.transport.conditions());
                measured
            });
        member.transport.clean(&plan);
        measured
    }

    fn measure_alone(&self, member: &Member, plan: &Plan) -> Result<Measured, Failed> {
        let steps = plan.steps();
        let mut after = &steps[..];
        if !member.transport.keeps_states() {
            for step in &steps {
                ordered(member, &[], Order::Prepare { step: step.clone() }, |_, _| Ok(()))?;
            }
            after = &[];
        }
        member.transport.await_fitness()?;
        if plan.power_cuts > 0 {
            return self.measure_and_cut(member, plan);
        }
        if plan.faults.is_some() {
            return self.measure_and_look(member, after, plan);
        }
        let Some(processor) = &plan.tlb else {
            return ordered(member, after, Order::Measure { plan: Box::new(plan.clone()) }, read_measured);
        };
        // The board is told the plan without it: the machine must not do anything else than without.
        let order = Order::Measure { plan: Box::new(Plan { tlb: None, ..plan.clone() }) };
        let seen = self.capabilities.accesses.refuse();
        if seen.is_err() && modelled::followed(plan).is_some() {
            let mut measured = ordered(member, after, order, read_measured)?;
            modelled::count(&self.context.devices, processor, plan, &mut measured)?;
            return Ok(measured);
        }
        seen?;
        let mut processor = Processor::load(&self.context.devices, processor)?;
        let folder = put_order(member, order)?;
        let clock = member.transport.carry_out_watched(after, folder.path(), &mut processor)?;
        let read = |reply| {
            let mut measured = read_measured(folder.path(), reply)?;
            measured.tlb = Some(read_watched(folder.path(), &measured, clock)?);
            measured.outcome.facts.insert("tlb.processor".into(), processor.to_text()?);
            Ok(measured)
        };
        reply(member, folder.path(), read)
    }

    /// Refuses to cut the power where there is no way to give a fresh machine the chip of another one.
    ///
    /// # Errors
    /// `ErrorKind::Board` with the reason, and the fix as its hint.
    pub fn cuts_power(&self, volume: &Volume) -> Result<()> {
        self.capabilities.power_cuts.refuse()?;
        match volume.medium {
            Medium::Block => Ok(()),
            _ if volume.on_raw_nand() && !volume.read_only() => Ok(()),
            _ => Err(Error::board(format!("{} writes nothing to the board's flash", volume.name()))
                .hint("choose a file system on flash, such as jffs2 or f2fs")),
        }
    }

    /// Refuses faults of the chip where none is simulated, and of other media.
    ///
    /// # Errors
    /// `ErrorKind::Board` with the reason, and the fix as its hint.
    pub fn wears(&self, volume: &Volume) -> Result<()> {
        self.capabilities.chip_faults.refuse()?;
        if volume.on_raw_nand() {
            return Ok(());
        }
        Err(Error::board(format!("{} is not on raw NAND", volume.name()))
            .hint("choose a file system on raw NAND, such as jffs2, ubifs or yaffs2"))
    }

    /// Measures a plan on a chip with faults, and holds what is on the volume then against what should be.
    fn measure_and_look(&self, member: &Member, after: &[Step], plan: &Plan) -> Result<Measured, Failed> {
        self.wears(&plan.volume)?;
        let order = Order::Measure { plan: Box::new(plan.clone()) };
        let (mut measured, survivors) = ordered(member, after, order, |folder, reply| {
            Ok((read_measured(folder, reply)?, read_survivors(folder)?))
        })?;
        let trace = trace_of(member, plan)?;
        let worn = measured.outcome.worn.take();
        let mut worn = worn.ok_or_else(|| Error::bug("the board did not say what became of its volume"))?;
        worn.verdict = Some(power::verdict_at_the_end(plan, &measured, trace.as_ref(), &worn.found, &survivors)?);
        measured.outcome.worn = Some(worn);
        Ok(measured)
    }

    /// Measures a plan with the record of what it does to the chip, cuts the power at some of those changes, and has a
    /// fresh machine look at each.
    fn measure_and_cut(&self, member: &Member, plan: &Plan) -> Result<Measured, Failed> {
        self.cuts_power(&plan.volume)?;
        match plan.volume.medium {
            Medium::Block => self.measure_and_cut_as::<BlockRecorded>(member, plan),
            _ => self.measure_and_cut_as::<Recorded>(member, plan),
        }
    }

    fn measure_and_cut_as<R: Record>(&self, member: &Member, plan: &Plan) -> Result<Measured, Failed> {
        let (mut measured, recorded) = record::<R>(member, plan)?;
        let trace = trace_of(member, plan)?;
        let engine = plan.workload.engine_on_the_board();
        let recover = |contents: &R::Contents| recover::<R>(member, &plan.volume, engine, contents);
        measured.outcome.cuts = power::cut(plan, &measured, &recorded, trace.as_ref(), recover)?;
        Ok(measured)
    }

    /// Measures a traced plan with `power_cuts`, with the record of what it does to the chip or block device; nothing
    /// is cut yet.
    ///
    /// # Errors
    /// As [`Board::cuts_power`]; `ErrorKind::Board` also if the board or the plan fails; `ErrorKind::User` if the cache
    /// cannot be used; `ErrorKind::Interrupted`.
    pub fn record<R: Record>(&self, plan: &Plan) -> Result<(Measured, R), Failed> {
        self.cuts_power(&plan.volume)?;
        record(self.members.first(), plan)
    }

    /// Gives a fresh machine a chip with these contents, and has it mount the volume and read all files.
    ///
    /// # Errors
    /// As [`Board::cuts_power`]; `ErrorKind::Board` also if the board fails; `ErrorKind::User` if the cache cannot be
    /// used; `ErrorKind::Interrupted`. What its kernel refuses is a finding.
    pub fn recover(&self, volume: &Volume, chip: &RawChip) -> Result<(Found, Vec<Survivor>), Failed> {
        self.cuts_power(volume)?;
        recover::<Recorded>(self.members.first(), volume, None, chip)
    }

    /// As [`Board::recover`], of a block device.
    ///
    /// # Errors
    /// As [`Board::recover`].
    pub fn recover_block(&self, volume: &Volume, image: &BlockImage) -> Result<(Found, Vec<Survivor>), Failed> {
        self.cuts_power(volume)?;
        recover::<BlockRecorded>(self.members.first(), volume, None, image)
    }

    /// Refuses to model the data TLB that a plan names, by its processor's profile: the board's accesses are seen, or
    /// what the plan's operations copy can be followed.
    ///
    /// # Errors
    /// `ErrorKind::Board` with the reason, and the fix as its hint; `ErrorKind::User` if the profile is unknown.
    pub fn models(&self, plan: &Plan) -> Result<()> {
        let Some(processor) = &plan.tlb else { return Ok(()) };
        if modelled::followed(plan).is_none() {
            self.capabilities.accesses.refuse()?;
        }
        Processor::load(&self.context.devices, processor).map(|_| ())
    }

    /// Runs a command on the board; returns its output and exit status. If states are saved, its changes are discarded.
    ///
    /// # Errors
    /// `ErrorKind::Board` if the board fails or the command cannot be started.
    pub fn exec(&self, argv: &[String]) -> Result<(Vec<u8>, i32), Failed> {
        self.exec_after(&[], argv)
    }

    /// As [`Board::exec`], in the state after `steps`.
    ///
    /// # Errors
    /// `ErrorKind::Board` if the board fails or the command cannot be started.
    pub fn exec_after(&self, steps: &[Step], argv: &[String]) -> Result<(Vec<u8>, i32), Failed> {
        ordered(self.members.first(), steps, Order::Exec { argv: argv.to_vec() }, |folder, reply| {
            let Response::Executed { status } = reply else {
                return Err(Error::bug("the board's reply is not a command reply"));
            };
            let output = std::fs::read(folder.join("output")).board(|| "the command produced no output".into())?;
            Ok((output, status))
        })
    }

    /// Joins the board's console to `input` and `output` until the boot or the shell is over.
    ///
    /// # Errors
    /// `ErrorKind::User` if it has none; `ErrorKind::Board` if it fails.
    pub fn console(
        &self,
        what: Console,
        input: Box<dyn Read + Send>,
        output: Box<dyn Write + Send>,
    ) -> Result<(), Failed> {
        self.members.first().transport.console(what, input, output)
    }
}

/// Has the runner carry out an order in the state after `after`, and reads what it left.
fn ordered<T>(
    member: &Member,
    after: &[Step],
    order: Order,
    read: impl FnOnce(&Path, Response) -> Result<T>,
) -> Result<T, Failed> {
    let folder = put_order(member, order)?;
    member.transport.carry_out(after, folder.path())?;
    reply(member, folder.path(), |reply| read(folder.path(), reply))
}

/// A folder with an order.
fn put_order(member: &Member, order: Order) -> Result<TempDir> {
    let folder = member.transport.folder()?;
    let request = Request { board: member.description.clone(), order };
    put(request, folder.path(), member.transport.cache())?;
    Ok(folder)
}

/// Reads the reply of an order that was carried out.
fn reply<T>(member: &Member, folder: &Path, read: impl FnOnce(Response) -> Result<T>) -> Result<T, Failed> {
    let read = read_response(folder).and_then(read);
    read.map_err(|error| Failed { console: member.transport.console_tail(folder), ..Failed::from(error) })
}

fn record<R: Record>(member: &Member, plan: &Plan) -> Result<(Measured, R), Failed> {
    let steps = plan.steps();
    let [contents_file, changes_file] = R::FILES;
    let contents = |folder: &Path| -> Result<R::Contents> {
        let file = std::fs::read(folder.join(contents_file));
        R::decode(&file.board(|| "the board did not send what its flash holds".into())?)
    };
    let before = ordered(member, &steps, R::read(), |folder, _| contents(folder))?;
    let order = Order::Measure { plan: Box::new(plan.clone()) };
    ordered(member, &steps, order, |folder, reply| {
        let measured = read_measured(folder, reply)?;
        let log = std::fs::read(folder.join(changes_file)).board(|| "the board recorded no changes".into())?;
        let sector_bytes = member.transport.sector_bytes();
        Ok((measured, R::of(before, &log, contents(folder)?, sector_bytes)?))
    })
}

fn recover<R: Record>(
    member: &Member,
    volume: &Volume,
    engine: Option<DatabaseEngine>,
    contents: &R::Contents,
) -> Result<(Found, Vec<Survivor>), Failed> {
    let folder = put_order(member, Order::Recover { volume: volume.clone(), engine })?;
    let file = folder.path().join(R::FILES[0]);
    std::fs::write(&file, R::encode(contents)).board(|| format!("cannot write {}", file.display()))?;
    member.transport.carry_out(&[], folder.path())?;
    reply(member, folder.path(), |reply| {
        let Response::Recovered { found } = reply else {
            return Err(Error::bug("the board's reply does not say what it found"));
        };
        Ok((found, read_survivors(folder.path())?))
    })
}

/// What was on a volume, as the board left it.
fn read_survivors(folder: &Path) -> Result<Vec<Survivor>> {
    let survivors = std::fs::read(folder.join(SURVIVORS_FILE));
    decode_survivors(&survivors.board(|| "the board did not send what it found".into())?)
}

/// The prepared workload of a plan, if it has one.
fn trace_of(member: &Member, plan: &Plan) -> Result<Option<Arc<Trace>>> {
    let Some(spec) = plan.workload.database() else { return Ok(None) };
    let path = trace_file(&member.transport.cache().folder(TRACES)?, &spec.trace);
    let file = std::fs::read(&path).board(|| format!("cannot read {}", path.display()))?;
    Ok(Some(Arc::new(Trace::decode(&file)?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cache;
    use crate::transport::{Undisturbed, of_a_real_machine};
    use pocketstone_core::board::{BoardDescription, Places};
    use pocketstone_core::pattern::Pattern;
    use pocketstone_core::volume::FileSystem;
    use pocketstone_workload::{ReadSpec, Workload};
    use std::sync::Mutex;

    /// How long others have the machine.
    const OTHERS: Duration = Duration::from_millis(50);

    /// A machine of which nothing is known but what it says, and what it is told.
    struct Said(Capabilities, Cache, Arc<Mutex<Vec<&'static str>>>);

    impl Said {
        fn told(&self, what: &'static str) {
            self.2.lock().unwrap().push(what);
        }
    }

    impl Transport for Said {
        fn describe(&self) -> BoardDescription {
            BoardDescription { capabilities: self.0.clone(), places: Places::default(), settings: Vec::new() }
        }

        fn facts(&self) -> Result<Facts, Failed> {
            Ok(Facts::new())
        }

        fn offers(&self, _: &Volume) -> Result<Offer> {
            Ok(Offer::Try)
        }

        fn cache(&self) -> &Cache {
            &self.1
        }

        fn folder(&self) -> Result<TempDir> {
            self.told("order");
            Err(Error::bug("no order is carried out"))
        }

        fn alone(&self) -> Result<Undisturbed<'_>> {
            std::thread::sleep(OTHERS);
            self.told("alone");
            Ok(Undisturbed::until(|| self.told("others")))
        }

        fn await_fitness(&self) -> Result<(), Failed> {
            self.told("fit");
            Ok(())
        }

        fn clean(&self, _: &Plan) {
            self.told("clean");
        }

        fn carry_out(&self, _: &[Step], _: &Path) -> Result<(), Failed> {
            Err(Error::bug("no order is carried out").into())
        }
    }

    /// A board of such a machine, and what that is told.
    fn board_in(folder: &Path, capabilities: Capabilities) -> (Board, Arc<Mutex<Vec<&'static str>>>) {
        let (cache, told) = (Cache::at(folder).unwrap(), Arc::default());
        let context = BoardContext::uninterrupted(cache.clone(), folder.to_owned(), Arc::new(|_| {}));
        let said = Said(capabilities, cache, Arc::clone(&told));
        (Board::new("b", vec![Box::new(said)], &context).unwrap(), told)
    }

    #[test]
    fn nobody_else_measures_from_before_a_machine_is_fit_until_it_is_cleaned_and_the_wait_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let (board, told) = board_in(folder.path(), of_a_real_machine());
        let volume = Volume::usual(FileSystem::Tmpfs);
        let plan = Plan::new(1, volume.clone(), Workload::Read(ReadSpec::new(Pattern::Random, 16)));
        let failed = board.measure(&plan).unwrap_err();
        assert!(failed.waited >= OTHERS && failed.waited < 10 * OTHERS, "{:?}", failed.waited);
        assert_eq!(std::mem::take(&mut *told.lock().unwrap()), ["alone", "fit", "order", "clean", "others"]);
        // Attempts at what it can do measure, too; a command by hand waits for nobody.
        assert!(board.offers(&volume).is_err() && board.abilities().is_err() && board.exec(&[]).is_err());
        assert_eq!(*told.lock().unwrap(), ["alone", "order", "others", "alone", "order", "others", "order"]);
    }

    #[test]
    fn what_a_board_can_do_is_what_it_says() {
        let folder = tempfile::tempdir().unwrap();
        let board = |capabilities| board_in(folder.path(), capabilities).0;
        let (jffs2, f2fs, tmpfs) = (FileSystem::Jffs2, FileSystem::F2fs, FileSystem::Tmpfs);
        let [jffs2, f2fs, tmpfs] = [jffs2, f2fs, tmpfs].map(Volume::usual);
        let real = board(of_a_real_machine());
        for refused in [real.cuts_power(&jffs2), real.wears(&jffs2)] {
            assert!(refused.unwrap_err().cure().is_some_and(|cure| cure.contains("virt-nand")));
        }
        let able = board(Capabilities { power_cuts: Ability::Yes, chip_faults: Ability::Yes, ..of_a_real_machine() });
        for volume in [&jffs2, &f2fs] {
            able.cuts_power(volume).unwrap();
        }
        able.wears(&jffs2).unwrap();
        assert!(able.cuts_power(&tmpfs).unwrap_err().message().contains("writes nothing to the board's flash"));
        assert!(able.wears(&f2fs).unwrap_err().message().contains("is not on raw NAND"));
    }
}
