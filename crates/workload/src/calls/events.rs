//! The lab's own recording as calls: kernel events that name the file of each call.

use super::recorded::{AT_END, Act, OpenId, Opening, Recorded, Span};
use super::text::MOST_CALL_BYTES;
use super::{Calls, Selection};
use pocketstone_core::events::{Event, EventKind, EventLog, SystemCall};
use pocketstone_core::{Error, Result};
use std::collections::HashMap;

/// A file, as far as events tell of it.
#[derive(Default)]
struct File {
    /// `None`: closed.
    open: Option<OpenId>,
    /// Descriptors of it.
    descriptors: u64,
    position: u64,
}

/// The calls of a recording. Its events name files, not descriptors: calls on a file that is open twice share one.
///
/// # Errors
/// `ErrorKind::User` if calls have no positions, as those of a kernel of 32 bits, or none is on a selected file.
pub fn calls(log: &EventLog, selection: &Selection) -> Result<Calls> {
    let mut recorded = Recorded::default();
    let mut files: HashMap<u16, File> = HashMap::new();
    let mut entered: HashMap<u32, (Event, SystemCall)> = HashMap::new();
    let positions = log.events.iter().any(|event| matches!(event.kind, EventKind::Enter { offset: Some(_), .. }));
    for event in &log.events {
        match event.kind {
            EventKind::Enter { call, .. } => _ = entered.insert(event.pid, (*event, call)),
            EventKind::Exit { call, result } => {
                let Some((enter, began)) = entered.remove(&event.pid).filter(|(_, began)| *began == call) else {
                    continue;
                };
                let EventKind::Enter { file, offset, .. } = enter.kind else { continue };
                let (Some(file), true) = (file, (0..=MOST_CALL_BYTES as i64).contains(&result)) else {
                    // What opens a file has no name yet: the file is opened where it is first used.
                    if call == SystemCall::Open && result >= 0 {
                        continue;
                    }
                    let why = if result < 0 { "calls that failed" } else { "calls on files without a name" };
                    recorded.leave_out(why);
                    continue;
                };
                let path = log.files.get(usize::from(file)).map_or("", String::as_str);
                let span = Some((enter.time_ns, event.time_ns));
                let state = files.entry(file).or_default();
                call_of(&mut recorded, state, path, began, (offset, result as u64), span);
            }
            _ => {}
        }
    }
    let moves =
        |event: &&Event| matches!(event.kind, EventKind::Enter { call: SystemCall::Read | SystemCall::Write, .. });
    if !positions && log.events.iter().filter(moves).count() > 0 {
        return Err(Error::user(
            "the recording has no positions of reads and writes: a kernel of 32 bits does not tell \
                                them",
        )
        .hint("record the application with `strace -f -T -ttt -y`, or on a board of 64 bits"));
    }
    recorded.calls(selection)
}

fn call_of(
    recorded: &mut Recorded,
    file: &mut File,
    path: &str,
    call: SystemCall,
    (offset, result): (Option<u64>, u64),
    span: Span,
) {
    let id = recorded.path(path);
    let mut opened = |file: &mut File, span| match file.open {
        Some(open) => open,
        None => {
            // Events do not tell what it was opened for.
            let opening = Opening { writes: true, creates: true, ..Opening::default() };
            let open = recorded.open(span, id, opening);
            (file.open, file.descriptors, file.position) = (Some(open), 1, 0);
            open
        }
    };
    match call {
        SystemCall::Open => match file.open {
            Some(_) => file.descriptors += 1,
            None => _ = opened(file, span),
        },
        SystemCall::Close => {
            file.descriptors = file.descriptors.saturating_sub(1);
            if let Some(open) = file.open.filter(|_| file.descriptors == 0) {
                file.open = None;
                recorded.push(span, Act::Close(open));
            }
        }
        SystemCall::Read | SystemCall::Write => {
            let open = opened(file, None);
            let at = offset.unwrap_or(file.position);
            if offset.is_none() {
                file.position = at.saturating_add(result);
            }
            let act = match call {
                SystemCall::Read => Act::Read(open, at, result),
                _ if at == AT_END => return,
                _ => Act::Write(open, at, result),
            };
            recorded.push(span, act);
        }
        SystemCall::Sync => {
            let open = opened(file, None);
            recorded.push(span, Act::Sync(open, false));
        }
        SystemCall::Truncate => recorded.leave_out("ftruncate and fallocate: events do not tell the size"),
        SystemCall::Delete => recorded.push(span, Act::Delete(id)),
        SystemCall::Lock => recorded.leave_out("locks"),
    }
}
