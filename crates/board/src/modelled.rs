//! Data TLBs that are modelled beside the machine: of SCMFS in process, from what the operations copy.

use crate::measured::Measured;
use pocketstone_core::volume::{Access, FileSystem, Threshold};
use pocketstone_core::{Error, Result};
use pocketstone_replay::tlb::count_operations;
use pocketstone_tlb::Processor;
use pocketstone_tlb::join::Joined;
use pocketstone_workload::FileWorkload;
use pocketstone_workload::plan::Plan;
use std::path::Path;

/// The threshold of a volume whose plan says nothing: SCMFS's own.
const USUAL: Threshold = Threshold::Kib128;

/// The workload whose copies can be followed without seeing the machine's accesses, if the plan's can.
pub(crate) fn followed(plan: &Plan) -> Option<&dyn FileWorkload> {
    let in_process = plan.volume.file_system == FileSystem::Scmfs && plan.volume.access == Access::InProcess;
    let workload = plan.workload.on_files().filter(|workload| workload.threads() == 1 && !workload.maps());
    workload.filter(|_| in_process)
}

/// Counts the misses of a processor's data TLB in the operations of a plan that was measured.
///
/// # Errors
/// `ErrorKind::User` if the profile is unknown, or the model does not follow the workload.
pub(crate) fn count(devices: &Path, name: &str, plan: &Plan, measured: &mut Measured) -> Result<()> {
    let workload = followed(plan).ok_or_else(|| Error::bug("a plan's copies cannot be followed"))?;
    let processor = Processor::load(devices, name)?;
    let threshold = plan.volume.setup.threshold.unwrap_or(USUAL).bytes();
    let run = count_operations(&processor, workload, plan.seed, threshold)?;
    measured.tlb = Some(Joined::of_run(run));
    measured.outcome.facts.insert("tlb.processor".into(), processor.to_text()?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pocketstone_scmfs::CreateOptions;

    #[test]
    fn the_usual_threshold_is_that_of_the_file_system() {
        assert_eq!(CreateOptions::default().threshold, pocketstone_scmfs::Threshold::Bytes(USUAL.bytes().unwrap()));
    }
}
