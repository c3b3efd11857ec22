//! The events of a processor that lie in one packet.

use super::messages::{BlockRequest, CpuState, Ftrace, FtraceEvent, MmFilemapAddToPageCache, SchedSwitch, SchedWaking};
use super::messages::{SchedProcessFork, kernels_device};
use super::wire::{Fields, Numbers, Value, field};
use super::{Reader, decoded, names, text};
use crate::ftrace::{START, Twin, block_request};
use pocketstone_core::events::{Event, EventKind};
use pocketstone_core::{Error, Result};

/// Names that a bundle's table may have; `traced` begins a new bundle after some 64.
const MOST_NAMES: usize = 1 << 16;

/// Of an event's fields, those of the event itself: when, by which thread, and the interrupts in force.
const ABOUT_EVENT: [u32; 3] = [1, 2, 5];

/// What a bundle says of all its events.
#[derive(Default)]
struct Bundle {
    cpu: u16,
    lost: bool,
    /// What is added to its times, which are of another clock.
    shift_ns: i64,
    /// They are, and nobody knows what to add.
    has_other_clock: bool,
    /// The times of its first and last event.
    span: Option<(u64, u64)>,
}

impl Bundle {
    fn time(&mut self, time_ns: u64) -> Result<u64> {
        let time_ns = time_ns.checked_add_signed(self.shift_ns);
        let time_ns = time_ns.ok_or_else(|| Error::board("an event is before the machine's start"))?;
        let (first, last) = self.span.unwrap_or((time_ns, time_ns));
        self.span = Some((first.min(time_ns), last.max(time_ns)));
        Ok(time_ns)
    }
}

