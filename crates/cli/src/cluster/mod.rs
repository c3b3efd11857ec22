//! `pocketstone cluster`: the shards of a study on many machines, by an engine that those have.

mod exports;
mod scripts;
mod slurm;

use crate::arguments::ClusterCommand;
use crate::studies;
use pocketstone_core::Result;

/// Runs what the arguments name.
///
/// # Errors
/// `ErrorKind::User` for an invalid study or folder; `ErrorKind::Board` if the engine fails.
pub fn run(command: ClusterCommand) -> Result<u8> {
    match command {
        ClusterCommand::Slurm(mut arguments) => {
            let shares = &mut arguments.cluster.shares;
            shares.study = studies::find(&shares.study)?;
            slurm::slurm(&arguments)
        }
        ClusterCommand::Parallel(mut arguments) => {
            let shares = &mut arguments.cluster.shares;
            shares.study = studies::find(&shares.study)?;
            exports::parallel(&arguments)
        }
        ClusterCommand::Kubernetes(arguments) => exports::kubernetes(&arguments),
    }
}
