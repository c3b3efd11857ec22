use super::*;
use crate::Medium;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

const LINE: usize = 64;

/// Every image that is shown, with its mark.
fn shown(trace: &Trace, max_lines: usize) -> BTreeSet<(Option<u64>, Vec<u8>)> {
    let mut all = BTreeSet::new();
    let limits = Limits { max_lines, ..Limits::default() };
    let explored = trace.crash_states(&limits, &mut |state| {
        all.insert((state.last_mark, state.image.to_vec()));
        ControlFlow::Continue(())
    });
    assert!(explored.states >= all.len());
    all
}

fn images(trace: &Trace, max_lines: usize) -> BTreeSet<Vec<u8>> {
    shown(trace, max_lines).into_iter().map(|(_, image)| image).collect()
}

fn words(image: &[u8], places: &[usize]) -> Vec<u8> {
    places.iter().map(|&at| image[at]).collect()
}

/// The model once more, from its definition and for small stores only: what each line may hold, each
/// time from the whole history.
fn reference(trace: &Trace, max_lines: usize) -> BTreeSet<(Option<u64>, Vec<u8>)> {
    let mut all = BTreeSet::new();
    let ends = (0..trace.events.len()).filter(|&i| trace.events[i] == Event::Fence).chain([trace.events.len()]);
    for end in ends {
        let history = &trace.events[..end];
        let mark = history.iter().rev().find_map(|e| if let Event::Mark(m) = e { Some(*m) } else { None });
        let lines: Vec<Vec<Vec<u8>>> =
            (0..trace.image.len() / LINE).map(|line| contents(&trace.image, history, line)).collect();
        for (max_changed, from_oldest) in [(max_lines, true), (max_lines, false)] {
            let mut images = vec![(0, Vec::new())];
            for line in &lines {
                let rest = if from_oldest { 0 } else { line.len() - 1 };
                images = images
                    .iter()
                    .flat_map(|(changed, image): &(usize, Vec<u8>)| {
                        line.iter().enumerate().map(move |(i, content)| {
                            (changed + usize::from(i != rest), [image.as_slice(), content].concat())
                        })
                    })
                    .filter(|(changed, _)| *changed <= max_changed)
                    .collect();
            }
            all.extend(images.into_iter().map(|(_, image)| (mark, image)));
        }
    }
    all
}

/// The contents that a line may have after `history`, oldest first.
fn contents(image: &[u8], history: &[Event], line: usize) -> Vec<Vec<u8>> {
    let (start, end) = (line * LINE, (line + 1) * LINE);
    let mut all = vec![image[start..end].to_vec()];
    let (mut certain, mut covered) = (0, 0);
    for event in history {
        match event {
            Event::Store { at, bytes, streamed } => {
                let mut word = None;
                for (i, byte) in bytes.iter().enumerate().filter(|(i, _)| (start..end).contains(&(*at as usize + i))) {
                    let place = *at as usize + i;
                    if word != Some(place / 8) {
                        word = Some(place / 8);
                        all.push(all[all.len() - 1].clone());
                    }
                    all.last_mut().unwrap()[place - start] = *byte;
                }
                if *streamed && word.is_some() {
                    covered = all.len() - 1;
                }
            }
            Event::Flush { at, bytes } if (*at as usize) < end && (*at + *bytes) as usize > start && *bytes > 0 => {
                covered = all.len() - 1;
            }
            Event::Fence => certain = covered,
            _ => {}
        }
    }
    all.split_off(certain)
}