impl Reader<'_> {
    /// Takes a bundle's events; the times of the first and the last.
    pub(super) fn bundle(&mut self, content: &[u8]) -> Result<Option<(u64, u64)>> {
        let mut bundle = head(content)?;
        self.reading.has_other_clock |= bundle.has_other_clock;
        for field in Fields::of(content) {
            match field? {
                (field::BUNDLE_EVENT, Value::Bytes(event)) => self.event(&mut bundle, event)?,
                (field::BUNDLE_COMPACT_SCHED, Value::Bytes(compact)) => self.compact(&mut bundle, compact)?,
                (field::BUNDLE_ERROR, _) => {
                    self.reading.lines += 1;
                    self.reading.leave_out("event not understood: by traced itself");
                }
                _ => {}
            }
        }
        let Some((first, last)) = bundle.span else { return Ok(None) };
        let before = self.ends.insert(bundle.cpu, last);
        if bundle.lost {
            self.lost(before.unwrap_or(0).min(first), first);
        }
        Ok(Some((first, last)))
    }

    fn event(&mut self, bundle: &mut Bundle, content: &[u8]) -> Result<()> {
        let event = decoded::<FtraceEvent>(content)?;
        self.reading.lines += 1;
        let Some(what) = event.event else {
            let payload = Fields::of(content).flatten().find(|(number, _)| !ABOUT_EVENT.contains(number));
            let name = payload.map_or_else(|| "without content".to_owned(), |(number, _)| names::of_event(number));
            self.reading.leave_out(&format!("event not used: {name}"));
            return Ok(());
        };
        let (Some(time_ns), Some(pid)) = (event.timestamp, event.pid) else {
            self.reading.leave_out("event not understood: without time or thread");
            return Ok(());
        };
        let time_ns = bundle.time(time_ns)?;
        match self.kind(pid, what) {
            Taken::Kind(kind, twin) => {
                self.reading.used += 1;
                self.reading.has_second(twin);
                self.ordered.event(Event { time_ns, cpu: bundle.cpu, pid, kind }, twin)
            }
            Taken::Mark(mark) => {
                self.reading.used += 1;
                let event = Event { time_ns, cpu: bundle.cpu, pid, kind: EventKind::Mark { text: 0 } };
                // The first line, as in a kernel's text, which ends there.
                let mark = text(&mark);
                self.ordered.mark(event, mark.split(['\n', '\r']).next().unwrap_or_default())
            }
            Taken::LeftOut(reason) => {
                self.reading.leave_out(&reason);
                Ok(())
            }
        }
    }

    fn kind(&mut self, pid: u32, what: Ftrace) -> Taken {
        let (name, kind) = match what {
            Ftrace::Print(print) => return Taken::Mark(print.buf.unwrap_or_default()),
            Ftrace::SchedSwitch(switch) => ("sched_switch", self.switch(&switch)),
            Ftrace::SchedWakeup(woken) => {
                return match self.wake(&woken) {
                    Some(kind) => Taken::Kind(kind, Twin::Wakeup),
                    None => Taken::not_understood("sched_wakeup"),
                };
            }
            Ftrace::SchedWaking(woken) => {
                self.reading.has_first(Twin::Wakeup);
                ("sched_waking", self.wake(&woken))
            }
            Ftrace::SchedWakeupNew(woken) => ("sched_wakeup_new", self.wake(&woken)),
            Ftrace::CpuFrequency(state) => {
                let kind = of_cpu(&state).map(|(cpu, khz)| EventKind::Frequency { cpu, khz });
                ("cpu_frequency", kind)
            }
            Ftrace::CpuIdle(state) => {
                let left = |state: u32| Some(state).filter(|state| *state != u32::MAX);
                ("cpu_idle", of_cpu(&state).map(|(cpu, state)| EventKind::Idle { cpu, state: left(state) }))
            }
            Ftrace::BlockRqIssue(request) => {
                self.reading.has_first(Twin::Insert);
                return self.block("block_rq_issue", &request, Twin::None);
            }
            Ftrace::BlockRqInsert(request) => return self.block("block_rq_insert", &request, Twin::Insert),
            Ftrace::BlockRqComplete(request) => return self.block("block_rq_complete", &request, Twin::None),
            Ftrace::MmFilemapAddToPageCache(miss) => ("mm_filemap_add_to_page_cache", self.cache_miss(&miss)),
            Ftrace::TaskNewtask(task) => {
                let (Some(child), comm) = (number(task.pid), task.comm.unwrap_or_default()) else {
                    return Taken::not_understood("task_newtask");
                };
                self.threads.named(child, &text(&comm));
                return self.starts(pid, child, "task_newtask");
            }
            Ftrace::TaskRename(task) => {
                let (Some(thread), comm) = (number(task.pid), task.newcomm.unwrap_or_default()) else {
                    return Taken::not_understood("task_rename");
                };
                self.threads.named(thread, &text(&comm));
                return Taken::LeftOut("name of a thread: task_rename".into());
            }
            Ftrace::SchedProcessFork(SchedProcessFork { parent_pid, child_pid }) => {
                return match (number(parent_pid), number(child_pid)) {
                    (Some(parent), Some(child)) => self.starts(parent, child, START),
                    _ => Taken::not_understood(START),
                };
            }
            Ftrace::Generic(generic) => {
                let name = generic.event_name.unwrap_or_default();
                return Taken::LeftOut(format!("event not used: {}", text(&name)));
            }
        };
        kind.map_or_else(|| Taken::not_understood(name), |kind| Taken::Kind(kind, Twin::None))
    }

    fn switch(&mut self, switch: &SchedSwitch) -> Option<EventKind> {
        let (prev, next) = (number(switch.prev_pid)?, number(switch.next_pid)?);
        for (thread, name) in [(prev, &switch.prev_comm), (next, &switch.next_comm)] {
            self.threads.named(thread, &text(name.as_deref().unwrap_or_default()));
        }
        Some(EventKind::Switch { prev, state: state(switch.prev_state.unwrap_or(0), self.kernel), next })
    }

    fn wake(&mut self, woken: &SchedWaking) -> Option<EventKind> {
        let pid = number(woken.pid)?;
        self.threads.named(pid, &text(woken.comm.as_deref().unwrap_or_default()));
        Some(EventKind::Wake { pid })
    }

    fn block(&mut self, name: &str, request: &BlockRequest, twin: Twin) -> Taken {
        let device = request.dev.and_then(kernels_device);
        let (Some(device), Some(sector), Some(letters)) = (device, request.sector, &request.rwbs) else {
            return Taken::not_understood(name);
        };
        let (Some(write), sectors) = (block_request(letters), request.nr_sector.unwrap_or(0)) else {
            return Taken::LeftOut(format!("event not used: {name} of a discard"));
        };
        let kind = match name {
            "block_rq_complete" => EventKind::BlockComplete { device, write, sector, sectors },
            _ => EventKind::BlockIssue { device, write, sector, sectors },
        };
        Taken::Kind(kind, twin)
    }

    fn cache_miss(&self, miss: &MmFilemapAddToPageCache) -> Option<EventKind> {
        let file = self.files.numbered(kernels_device(miss.s_dev?)?, miss.i_ino?);
        // Pages of 4096 bytes, whatever the machine's are.
        let pages = self.page_bytes / 4096;
        Some(EventKind::CacheMiss { file, page: miss.index?.checked_mul(pages)?, pages: pages as u32 })
    }

    fn starts(&mut self, parent: u32, child: u32, name: &str) -> Taken {
        Taken::LeftOut(match self.threads.starts(parent, child) {
            true => format!("start of a thread or process: {name}"),
            false => format!("too many starts of threads and processes: {name}"),
        })
    }

    /// Switches and wakings as numbers side by side, which is how phones have them. Who left and who woke is not among
    /// them: the thread that is on the processor then.
    fn compact(&mut self, bundle: &mut Bundle, content: &[u8]) -> Result<()> {
        let mut names: Vec<&[u8]> = Vec::new();
        for field in Fields::of(content) {
            if let (field::COMPACT_NAMES, Value::Bytes(name)) = field? {
                if names.len() < MOST_NAMES {
                    names.push(name);
                }
            }
        }
        let column = |number| column(content, number);
        let (times, threads) = (column(field::COMPACT_SWITCH_TIME)?, column(field::COMPACT_SWITCH_NEXT)?);
        let (states, of_name) = (column(field::COMPACT_SWITCH_STATE)?, column(field::COMPACT_SWITCH_NAME)?);
        let mut rows = Rows::of(&times, &threads, &of_name);
        let mut states = Numbers(&states);
        while let Some((time_ns, next, name)) = rows.next_row()? {
            let prev_state = states.next().ok_or_else(|| Error::board("a switch has no state"))??;
            let time_ns = bundle.time(time_ns)?;
            self.name(next, name, &names);
            let kind = EventKind::Switch { prev: 0, state: state(prev_state as i64, self.kernel), next };
            self.compact_event(time_ns, bundle.cpu, kind)?;
        }
        let (times, threads) = (column(field::COMPACT_WAKING_TIME)?, column(field::COMPACT_WAKING_THREAD)?);
        let of_name = column(field::COMPACT_WAKING_NAME)?;
        let mut rows = Rows::of(&times, &threads, &of_name);
        while let Some((time_ns, pid, name)) = rows.next_row()? {
            self.reading.has_first(Twin::Wakeup);
            let time_ns = bundle.time(time_ns)?;
            self.name(pid, name, &names);
            self.compact_event(time_ns, bundle.cpu, EventKind::Wake { pid })?;
        }
        Ok(())
    }

    fn compact_event(&mut self, time_ns: u64, cpu: u16, kind: EventKind) -> Result<()> {
        self.reading.lines += 1;
        self.reading.used += 1;
        self.ordered.of_whoever(time_ns, cpu, kind, Twin::None)
    }

    fn name(&mut self, thread: u32, index: Option<u64>, names: &[&[u8]]) {
        let name = index.and_then(|index| names.get(usize::try_from(index).ok()?));
        if let Some(name) = name {
            self.threads.named(thread, &text(name));
        }
    }
}

