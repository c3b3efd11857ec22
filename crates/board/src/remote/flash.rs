//! Raw flash of a board behind ssh: whether the profile lets it be erased.

use crate::profile::{Erase, FlashProfile};
use pocketstone_core::volume::{Medium, Volume};
use pocketstone_core::{Error, Result};

/// Whether volumes of this kind take a partition of the board's flash.
pub fn is_on(volume: &Volume) -> bool {
    matches!(volume.medium, Medium::Mtd | Medium::Ubi)
}

/// The partition that may be erased.
///
/// # Errors
/// `ErrorKind::Board` if the profile names none, or forbids it.
pub fn partition<'a>(flash: Option<&'a FlashProfile>, volume: &Volume) -> Result<&'a str> {
    match flash {
        Some(FlashProfile { partition, erase: Erase::Allowed }) => Ok(partition),
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
        assert_eq!(partition(Some(&flash(Erase::Allowed)), &jffs2).unwrap(), "data");
        let error = partition(Some(&flash(Erase::Forbidden)), &jffs2).unwrap_err();
        assert!(error.message().contains("would erase the partition \"data\""), "{}", error.chain());
        assert!(partition(None, &jffs2).unwrap_err().cure().unwrap().contains("[flash]"));
        assert!(is_on(&jffs2) && !is_on(&Volume::named("tmpfs").unwrap()));
    }
}