fn event(lines: usize) -> impl Strategy<Value = Event> {
    let bytes = (lines * LINE) as u64;
    prop_oneof![
        4 => (0..bytes, 1usize..80, any::<u8>(), any::<bool>()).prop_map(move |(at, len, fill, streamed)| {
            let bytes = vec![fill; len.min((bytes - at) as usize)].into();
            Event::Store { at, bytes, streamed }
        }),
        4 => (0..bytes / 8, any::<u8>()).prop_map(|(word, fill)| {
            Event::Store { at: word * 8, bytes: Box::new([fill; 8]), streamed: false }
        }),
        3 => (0..bytes, 0..100u64).prop_map(move |(at, len)| Event::Flush { at, bytes: len.min(bytes - at) }),
        2 => Just(Event::Fence),
        1 => (0..3u64).prop_map(Event::Mark),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn the_enumeration_is_the_definition(events in proptest::collection::vec(event(3), 0..12), max_lines in 0usize..4) {
        let trace = Trace { image: (0..3 * LINE).map(|i| i as u8).collect(), events };
        prop_assert_eq!(shown(&trace, max_lines), reference(&trace, max_lines));
    }

    #[test]
    fn sampling_shows_a_part_of_everything(events in proptest::collection::vec(event(4), 0..20), most in 0usize..40) {
        let trace = Trace { image: vec![0; 4 * LINE], events };
        let all = shown(&trace, 3);
        let limits = Limits { max_lines: 3, max_states_per_fence: Some(most), seed: 5 };
        let mut runs = (0..2).map(|_| {
            let mut list = Vec::new();
            let explored = trace.crash_states(&limits, &mut |state| {
                list.push((state.last_mark, state.image.to_vec()));
                ControlFlow::Continue(())
            });
            (list, explored)
        });
        let (first, second) = (runs.next().unwrap(), runs.next().unwrap());
        prop_assert_eq!(&first, &second);
        prop_assert!(first.0.iter().all(|state| all.contains(state)));
        prop_assert!(first.1.states <= first.1.moments * (most + 2));
        // Each image once, until a mark comes.
        if !trace.events.iter().any(|e| matches!(e, Event::Mark(_))) {
            prop_assert_eq!(first.0.iter().collect::<BTreeSet<_>>().len(), first.0.len());
        }
    }

    #[test]
    fn pages_hold_what_they_held_since_the_last_sync(
        events in proptest::collection::vec(prop_oneof![5 => event(4), 1 => Just(Event::Sync)], 1..25),
        seed in any::<u64>(),
    ) {
        let trace = Trace { image: vec![0; 4 * LINE], events };
        let mut images = vec![trace.image.clone()];
        for event in &trace.events {
            let mut image = images[images.len() - 1].clone();
            if let Event::Store { at, bytes, .. } = event {
                image[*at as usize..][..bytes.len()].copy_from_slice(bytes);
            }
            images.push(image);
        }
        let mut failed = None;
        let explored = trace.page_states(100, seed, 30, &mut |state| {
            let Some(end) = state.describe().split([' ', ':']).nth(1).and_then(|n| n.parse::<usize>().ok()) else {
                failed = Some(state.describe());
                return ControlFlow::Break(());
            };
            let sync = trace.events[..end].iter().rposition(|e| *e == Event::Sync).map_or(0, |i| i + 1);
            for (page, found) in state.image.chunks(100).enumerate() {
                let held = |image: &Vec<u8>| &image[page * 100..page * 100 + found.len()] == found;
                if !images[sync..=end].iter().any(held) {
                    failed = Some(format!("page {page}: {}", state.describe()));
                }
            }
            ControlFlow::Continue(())
        });
        prop_assert_eq!(failed, None);
        prop_assert_eq!(explored.states, 30);
    }
}

#[test]
fn a_missing_flush_and_a_late_store_are_seen() {
    let (recorder, log) = Recorder::new(&[0; 128]);
    // SAFETY: nobody else has the region.
    unsafe { recorder.store_u64(0, 1) };
    recorder.flush(0, 8);
    // SAFETY: nobody else has the region.
    unsafe {
        recorder.store_u64(8, 2);
        recorder.store_u64(64, 3);
    }
    recorder.fence();
    log.mark(1);
    let after: BTreeSet<Vec<u8>> = shown(&log.trace(), 2)
        .into_iter()
        .filter(|(mark, _)| mark.is_some())
        .map(|(_, image)| words(&image, &[0, 8, 64]))
        .collect();
    let expected: BTreeSet<Vec<u8>> = [[1, 0, 0], [1, 2, 0], [1, 0, 3], [1, 2, 3]].map(Vec::from).into();
    assert_eq!(after, expected);
}

#[test]
fn bulk_data_is_absent_half_there_or_whole() {
    let (recorder, log) = Recorder::new(&[0; 64 * 10]);
    // SAFETY: nobody else has the region.
    unsafe { recorder.write(64, &[1; 64 * 8]) };
    let places: Vec<usize> = (0..10).map(|line| line * 64).collect();
    let found: BTreeSet<_> = images(&log.trace(), 2).iter().map(|image| words(image, &places)).collect();
    let expected: BTreeSet<Vec<u8>> =
        [[0; 10], [0, 1, 1, 1, 1, 0, 0, 0, 0, 0], [0, 1, 1, 1, 1, 1, 1, 1, 1, 0]].map(Vec::from).into();
    assert_eq!(found, expected);

    // A fence alone leaves it pending, unlike a stream; a store on top of it is a choice of its own.
    recorder.fence();
    log.mark(1);
    // SAFETY: nobody else has the region.
    unsafe { recorder.store_u64(64, 2) };
    let marked = |found: BTreeSet<(Option<u64>, Vec<u8>)>| -> BTreeSet<Vec<u8>> {
        found.into_iter().filter(|(mark, _)| mark.is_some()).map(|(_, image)| words(&image, &places)).collect()
    };
    let found = marked(shown(&log.trace(), 1));
    let expected: [[u8; 10]; 7] = [
        [0; 10],
        [0, 1, 0, 0, 0, 0, 0, 0, 0, 0],
        [0, 2, 0, 0, 0, 0, 0, 0, 0, 0],
        [0, 1, 1, 1, 1, 0, 0, 0, 0, 0],
        [0, 2, 1, 1, 1, 0, 0, 0, 0, 0],
        [0, 1, 1, 1, 1, 1, 1, 1, 1, 0],
        [0, 2, 1, 1, 1, 1, 1, 1, 1, 0],
    ];
    for state in expected {
        assert!(found.contains(state.as_slice()), "{state:?}");
    }
    // The second half without the first is nothing that the model has.
    assert!(!found.contains([0, 0, 0, 0, 0, 1, 1, 1, 1, 0].as_slice()));

    // SAFETY: nobody else has the region.
    unsafe { recorder.stream(64, &[3; 64 * 8]) };
    recorder.fence();
    log.mark(2);
    let last: Vec<_> = shown(&log.trace(), 2).into_iter().filter(|(mark, _)| *mark == Some(2)).collect();
    assert_eq!(last.len(), 1);
    assert_eq!(words(&last[0].1, &places), [0, 3, 3, 3, 3, 3, 3, 3, 3, 0]);
}

#[test]
fn the_same_image_is_shown_again_after_a_mark() {
    let (recorder, log) = Recorder::new(&[0; 64]);
    // SAFETY: nobody else has the region.
    unsafe { recorder.store_u64(0, 1) };
    recorder.fence();
    recorder.fence();
    log.mark(9);
    let mut seen = Vec::new();
    let explored = log.trace().crash_states(&Limits::default(), &mut |state| {
        seen.push((state.fence, state.last_mark, state.image[0], state.describe()));
        ControlFlow::Continue(())
    });
    let brief: Vec<_> = seen.iter().map(|s| (s.0, s.1, s.2)).collect();
    assert_eq!(brief, [(0, None, 0), (0, None, 1), (2, Some(9), 0), (2, Some(9), 1)]);
    assert_eq!(seen[3].3, "after 2 fences (after mark 9): all 1 pending lines persisted");
    assert_eq!(explored, Explored { moments: 3, states: 4, sampled: 0 });
}

#[test]
fn the_visitor_can_stop_and_is_told_what_persisted() {
    let (recorder, log) = Recorder::new(&[0; 192]);
    // SAFETY: nobody else has the region.
    unsafe {
        recorder.store_u64(0, 1);
        recorder.store_u64(72, 2);
        recorder.store_u64(80, 3);
        recorder.store_u64(128, 4);
    }
    let mut said = String::new();
    log.trace().crash_states(&Limits::default(), &mut |state| {
        said = state.describe();
        if words(state.image, &[0, 72, 80, 128]) == [1, 2, 0, 0] {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    let expected = "after 0 fences: of 3 pending lines persisted only 1 of the 1 stores to line 0x0 and 1 of the 2 \
                    stores to line 0x40";
    assert_eq!(said, expected);
}

#[test]
fn a_medium_over_a_recorder_logs_what_it_does() {
    let (recorder, log) = Recorder::new(&[0; 4096]);
    let medium = Medium::new(Box::new(recorder));
    log.mark(7);
    // SAFETY: nobody else has the medium.
    let data = medium.fence(unsafe { medium.stream(1024, &[5; 512], crate::Durable::unreferenced()) });
    data.must_cover(1024, 512);
    // SAFETY: as above.
    let word = unsafe { medium.store_u64(8, 1024, data) };
    medium.fence(medium.flush(word)).done();
    medium.sync().unwrap();
    assert_eq!(medium.load_u64(8), 1024);
    let mut image = vec![0; 4096];
    // Whenever the pointer is there, so is what it points to.
    log.trace().crash_states(&Limits::default(), &mut |state| {
        assert!(state.image[9] == 0 || state.image[1024..1536] == [5; 512], "{}", state.describe());
        image.copy_from_slice(state.image);
        ControlFlow::Continue(())
    });
    assert_eq!(log.len(), 7);
    assert!(!log.is_empty());
    assert_eq!(log.trace().events[6], Event::Sync);
}
