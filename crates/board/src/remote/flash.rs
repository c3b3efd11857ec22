//! Raw flash of a board behind ssh: whether the profile lets it be erased.

use crate::profile::{Erase, FlashProfile};
use pocketstone_core::volume::Volume;
use pocketstone_core::{Error, Result};

/// Refuses a volume on raw flash that may not be erased.
///
/// # Errors
/// `ErrorKind::Board` if the profile names no partition, or forbids it.
pub fn check(flash: Option<&FlashProfile>, volume: &Volume) -> Result<()> {
    match flash {
        Some(FlashProfile { erase: Erase::Allowed, .. }) => Ok(()),
        Some(FlashProfile { partition, erase: Erase::Forbidden }) => {
            Err(Error::board(format!("{} would erase the partition {partition:?}", volume.name()))
                .hint("if nothing on it is needed, set erase = \"allowed\" in [flash] of the board's profile"))
        }
        None => Err(Error::board(format!("{} takes a whole partition of raw flash", volume.name())).hint(
            "name one that may be erased in the board's profile: [flash] with partition = \"NAME\" and \
             erase = \"allowed\"; or measure one that is mounted: directory = \"/mnt/flash\"",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_partition_that_may_be_erased_is_used() {
        let jffs2 = Volume::named("jffs2").unwrap();
        let flash = |erase| FlashProfile { partition: "data".into(), erase };
        check(Some(&flash(Erase::Allowed)), &jffs2).unwrap();
        let error = check(Some(&flash(Erase::Forbidden)), &jffs2).unwrap_err();
        assert!(error.message().contains("would erase the partition \"data\""), "{}", error.chain());
        assert!(check(None, &jffs2).unwrap_err().cure().unwrap().contains("[flash]"));
        assert!(jffs2.on_raw_nand() && !Volume::named("tmpfs").unwrap().on_raw_nand());
    }
}
