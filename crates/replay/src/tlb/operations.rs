//! Addresses that the operations of any workload on files touch when each file is one range of memory, as SCMFS's files
//! are.

use super::copies::{BUFFER, FILE, HUGE_FILE, SMALL_PAGE_BYTES, other_pages, touch};
use pocketstone_core::{Error, Result};
use pocketstone_tlb::{Counts, HUGE_PAGE_BITS, Processor, SMALL_PAGE_BITS, Tlb};
use pocketstone_workload::{FileWorkload, Operation};
use std::collections::{BTreeMap, BTreeSet};

/// Addresses that a file may have, in bytes: none is larger.
const SLOT_BYTES: u64 = 1 << 30;
/// From one range to the next. Each begins a page further into its GiB than the one before: else all would begin
/// in set 0 of every array, as files one after another in a region do not.
const SMALL_STRIDE_BYTES: u64 = SLOT_BYTES + SMALL_PAGE_BYTES;
const HUGE_STRIDE_BYTES: u64 = SLOT_BYTES + (1 << HUGE_PAGE_BITS);

/// A file as the model sees it.
#[derive(Debug, Clone, Copy, Default)]
struct Kept {
    bytes: u64,
    /// Which range of addresses it has.
    slot: u64,
    /// Whether it has moved to huge pages.
    huge: bool,
}

/// The files, the buffer and the TLB.
struct Model {
    tlb: Tlb,
    threshold_bytes: Option<u64>,
    request_bytes: u64,
    files: BTreeMap<u32, Kept>,
    free_slots: BTreeSet<u64>,
    slots: u64,
}

/// Misses of `processor`'s TLB, empty at first, in the measured operations of a workload. A call that moves bytes
/// touches 16 other pages of 4 KiB, and then copies between the one buffer, which lies in such pages, and the file's
/// range. That has pages of 4 KiB until the file is larger than the threshold (`None`: always), and of 2 MiB from then
/// on: the call that makes it so first copies what is there. Ranges of deleted files are used again, the first one
/// first. What allocation, names and attributes touch is left out.
///
/// # Errors
/// `ErrorKind::User` for a workload of several threads, or that maps files or packs them: the model has no addresses
/// for those; or if a file is larger than 1 GiB.
pub fn count(
    processor: &Processor,
    workload: &dyn FileWorkload,
    seed: u64,
    threshold_bytes: Option<u64>,
) -> Result<Counts> {
    if workload.threads() > 1 {
        return Err(Error::user("the model of a TLB follows one thread").hint("omit tlb, or set threads = 1"));
    }
    let population = workload.population(seed);
    let mut model = Model {
        tlb: Tlb::new(processor),
        threshold_bytes,
        request_bytes: workload.request_bytes().max(1),
        files: BTreeMap::new(),
        free_slots: BTreeSet::new(),
        slots: 0,
    };
    for (number, new) in (0..).zip(population.list()) {
        model.create(number);
        model.resize(number, new.bytes)?;
    }
    for operation in workload.setup() {
        model.apply(&operation)?;
    }
    model.tlb = Tlb::new(processor);
    for operation in workload.operations(seed) {
        model.apply(&operation)?;
    }
    Ok(model.tlb.counts())
}

impl Model {
    fn create(&mut self, file: u32) {
        let slot = self.free_slots.pop_first().unwrap_or_else(|| {
            self.slots += 1;
            self.slots - 1
        });
        self.files.insert(file, Kept { bytes: 0, slot, huge: false });
    }

    fn delete(&mut self, file: u32) {
        if let Some(kept) = self.files.remove(&file) {
            self.free_slots.insert(kept.slot);
        }
    }

    fn kept(&mut self, file: u32) -> Result<&mut Kept> {
        self.files.get_mut(&file).ok_or_else(|| Error::bug(format!("the model has no file {file}")))
    }

    /// Gives a file another size without a copy of new content; one that outgrows the threshold moves.
    fn resize(&mut self, file: u32, bytes: u64) -> Result<()> {
        if bytes > SLOT_BYTES {
            return Err(Error::user(format!("the model of a TLB has no room for a file of {bytes} bytes"))
                .hint("omit tlb, or use smaller files"));
        }
        let threshold = self.threshold_bytes;
        let kept = self.kept(file)?;
        let (before, moves) = (*kept, !kept.huge && threshold.is_some_and(|threshold| bytes > threshold));
        kept.bytes = bytes;
        // One that is cut to nothing begins anew.
        kept.huge = (kept.huge && bytes > 0) || moves;
        let after = *kept;
        if moves {
            self.tlb.copy(small(before), address(after), before.bytes, page_bits);
        }
        Ok(())
    }

    fn moved(&mut self, file: u32, offset: u64, bytes: u64, store: bool) -> Result<()> {
        let mut done = 0;
        while done < bytes {
            let part = (bytes - done).min(self.request_bytes);
            let end = offset + done + part;
            if store && end > self.kept(file)?.bytes {
                self.resize(file, end)?;
            }
            let at = address(*self.kept(file)?) + offset + done;
            self.call(at, part, store);
            done += part;
        }
        Ok(())
    }

