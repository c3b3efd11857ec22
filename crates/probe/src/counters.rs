//! Events that the processor or the kernel counts for a process, by perf_event_open(2): misses of the data TLB,
//! page faults, time on processors.

use libc::c_long;
use pocketstone_core::counted::Counted;
use pocketstone_core::{Error, Result};
use std::fs::File;
use std::io::Read;
use std::os::fd::FromRawFd;

/// Those of a data TLB.
pub const DATA_TLB: [Counted; 3] = [Counted::DataTlbLoadMisses, Counted::DataTlbStoreMisses, Counted::DataPageWalks];

/// `PERF_TYPE_*` of include/uapi/linux/perf_event.h.
const SOFTWARE: u32 = 1;
const CACHE: u32 = 3;
const RAW: u32 = 4;
/// `PERF_COUNT_SW_TASK_CLOCK`.
const TASK_CLOCK: u64 = 1;
/// `PERF_COUNT_SW_PAGE_FAULTS`.
const PAGE_FAULTS: u64 = 2;
/// `PERF_COUNT_HW_CACHE_DTLB`, and the result `MISS` at its place.
const DATA_TLB_MISS: u64 = 3 | 1 << 16;
/// The operation `WRITE` at its place.
const WRITE: u64 = 1 << 8;
/// `DTLB_WALK` of the ARM Architecture Reference Manual (ARMv8), D11.11.3.
const ARM_DATA_TLB_WALK: u64 = 0x34;
/// Bits of the attributes: `disabled`, `inherit`, `exclude_hv`.
const FLAGS: u64 = 1 | 1 << 1 | 1 << 6;
/// `PERF_FORMAT_TOTAL_TIME_ENABLED`, `PERF_FORMAT_TOTAL_TIME_RUNNING`.
const TIMES: u64 = 3;
/// `PERF_EVENT_IOC_ENABLE` and `PERF_EVENT_IOC_DISABLE`: _IO('$', 0) and _IO('$', 1).
const ENABLE: u32 = 0x2400;
const DISABLE: u32 = 0x2401;

/// The kernel's `perf_event_attr` in its first version, of 64 bytes.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    bytes: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    config1: u64,
}

/// The event's type and number.
fn event(what: Counted) -> Result<(u32, u64)> {
    match what {
        Counted::DataTlbLoadMisses => Ok((CACHE, DATA_TLB_MISS)),
        Counted::DataTlbStoreMisses => Ok((CACHE, DATA_TLB_MISS | WRITE)),
        Counted::DataPageWalks if cfg!(target_arch = "aarch64") => Ok((RAW, ARM_DATA_TLB_WALK)),
        Counted::DataPageWalks => Err(Error::board("page walks have no event that all processors of this kind share")),
        Counted::PageFaults => Ok((SOFTWARE, PAGE_FAULTS)),
        Counted::TaskClock => Ok((SOFTWARE, TASK_CLOCK)),
    }
}

/// A counter of a thread and of all that it starts from then on, in programs and kernel.
#[derive(Debug)]
pub struct Counter {
    file: File,
    what: Counted,
}

impl Counter {
    /// A counter of thread `pid`, or of the calling one for `None`; it stands still.
    ///
    /// # Errors
    /// `ErrorKind::Board` with the reason, and the fix as its hint, if the machine does not count it or not for this
    /// user.
    pub fn open(what: Counted, pid: Option<u32>) -> Result<Counter> {
        let (kind, config) = event(what)?;
        let bytes = size_of::<Attributes>() as u32;
        let attributes = Attributes { kind, bytes, config, read_format: TIMES, flags: FLAGS, ..Attributes::default() };
        let (pid, any, closed): (c_long, c_long, c_long) = (pid.unwrap_or(0) as c_long, -1, 8);
        // SAFETY: the attributes are a structure of the kernel's first version that says its size; the call only reads
        // them. The last arguments: any processor, no group, closed in programs that are started.
        let file = unsafe { libc::syscall(libc::SYS_perf_event_open, &raw const attributes, pid, any, any, closed) };
        if file < 0 {
            let error = std::io::Error::last_os_error();
            let cure = match error.raw_os_error() {
                Some(libc::EACCES | libc::EPERM) => "run as root, or: sudo sysctl kernel.perf_event_paranoid=1",
                Some(libc::ENOSYS) => "use a kernel with CONFIG_PERF_EVENTS",
                _ => "use a machine that is not virtual; `pocketstone tlb` models the misses",
            };
            let what = format!("{} cannot be counted here", what.in_words());
            return Err(Error::board(what).because(error).hint(cure));
        }
        // SAFETY: a new file descriptor that nobody else has.
        Ok(Counter { file: unsafe { File::from_raw_fd(file as i32) }, what })
    }

