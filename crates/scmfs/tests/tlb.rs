//! Misses of a data TLB by operations of a volume in process, from the exact stream of addresses that they touch: the
//! region's, with the page sizes in force at that moment, and the caller's buffer's.

use pocketstone_media::{Heap, Touch, Watched};
use pocketstone_scmfs::{CreateOptions, File, Meta, OpenOptions, Operations, ROOT, Threshold, Volume};
use pocketstone_tlb::{Counts, HUGE_PAGE_BITS, Processor, SMALL_PAGE_BITS, Tlb};
use std::path::Path;
use std::sync::{Arc, Mutex};

const MIB: u64 = 1 << 20;
const PAGE: usize = 4 << 10;
const HUGE_BYTES: u64 = 2 * MIB;
/// Where the region is taken to be mapped: a multiple of 2 MiB, far from the buffers.
const REGION_AT: u64 = 1 << 46;

/// A volume of 64 MiB, and what its operations touch.
struct Stream {
    volume: Volume,
    touches: Arc<Mutex<Vec<Touch>>>,
    tlb: Tlb,
}

impl Stream {
    fn new(threshold: Threshold) -> Stream {
        let touches = Arc::new(Mutex::new(Vec::new()));
        let keeper = touches.clone();
        let region = Heap::new(64 << 20);
        let watched = Watched::new(region, Box::new(move |touch| keeper.lock().unwrap().push(touch)));
        let memory = crate::support::region::Shared::of(watched);
        let options = CreateOptions::default().threshold(threshold).small_bytes(16 * MIB);
        Volume::create(memory.region(), &options).unwrap();
        let volume = Volume::open(memory.region(), &OpenOptions::default()).unwrap();
        touches.lock().unwrap().clear();
        let devices = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../devices");
        Stream { volume, touches, tlb: Tlb::new(&Processor::load(&devices, "i5-750").unwrap()) }
    }

    /// What an operation on a file touched, after it went through the TLB. Its contents lie on huge pages where whole
    /// ones hold them; when it moves there, it is read from small ones.
    fn count<T>(&mut self, file: &File, operation: impl FnOnce(&File) -> T) -> (T, Vec<Touch>) {
        let result = operation(file);
        let touches = std::mem::take(&mut *self.touches.lock().unwrap());
        let huge: Vec<_> =
            file.extents().into_iter().filter(|e| e.at % HUGE_BYTES == 0 && e.bytes >= HUGE_BYTES).collect();
        let page_bits = |address: u64| match address.checked_sub(REGION_AT) {
            Some(at) if huge.iter().any(|e| (e.at..e.at + e.bytes).contains(&at)) => HUGE_PAGE_BITS,
            _ => SMALL_PAGE_BITS,
        };
        for touch in &touches {
            let (at, bytes) = (REGION_AT + touch.at, touch.bytes);
            match (touch.buffer, touch.store) {
                (Some(buffer), true) => self.tlb.copy(buffer, at, bytes, page_bits),
                (Some(buffer), false) => self.tlb.copy(at, buffer, bytes, page_bits),
                (None, store) => self.tlb.touch(at, bytes, store, page_bits),
            }
        }
        self.touches.lock().unwrap().clear();
        (result, touches)
    }
}

/// Writes a new file of 8 MiB and reads it twice; what the second reading came to, and the touches of its last call.
fn read_again(threshold: Threshold, record: usize) -> (Counts, Vec<Touch>, u64) {
    let mut stream = Stream::new(threshold);
    let file = stream.volume.create_file(ROOT, b"f", &Meta::file(0o600)).unwrap();
    // From a page on: wherever else it began, its pages would part the copies, and differently each time.
    let mut room = vec![1; record + PAGE];
    let from = room.as_ptr().align_offset(PAGE);
    let buffer = &mut room[from..from + record];
    let calls = 8 * MIB / record as u64;
    for n in 0..calls {
        stream.count(&file, |file| file.write_at(buffer, n * record as u64).unwrap());
    }
    let (mut before, mut last) = (Counts::default(), Vec::new());
    for _ in 0..2 {
        before = stream.tlb.counts();
        for n in 0..calls {
            let (read, touches) = stream.count(&file, |file| file.read_at(buffer, n * record as u64).unwrap());
            assert_eq!(read, record);
            last = touches;
        }
    }
    (stream.tlb.counts().since(&before), last, buffer.as_ptr() as u64)
}

#[test]
fn a_read_touches_its_bytes_of_the_region_and_the_callers_buffer_and_nothing_twice() {
    let (_, touches, buffer) = read_again(Threshold::Never, 64 << 10);
    let mut at = buffer;
    for touch in touches.iter().filter(|t| (buffer..buffer + (64 << 10)).contains(&t.buffer.unwrap_or(0))) {
        assert_eq!((touch.buffer, touch.store), (Some(at), false), "{touches:?}");
        at += touch.bytes;
    }
    assert_eq!(at, buffer + (64 << 10), "{touches:?}");
}

/// 8 MiB are 2,048 pages of 4 KiB, four times Nehalem's 512 entries, or 4 of 2 MiB, of which its first level holds 32.
#[test]
fn a_file_on_huge_pages_is_read_with_a_fraction_of_the_walks() {
    let (small, ..) = read_again(Threshold::Never, 64 << 10);
    let (huge, ..) = read_again(Threshold::Bytes(128 << 10), 64 << 10);
    assert!((2048..2048 + 256).contains(&small.walks), "{small:?}");
    assert!(huge.walks < 64, "{huge:?}");
    assert_eq!(huge.accesses, small.accesses, "the same bytes are copied");
}