    /// One call that copies between the buffer and a file's address, piece by piece, each within one page of 4 KiB of
    /// both; of each the buffer's page comes first, as in [`Copies`](super::Copies).
    fn call(&mut self, at: u64, bytes: u64, store: bool) {
        other_pages(&mut self.tlb);
        let mut done = 0;
        while done < bytes {
            let (buffer, file) = (BUFFER + done, at + done);
            self.tlb.access(touch(buffer, SMALL_PAGE_BITS, !store));
            self.tlb.access(touch(file, page_bits(file), store));
            done += SMALL_PAGE_BYTES - (buffer % SMALL_PAGE_BYTES).max(file % SMALL_PAGE_BYTES);
        }
    }

    fn apply(&mut self, operation: &Operation) -> Result<()> {
        match *operation {
            Operation::Read { file, offset, bytes } => self.moved(file, offset, bytes, false),
            Operation::Write { file, offset, bytes } => self.moved(file, offset, bytes, true),
            Operation::Append { file, bytes } | Operation::Fill { file, bytes } => {
                let end = self.kept(file)?.bytes;
                self.moved(file, end, bytes, true)
            }
            Operation::ReadOpen { file } | Operation::ReadFile { file } => {
                let bytes = self.kept(file)?.bytes;
                self.moved(file, 0, bytes, false)
            }
            Operation::WriteFile { file, bytes } => {
                self.resize(file, 0)?;
                self.moved(file, 0, bytes, true)
            }
            Operation::Truncate { file, bytes } | Operation::Allocate { file, bytes } => self.resize(file, bytes),
            Operation::Create { file } | Operation::CreateFile { file } => {
                self.create(file);
                Ok(())
            }
            Operation::Open { file, .. } => {
                if !self.files.contains_key(&file) {
                    self.create(file);
                }
                Ok(())
            }
            Operation::Delete { file } => {
                self.delete(file);
                Ok(())
            }
            Operation::Rename { file, to } => {
                self.delete(to);
                if let Some(kept) = self.files.remove(&file) {
                    self.files.insert(to, kept);
                }
                Ok(())
            }
            Operation::Map { .. } | Operation::Touch { .. } | Operation::Archive { .. } => {
                Err(Error::user("the model of a TLB follows neither mappings nor archives").hint("omit tlb"))
            }
            // The kernel's own work, of which the model knows nothing.
            Operation::Close { .. }
            | Operation::LookUp { .. }
            | Operation::Attributes { .. }
            | Operation::SeekEnd { .. }
            | Operation::SetOwner { .. }
            | Operation::MakeDirectory { .. }
            | Operation::List
            | Operation::Sync { .. }
            | Operation::SyncData { .. }
            | Operation::SyncFolder
            | Operation::Evict { .. }
            | Operation::Invalidate { .. }
            | Operation::Prefetch { .. }
            | Operation::Turn { .. }
            | Operation::Pause { .. } => Ok(()),
        }
    }
}

fn small(kept: Kept) -> u64 {
    FILE + kept.slot * SMALL_STRIDE_BYTES
}

fn address(kept: Kept) -> u64 {
    if kept.huge { HUGE_FILE + kept.slot * HUGE_STRIDE_BYTES } else { small(kept) }
}

/// Which pages an address lies in.
fn page_bits(address: u64) -> u32 {
    if address >= HUGE_FILE { HUGE_PAGE_BITS } else { SMALL_PAGE_BITS }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn model(threshold_bytes: Option<u64>) -> Model {
        let devices = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../devices");
        Model {
            tlb: Tlb::new(&Processor::load(&devices, "i5-750").unwrap()),
            threshold_bytes,
            request_bytes: 4096,
            files: BTreeMap::new(),
            free_slots: BTreeSet::new(),
            slots: 0,
        }
    }

    fn create(file: u32, bytes: u64) -> [Operation; 2] {
        [Operation::Create { file }, Operation::Append { file, bytes }]
    }

    /// By hand: 16 other pages and the buffer's, once, and a page of each file that has a range of its own.
    #[test]
    fn the_range_of_a_deleted_file_is_the_next_ones() {
        let walks = |between: Operation| {
            let mut model = model(None);
            let [first, second] = [0, 1].map(|file| create(file, 4096));
            first.iter().chain([&between]).chain(&second).for_each(|operation| model.apply(operation).unwrap());
            model.tlb.counts().walks
        };
        assert_eq!(walks(Operation::Close { file: 0 }), 16 + 1 + 2);
        assert_eq!(walks(Operation::Delete { file: 0 }), 16 + 1 + 1);
    }

    /// The second level has 512 entries, and its sets 4 each: room for 40 files unless they share one set. The first
    /// level has 32 entries for huge pages.
    #[test]
    fn files_do_not_share_a_set() {
        for (threshold_bytes, files) in [(None, 40), (Some(0), 24)] {
            let mut model = model(threshold_bytes);
            let all = (0..files).flat_map(|file| create(file, 4096));
            all.for_each(|operation| model.apply(&operation).unwrap());
            let before = model.tlb.counts().walks;
            (0..files).for_each(|file| model.apply(&Operation::ReadFile { file }).unwrap());
            assert_eq!(model.tlb.counts().walks, before, "{threshold_bytes:?}");
        }
    }

    #[test]
    fn a_file_has_small_pages_however_many_there_are() {
        let kept = |huge| Kept { bytes: 4096, slot: 1 << 20, huge };
        assert_eq!([false, true].map(|huge| page_bits(address(kept(huge)))), [SMALL_PAGE_BITS, HUGE_PAGE_BITS]);
    }
}
