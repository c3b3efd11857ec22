//! What the fuzz target `frames` checks, for it and for the test that replays its corpus.

use pocketstone_core::Result;
use pocketstone_core::frame::{Frame, Frames};

/// Any bytes, and the same with right checksums: nothing panics, however they are cut the same frames come out, and
/// what came out goes in and comes out again. How many frames the bytes themselves hold.
pub fn frames(data: &[u8]) -> usize {
    let step = data.first().map_or(1, |byte| usize::from(*byte) + 1);
    let mut mended = data.to_vec();
    mend(&mut mended);
    let counts = [data, &mended].map(|bytes| {
        let found = taken(bytes, bytes.len());
        assert_eq!(found.0, taken(bytes, step).0);
        let mut again = Vec::new();
        found.0.iter().for_each(|frame| frame.send(&mut again).expect("memory takes everything"));
        assert_eq!(taken(&again, step), (found.0.clone(), true));
        found.0.len()
    });
    counts[0]
}

/// The frames in front of the first damage, and whether there is none.
fn taken(mut bytes: &[u8], step: usize) -> (Vec<Frame>, bool) {
    let (mut frames, mut found) = (Frames::default(), Vec::new());
    while !bytes.is_empty() {
        let (mut part, rest) = bytes.split_at(step.clamp(1, bytes.len()));
        bytes = rest;
        while frames.hear(&mut part).expect("memory can be read") {}
        loop {
            let next: Result<Option<Frame>> = frames.take();
            match next {
                Ok(Some(frame)) => found.push(frame),
                Ok(None) => break,
                Err(error) => {
                    assert!(error.cure().is_some(), "{}", error.chain());
                    return (found, false);
                }
            }
        }
    }
    (found, true)
}

/// Puts the right checksum into everything that has the form of a frame, as docs/formats.md draws it: a fuzzer would
/// not come across one.
fn mend(bytes: &mut [u8]) {
    let mut at = bytes.windows(8).position(|window| window == b"PKSTFRM1").unwrap_or(bytes.len());
    while let Some(head) = bytes.get(at..at + 24) {
        let length = u64::from_le_bytes([16, 17, 18, 19, 20, 21, 22, 23].map(|byte| head[byte]));
        let Some(end) = usize::try_from(length).ok().and_then(|length| (at + 24).checked_add(length)) else { return };
        let Some(content) = bytes.get(at + 24..end) else { return };
        let mut sum = crc32fast::Hasher::new();
        [&head[8..12], &head[16..24], content].iter().for_each(|part| sum.update(part));
        bytes[at + 12..at + 16].copy_from_slice(&sum.finalize().to_le_bytes());
        at = end;
    }
}
