//! `mount`: a process that serves a volume, and the one that waits until it does.

use crate::arguments::MountArguments;
use crate::{checkpoint, helper, region};
use pocketstone_cli::mounts::{log_file, not_a_directory};
use pocketstone_cli::{explain, note};
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use pocketstone_mount::daemon::{self, Log};
use pocketstone_mount::{Before, MountOptions, Preload};
use pocketstone_scmfs::{OpenOptions, Volume};
use std::sync::Arc;

pub fn mount(given: &MountArguments) -> Result<u8> {
    let mut arguments = given.clone();
    let mut options = MountOptions { preload: Preload::Read, ..MountOptions::default() };
    helper::apply(&mut arguments, &mut options)?;
    if arguments.remount {
        return pocketstone_mount::remount(
            &region::canonical(&arguments.directory)?,
            pocketstone_mount::KIND,
            &options,
        )
        .map(|()| 0);
    }
    not_a_directory(&arguments.region, "scmfs mount REGION DIRECTORY")?;
    if !daemon::is_background() && !arguments.foreground && !arguments.fake {
        return daemon::in_background();
    }
    if pocketstone_mount::clean_up(&arguments.directory)? == Before::CleanedUp {
        let directory = arguments.directory.display();
        note("note", &format!("{directory} was mounted, but its server had died; unmounted"));
    }
    if let Some(target) = &arguments.checkpoint {
        arguments.checkpoint = Some(std::path::absolute(target).user(|| format!("cannot find {}", target.display()))?);
    }
    checkpoint::restore_empty(&arguments)?;
    // The working directory is given up, and the mount table should say the same to everybody.
    arguments.region = region::canonical(&arguments.region)?;
    arguments.directory = region::canonical(&arguments.directory)?;
    if let Some(log) = &arguments.log {
        arguments.log = Some(log_file(log)?);
    }
    options.source = region::text(&arguments.region)?.to_owned();
    let maps = options.preload == Preload::Map;
    if maps && arguments.checkpoint.is_some() {
        return Err(Error::user("`checkpoint` and `preload=map` are not for the same mount")
            .hint("leave one of them out: what programs store to mapped files is seen by no checkpoint"));
    }
    let region = region::open_to_serve(&arguments.region, !options.read_only, arguments.persistent, !maps)?;
    if arguments.fake {
        return Ok(0);
    }
    let warning = region::warning(&*region);
    let open = OpenOptions::default().read_only(options.read_only).background(true);
    let volume = Volume::open(region, &open).user(|| format!("cannot open {}", arguments.region.display()))?;
    if options.preload.stores() && !pocketstone_mount::stores_directly() {
        note(
            "warning",
            "preload=write, append and map need Linux 6.16: programs read without the kernel, and write by it",
        );
    }
    if let Some(warning) = warning {
        note("warning", &warning);
    }
    serve(volume, &arguments, options)
}

fn serve(volume: Volume, arguments: &MountArguments, mut options: MountOptions) -> Result<u8> {
    let log = Log::new("scmfs", arguments.log.clone(), |text| note("error", text));
    options.reporter = Some(log.reporter());
    let target = Arc::default();
    checkpoint::schedule(&volume, arguments, &options, &log, Arc::clone(&target))?;
    let volume = Arc::new(volume);
    let mounted = pocketstone_mount::mount_scmfs(volume.clone(), &arguments.directory, &options)?;
    let _ = target.set(mounted.target());
    if let Err(error) = daemon::watch(&mounted) {
        explain("warning", &error);
    }
    let close = || format!("cannot close {}", arguments.region.display());
    daemon::serve(mounted, &log, || match Arc::into_inner(volume) {
        Some(volume) => volume.close().user(close),
        None => Err(Error::bug(close()).because("it is still in use")),
    })?;
    Ok(0)
}