    /// Counts from now on.
    ///
    /// # Errors
    /// `ErrorKind::Board` if the kernel refuses.
    pub fn start(&self) -> Result<()> {
        self.control(ENABLE)
    }

    /// Stands still from now on.
    ///
    /// # Errors
    /// `ErrorKind::Board` if the kernel refuses.
    pub fn stop(&self) -> Result<()> {
        self.control(DISABLE)
    }

    /// What was counted.
    ///
    /// # Errors
    /// `ErrorKind::Board` if the counter was taken away for a while: then the number is not all.
    pub fn read(&mut self) -> Result<u64> {
        let mut words = [0; 24];
        let lost = |why: &str| Error::board(format!("{} were not counted: {why}", self.what.in_words()));
        (&self.file).read_exact(&mut words).map_err(|e| lost("the counter cannot be read").because(e))?;
        let word = |n: usize| words[8 * n..].first_chunk().copied().map_or(0, u64::from_ne_bytes);
        match word(2) < word(1) {
            false => Ok(word(0)),
            true => Err(lost("others used the processor's counters meanwhile").hint("end other programs that count")),
        }
    }

    fn control(&self, request: u32) -> Result<()> {
        use std::os::fd::AsRawFd;
        // SAFETY: a request without an argument, on a counter of our own.
        match unsafe { libc::ioctl(self.file.as_raw_fd(), request as _, 0) } {
            0 => Ok(()),
            _ => Err(Error::board(format!("{} cannot be counted", self.what.in_words()))
                .because(std::io::Error::last_os_error())),
        }
    }
}

/// Whether this machine counts misses of its data TLB.
///
/// # Errors
/// As [`Counter::open`].
pub fn data_tlb_counters() -> Result<()> {
    DATA_TLB[..2].iter().try_for_each(|what| Counter::open(*what, None).map(drop))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pocketstone_testing::{Need, or_skip};

    /// The kernel's own events, which need no processor's counters: a page of fresh memory faults once.
    #[test]
    fn a_page_fault_is_counted_between_start_and_stop_alone() {
        const PAGES: usize = 300;
        let counter = Counter::open(Counted::PageFaults, None);
        let mut counter = or_skip!(counter.map_err(|e| Need::Kernel.lacks(format_args!("no counters: {}", e.chain()))));
        let fault = || {
            let bytes = PAGES * rustix::param::page_size();
            let (prot, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            // SAFETY: a new mapping of our own, stored to within its bounds and unmapped.
            unsafe {
                let memory = libc::mmap(std::ptr::null_mut(), bytes, prot, flags, -1, 0);
                assert_ne!(memory, libc::MAP_FAILED);
                libc::madvise(memory, bytes, libc::MADV_NOHUGEPAGE);
                (0..bytes).step_by(bytes / PAGES).for_each(|at| memory.cast::<u8>().add(at).write_volatile(1));
                libc::munmap(memory, bytes);
            }
        };
        fault();
        assert_eq!(counter.read().unwrap(), 0, "it stands still");
        counter.start().unwrap();
        fault();
        counter.stop().unwrap();
        let counted = counter.read().unwrap();
        fault();
        assert!((PAGES as u64..PAGES as u64 + 50).contains(&counted), "{counted}");
        assert_eq!(counter.read().unwrap(), counted);
    }

    #[test]
    fn a_machine_that_does_not_count_says_why_and_what_would_help() {
        let unknown = u32::MAX >> 1;
        let error = Counter::open(Counted::PageFaults, Some(unknown)).unwrap_err();
        assert!(error.chain().contains("page faults cannot be counted here"), "{}", error.chain());
        if let Err(error) = data_tlb_counters() {
            assert!(error.chain().contains("data TLB") && error.cure().is_some(), "{}", error.chain());
        }
    }
}
