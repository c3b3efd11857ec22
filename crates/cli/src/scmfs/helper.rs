//! What mount(8) says to the mount helper, and what mount options mean.

use crate::arguments::{MOUNT_OPTIONS, MountArguments, parse_time};
use pocketstone_cli::mounts::{Asked, HelperArguments};
use pocketstone_core::{Error, Result};
use pocketstone_mount::{MountOptions, Preload};
use std::time::Duration;

/// More only take memory; and there may be none for them when the volume is open already.
const MOST_THREADS: usize = 1024;

/// A mount helper's arguments.
pub fn arguments(given: HelperArguments) -> MountArguments {
    let HelperArguments { source, directory, options, sloppy, fake } = given;
    MountArguments { region: source, directory, options, sloppy, fake, ..MountArguments::default() }
}

/// Applies the mount options among the arguments: to the arguments, and to how to mount.
pub fn apply(arguments: &mut MountArguments, options: &mut MountOptions) -> Result<()> {
    options.read_only = arguments.read_only;
    let (directory, given) = (arguments.directory.clone(), arguments.options.clone());
    let asked = Asked { directory: &directory, options: &given, sloppy: arguments.sloppy, own: MOUNT_OPTIONS };
    let mut preload = None;
    let said = asked.apply(options, |options, name, value| own(arguments, options, &mut preload, name, value))?;
    arguments.remount = said.remount;
    arguments.log = said.log.or(arguments.log.take());
    let lonely = arguments.every.is_some() || arguments.keep.is_some() || arguments.restore;
    if arguments.checkpoint.is_none() && lonely && !arguments.remount {
        return Err(Error::user("`every`, `keep` and `restore` need `checkpoint=TARGET`")
            .hint("for example -o checkpoint=/var/lib/volume,every=30s,restore"));
    }
    if let Some(threads) = arguments.threads.filter(|threads| *threads > MOST_THREADS) {
        return Err(Error::user(format!("{threads} server threads are too many"))
            .hint(format!("use at most {MOST_THREADS}; by default there is one per processor")));
    }
    options.direct_io = arguments.direct_io;
    // Reading is allowed unless something excludes it.
    options.preload = preload.unwrap_or(if options.atomic { Preload::Off } else { options.preload });
    options.threads = arguments.threads.unwrap_or(0);
    Ok(())
}