/// What an event becomes.
enum Taken {
    Kind(EventKind, Twin),
    Mark(Vec<u8>),
    LeftOut(String),
}

impl Taken {
    fn not_understood(name: &str) -> Taken {
        Taken::LeftOut(format!("event not understood: {name}"))
    }
}

/// What a bundle says before its events, or behind them.
fn head(content: &[u8]) -> Result<Bundle> {
    let (mut bundle, mut clock, mut times) = (Bundle::default(), 0, [None; 2]);
    for field in Fields::of(content) {
        let (number, value) = field?;
        let Some(value) = value.number() else { continue };
        match number {
            field::BUNDLE_CPU => {
                let cpu = u16::try_from(value).ok();
                bundle.cpu = cpu.ok_or_else(|| Error::board(format!("there is no processor {value}")))?;
            }
            field::BUNDLE_LOST_EVENTS => bundle.lost = value != 0,
            field::BUNDLE_CLOCK => clock = value,
            field::BUNDLE_CLOCK_TIME => times[0] = Some(value as i64),
            field::BUNDLE_BOOT_TIME => times[1] = Some(value as i64),
            _ => {}
        }
    }
    match (clock, times) {
        (0, _) => {}
        (_, [Some(there), Some(boot)]) => bundle.shift_ns = boot.wrapping_sub(there),
        _ => bundle.has_other_clock = true,
    }
    Ok(bundle)
}

