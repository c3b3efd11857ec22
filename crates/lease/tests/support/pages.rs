//! Whose a page is, where it is not free again before those have done who may still store to it.

pub const OURS: u8 = 0;
pub const OTHERS: u8 = 1;
pub const FREE: u8 = 2;
/// Nobody's yet; the lower bits are the slots that have to be cleared first.
const QUARANTINE: u8 = 0x80;

/// What a page becomes that is given up while these slots are set.
pub fn given_up(slots: u8) -> u8 {
    if slots == 0 { FREE } else { QUARANTINE | slots }
}

/// A process's slot is cleared: pages that waited for it alone are free.
pub fn clear_slot(owners: &mut [u8], process: usize) {
    for owner in owners.iter_mut().filter(|owner| **owner & QUARANTINE != 0) {
        *owner &= !(1 << process);
        if *owner == QUARANTINE {
            *owner = FREE;
        }
    }
}

/// A page that is nobody's.
pub fn free(owners: &[u8]) -> Option<usize> {
    owners.iter().position(|owner| *owner == FREE)
}