/// Applies a mount option that other file systems do not have; whether it is one.
fn own(
    arguments: &mut MountArguments,
    options: &mut MountOptions,
    preload: &mut Option<Preload>,
    name: &str,
    value: Option<&str>,
) -> Result<bool> {
    match (name, value) {
        ("direct_io", None) => arguments.direct_io = true,
        ("strict_open", None) => options.strict_open = true,
        ("writeback", None) => options.writeback = true,
        ("atomic", None) => options.atomic = true,
        ("preload", Some(value)) => {
            *preload = Some(match value {
                "off" => Preload::Off,
                "read" => Preload::Read,
                "write" => Preload::Write,
                "append" => Preload::Append,
                "map" => Preload::Map,
                _ => {
                    let wrong = Error::user(format!("`{value}` is no value of `preload`"));
                    return Err(wrong.hint("preload=off, preload=read, preload=write, preload=append or preload=map"));
                }
            });
        }
        ("persistent", None) => arguments.persistent = true,
        ("threads", Some(count)) => {
            let wrong = |e| Error::user(format!("`{count}` is not a number of threads")).because(e);
            arguments.threads = Some(count.parse().map_err(wrong)?);
        }
        ("busy_poll_us", Some(time)) => {
            let wrong = |e| Error::user(format!("`{time}` is not a number of microseconds")).because(e);
            options.busy_poll = Duration::from_micros(time.parse().map_err(wrong)?);
        }
        ("checkpoint", Some(target)) => arguments.checkpoint = Some(target.into()),
        ("every", Some(time)) => arguments.every = Some(parse_time(time).map_err(Error::user)?),
        ("keep", Some(count)) => {
            let wrong = |e| Error::user(format!("`{count}` is not a number of checkpoints")).because(e);
            arguments.keep = Some(count.parse().map_err(wrong)?);
        }
        ("restore", None) => arguments.restore = true,
        _ => return Ok(false),
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    fn parsed(line: &str) -> Result<MountArguments> {
        HelperArguments::parse(line.split(' ').map(OsString::from), "mount.scmfs REGION DIR").map(arguments)
    }

    #[test]
    fn a_helpers_arguments_are_understood() {
        let arguments = parsed("/r /mnt -n -sv -o rw,noatime -t fuse.scmfs").unwrap();
        assert_eq!((arguments.region.to_str(), arguments.directory.to_str()), (Some("/r"), Some("/mnt")));
        assert_eq!((arguments.options.join("+").as_str(), arguments.sloppy), ("rw,noatime", true));
        assert!(parsed("/r").is_err());
        assert!(parsed("/r /mnt -q").is_err());
        assert!(parsed("/r /mnt -o").is_err());
    }

    #[test]
    fn options_are_applied_and_unknown_ones_refused() {
        let line = "/r /mnt -o ro,noatime,threads=3,busy_poll_us=0,relatime,x-systemd.automount,nosuid";
        let mut arguments = parsed(line).unwrap();
        let mut options = MountOptions::default();
        assert!(!options.busy_poll.is_zero());
        apply(&mut arguments, &mut options).unwrap();
        assert!(options.busy_poll.is_zero());
        assert_eq!((options.read_only, options.noatime, options.threads, options.suid), (true, true, 3, false));
        let mut arguments = parsed("/r /mnt -o compress").unwrap();
        assert!(apply(&mut arguments, &mut options).unwrap_err().cure().is_some());
        arguments.sloppy = true;
        assert!(apply(&mut arguments, &mut options).is_ok());
    }

    #[test]
    fn so_many_threads_as_no_machine_starts_are_refused() {
        let threads = |given: usize, option: &str| {
            let mut arguments = parsed(&format!("/r /mnt -o noatime{option}")).unwrap();
            arguments.threads = Some(given);
            apply(&mut arguments, &mut MountOptions::default())
        };
        threads(1024, "").unwrap();
        for refused in [threads(1025, ""), threads(1, ",threads=999999")] {
            assert!(refused.unwrap_err().cure().unwrap().contains("at most 1024"));
        }
    }

    #[test]
    fn checkpoints_are_options_too() {
        let mut arguments = parsed("/r /mnt -o checkpoint=/t,every=5m,keep=3,restore").unwrap();
        apply(&mut arguments, &mut MountOptions::default()).unwrap();
        let every = arguments.every.map(|every| every.as_secs());
        assert_eq!(
            (arguments.checkpoint, every, arguments.keep, arguments.restore),
            (Some("/t".into()), Some(300), Some(3), true)
        );
        for wrong in
            ["every=5m", "restore", "keep=2", "checkpoint=/t,every=soon", "checkpoint=/t,keep=all", "checkpoint"]
        {
            let mut arguments = parsed(&format!("/r /mnt -o {wrong}")).unwrap();
            assert!(apply(&mut arguments, &mut MountOptions::default()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn options_with_a_value_are_not_given_without() {
        for name in ["preload", "threads", "busy_poll_us", "checkpoint", "every", "keep", "log"] {
            let mut arguments = parsed(&format!("/r /mnt -s -o {name}")).unwrap();
            let error = apply(&mut arguments, &mut MountOptions::default()).unwrap_err();
            assert_eq!(error.message(), format!("`{name}` needs a value"));
            assert!(error.cure().unwrap().starts_with(&format!("{name}=")));
        }
        let mut arguments = parsed("/r /mnt -o preload=all").unwrap();
        let error = apply(&mut arguments, &mut MountOptions::default()).unwrap_err();
        assert!(error.message().contains("`all` is no value"));
    }

    #[test]
    fn a_remount_takes_what_the_list_of_mounts_says() {
        let mut arguments = parsed("/r / -o rw,remount,ro,user_id=0,group_id=0,default_permissions").unwrap();
        let mut options = MountOptions::default();
        apply(&mut arguments, &mut options).unwrap();
        assert!(arguments.remount && options.read_only);
    }
}