/// A repeated number, one behind the other: packed, each with its key, or some of both.
fn column(content: &[u8], wanted: u32) -> Result<Vec<u8>> {
    let mut all = Vec::new();
    for field in Fields::of(content) {
        match field? {
            (number, Value::Bytes(packed)) if number == wanted => all.extend_from_slice(packed),
            (number, Value::Number(value)) if number == wanted => prost::encoding::encode_varint(value, &mut all),
            _ => {}
        }
    }
    Ok(all)
}

/// The columns that switches and wakings have both.
struct Rows<'a> {
    times: Numbers<'a>,
    threads: Numbers<'a>,
    names: Numbers<'a>,
    time_ns: u64,
}

impl<'a> Rows<'a> {
    fn of(times: &'a [u8], threads: &'a [u8], names: &'a [u8]) -> Rows<'a> {
        Rows { times: Numbers(times), threads: Numbers(threads), names: Numbers(names), time_ns: 0 }
    }

    /// Time, thread, and the index of its name.
    fn next_row(&mut self) -> Result<Option<(u64, u32, Option<u64>)>> {
        let Some(later_ns) = self.times.next().transpose()? else {
            return match self.threads.next() {
                None => Ok(None),
                Some(_) => Err(Error::board("a switch or waking has no time")),
            };
        };
        let time_ns = self.time_ns.checked_add(later_ns);
        self.time_ns = time_ns.ok_or_else(|| Error::board("the times of switches or wakings do not end"))?;
        let thread = self.threads.next().ok_or_else(|| Error::board("a switch or waking has no thread"))??;
        let thread = number(Some(thread as i32)).ok_or_else(|| Error::board(format!("there is no thread {thread}")))?;
        Ok(Some((self.time_ns, thread, self.names.next().transpose()?)))
    }
}

fn number(pid: Option<i32>) -> Option<u32> {
    u32::try_from(pid?).ok()
}

fn of_cpu(state: &CpuState) -> Option<(u16, u32)> {
    Some((state.cpu_id?.try_into().ok()?, state.state?))
}

/// A thread's state by its bits, as a kernel's text names it: by the lowest that is set. Linux 4.14 numbered them anew;
/// a bit above them says that the thread was preempted.
fn state(bits: i64, kernel: (u32, u32)) -> u8 {
    let letters: &[u8] = if kernel >= (4, 14) { b"SDTtXZPI" } else { b"SDTtZXxKWP" };
    letters.get(bits.trailing_zeros() as usize).copied().unwrap_or(b'R')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From `TASK_STATE_TO_CHAR_STR` and `TASK_REPORT` of linux/sched.h and the event's own text, of 3.18 and of 5.10.
    #[test]
    fn states_are_those_of_a_kernels_text() {
        for (bits, old, new) in [
            (0, b'R', b'R'),
            (1, b'S', b'S'),
            (2, b'D', b'D'),
            (4, b'T', b'T'),
            (8, b't', b't'),
            (16, b'Z', b'X'),
            (32, b'X', b'Z'),
            (64, b'x', b'P'),
            (128, b'K', b'I'),
            // Killable, which older kernels have in both bits; preempted.
            (130, b'D', b'D'),
            (1024, b'R', b'R'),
            (0x100, b'W', b'R'),
        ] {
            assert_eq!((state(bits, (3, 18)), state(bits, (5, 10))), (old, new), "{bits}");
        }
    }
}
