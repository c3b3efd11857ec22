//! Whether the code of this process makes system calls by itself, where nothing of this library sees them: everything
//! that is executable is looked through, but for libc, the loader, and this library.
//!
//! The bytes of such an instruction stand by chance in many programs, within other instructions. So they are searched
//! for, and where they are found the function around them is decoded, from its beginning as the table for unwinding
//! (`.eh_frame_hdr`) has it. What cannot be followed is doubt, and counts as a system call.

use crate::instructions::{Kind, decode};
use crate::raw;
use core::ffi::{CStr, c_int, c_void};
use core::ops::Range;

/// Why the code of a process is not known to make no system calls.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Doubt {
    /// An object does.
    Calls,
    /// An object's code cannot be followed.
    Unclear,
    /// Code that belongs to no object.
    Nobodys,
    /// Code that can be changed where it is.
    Changeable,
    /// The kernel does not tell what is mapped.
    Unknown,
}

/// As many bytes of a name are kept.
pub const NAME_BYTES: usize = 96;
const PAGE: usize = 4096;
const RANGES: usize = 256;

/// Bytes that are searched at once.
const PIECE_BYTES: usize = 64 << 10;
/// Code without an entry in the table for unwinding is followed if it is no longer, and lies between two that have.
const GAP_BYTES: usize = 1024;
/// Functions that are longer are not followed.
const BODY_BYTES: usize = 256 << 10;

/// What was looked through already, and room for it. Zeros: nothing. One thread at a time has it.
pub struct Memory {
    text: [u8; 4096],
    /// Executable ranges in which nothing was found: from, to, and the offset and inode of the file.
    clean: [(usize, usize, u64, u64); RANGES],
    count: usize,
    /// Objects that were unloaded until then.
    unloaded: u64,
    rooms: Rooms,
    /// The name of the object that is in doubt.
    pub name: [u8; NAME_BYTES],
}

impl Memory {
    /// Whether objects were unloaded since the last look. What was looked through is to be looked through again then,
    /// for another object may be where one was.
    pub fn unloaded(&mut self, (_, unloaded): (u64, u64)) -> bool {
        let is_new = unloaded != self.unloaded;
        if is_new {
            (self.count, self.unloaded) = (0, unloaded);
        }
        is_new
    }
}

/// Copies of code. Another thread may unload what is looked at.
struct Rooms {
    /// One byte more, for the instructions that are searched have two.
    piece: [u8; PIECE_BYTES + 1],
    body: [u8; BODY_BYTES],
}

/// What need not be looked through: objects that contain one of these addresses, and one page.
pub struct Exempt {
    pub objects: [usize; 3],
    pub page: usize,
}

/// One line of `/proc/self/maps`.
struct Mapping<'a> {
    range: Range<usize>,
    permissions: &'a [u8],
    offset: u64,
    inode: u64,
    name: &'a [u8],
}

fn number(text: &[u8], radix: u32) -> Option<u64> {
    u64::from_str_radix(core::str::from_utf8(text).ok()?, radix).ok()
}

impl Mapping<'_> {
    fn read(line: &[u8]) -> Option<Mapping<'_>> {
        let mut words = line.splitn(6, |byte| *byte == b' ');
        let mut range = words.next()?.split(|byte| *byte == b'-');
        let (from, to) = (number(range.next()?, 16)?, number(range.next()?, 16)?);
        let (permissions, offset, _) = (words.next()?, number(words.next()?, 16)?, words.next()?);
        let inode = number(words.next()?, 10)?;
        let name = words.next().unwrap_or_default().trim_ascii();
        Some(Mapping { range: from as usize..to as usize, permissions, offset, inode, name })
    }
}

/// Calls `each` with the lines of `/proc/self/maps`, until it has a doubt.
fn lines(text: &mut [u8], mut each: impl FnMut(&[u8]) -> Result<(), Doubt>) -> Result<(), Doubt> {
    let Ok(fd) = raw::open_to_read(c"/proc/self/maps") else { return Err(Doubt::Unknown) };
    let mut filled = 0;
    let result = loop {
        match raw::read(fd, &mut text[filled..]) {
            // A line that does not fit leaves no room, too.
            Ok(0) if filled == 0 => break Ok(()),
            Ok(0) | Err(_) => break Err(Doubt::Unknown),
            Ok(bytes) => filled += bytes,
        }
        let mut from = 0;
        let mut done = Ok(());
        while let Some(length) = text[from..filled].iter().position(|byte| *byte == b'\n') {
            done = each(&text[from..from + length]);
            from += length + 1;
            if done.is_err() {
                break;
            }
        }
        if done.is_err() {
            break done;
        }
        text.copy_within(from..filled, 0);
        filled -= from;
    };
    raw::close(fd);
    result
}

/// An object that the loader has loaded, as far as it matters for one of its mappings.
struct Object {
    wanted: Range<usize>,
    exempt: [usize; 3],
    is_found: bool,
    is_exempt: bool,
    /// The wanted range is all of a segment.
    is_whole: bool,
    unwinding: Range<usize>,
    name: [u8; NAME_BYTES],
}

/// Where a segment lies.
fn place(info: &libc::dl_phdr_info, header: &libc::Elf64_Phdr) -> Range<usize> {
    let from = (info.dlpi_addr as usize).wrapping_add(header.p_vaddr as usize);
    from..from.saturating_add(header.p_memsz as usize)
}

/// How many objects were loaded, and unloaded, until now.
pub fn loads() -> (u64, u64) {
    let mut counts = (0_u64, 0_u64);
    // SAFETY: the function is called with this place, which it writes to.
    unsafe { libc::dl_iterate_phdr(Some(count), (&raw mut counts).cast()) };
    counts
}

unsafe extern "C" fn count(info: *mut libc::dl_phdr_info, _: usize, counts: *mut c_void) -> c_int {
    // SAFETY: as called by `loads`.
    unsafe { *counts.cast::<(u64, u64)>() = ((*info).dlpi_adds, (*info).dlpi_subs) };
    1
}

unsafe extern "C" fn look_at(info: *mut libc::dl_phdr_info, _: usize, object: *mut c_void) -> c_int {
    // SAFETY: as called by `Object::around`; the loader's table is there while it calls.
    let (info, object) = unsafe { (&*info, &mut *object.cast::<Object>()) };
    // SAFETY: as above.
    let headers = unsafe { core::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    let place = |header| place(info, header);
    let loaded = || headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
    let Some(segment) = loaded().find(|header| {
        let place = place(header);
        header.p_flags & libc::PF_X != 0 && place.start < object.wanted.end && object.wanted.start < place.end
    }) else {
        return 0;
    };
    let segment = place(segment);
    object.is_found = true;
    object.is_whole =
        segment.start / PAGE * PAGE == object.wanted.start && segment.end.next_multiple_of(PAGE) == object.wanted.end;
    object.is_exempt = object.exempt.iter().any(|address| loaded().any(|header| place(header).contains(address)));
    if !object.is_exempt {
        // The loader would change its code once more when that has been looked through.
        let mut dynamic = headers.iter().filter(|header| header.p_type == libc::PT_DYNAMIC);
        object.is_whole &= !dynamic.any(|header| changes_code(place(header)));
    }
    let unwinding = headers.iter().find(|header| header.p_type == libc::PT_GNU_EH_FRAME);
    object.unwinding = unwinding.map_or(0..0, place);
    if !info.dlpi_name.is_null() {
        // SAFETY: the loader's name, a C string.
        let name = unsafe { CStr::from_ptr(info.dlpi_name) }.to_bytes();
        let name = if name.is_empty() { b"the program" } else { name };
        // The end of a path says most.
        let name = &name[name.len().saturating_sub(NAME_BYTES)..];
        object.name[..name.len()].copy_from_slice(name);
    }
    1
}

/// Whether the loader relocates the code of an object, by its dynamic section.
fn changes_code(dynamic: Range<usize>) -> bool {
    /// As elf(5) has them: DT_NULL, DT_TEXTREL, DT_FLAGS, DF_TEXTREL.
    const END: u64 = 0;
    const TEXT_RELOCATIONS: u64 = 22;
    const FLAGS: u64 = 30;
    const FLAG: u64 = 4;
    let mut entries = dynamic.step_by(16).map_while(|at| {
        let mut entry = [0; 16];
        let (tag, value) = if raw::copy(at, &mut entry) { entry.split_at(8) } else { return Some((FLAGS, FLAG)) };
        let word = |bytes: &[u8]| bytes.try_into().map_or(END, u64::from_le_bytes);
        Some((word(tag), word(value))).filter(|(tag, _)| *tag != END)
    });
    entries.any(|(tag, value)| tag == TEXT_RELOCATIONS || tag == FLAGS && value & FLAG != 0)
}

impl Object {
    /// The object that a mapping belongs to.
    fn around(wanted: &Range<usize>, exempt: [usize; 3]) -> Option<Object> {
        let mut object = Object {
            wanted: wanted.clone(),
            exempt,
            is_found: false,
            is_exempt: false,
            is_whole: false,
            unwinding: 0..0,
            name: [0; NAME_BYTES],
        };
        // SAFETY: the function is called with this place.
        unsafe { libc::dl_iterate_phdr(Some(look_at), (&raw mut object).cast()) };
        object.is_found.then_some(object)
    }
}

/// How many executable segments there are that are not exempt.
fn segments(exempt: &Exempt) -> usize {
    let mut counted = Segments { exempt: exempt.objects, count: 0 };
    // SAFETY: the function is called with this place.
    unsafe { libc::dl_iterate_phdr(Some(count_segments), (&raw mut counted).cast()) };
    counted.count
}

struct Segments {
    exempt: [usize; 3],
    count: usize,
}

unsafe extern "C" fn count_segments(info: *mut libc::dl_phdr_info, _: usize, counted: *mut c_void) -> c_int {
    // SAFETY: as called by `segments`; the loader's table is there while it calls.
    let (info, counted) = unsafe { (&*info, &mut *counted.cast::<Segments>()) };
    // SAFETY: as above.
    let headers = unsafe { core::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    // SAFETY: it reads what the kernel has told the program.
    let kernels = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) } as usize;
    let loaded = || headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
    let contains = |address: &usize| loaded().any(|header| place(info, header).contains(address));
    if !contains(&kernels) && !counted.exempt.iter().any(contains) {
        counted.count += loaded().filter(|header| header.p_flags & libc::PF_X != 0).count();
    }
    0
}

/// A word of this process's memory; `None`: there is none any more.
fn word(at: usize) -> Option<i32> {
    let mut bytes = [0; 4];
    raw::copy(at, &mut bytes).then(|| i32::from_le_bytes(bytes))
}

/// Functions of an object that stays.
pub struct Functions(Range<usize>);

impl Functions {
    /// Those of the object around an address.
    pub fn around(address: usize) -> Option<Functions> {
        let object = Object::around(&(address..address + 1), [address; 3])?;
        Some(Functions(object.unwinding))
    }

    /// The code of the one that begins at an address.
    pub fn code(&self, address: usize) -> Option<&'static [u8]> {
        // SAFETY: a word of the table for unwinding, which stays with the object.
        let function = function(&self.0, address, |at| Some(unsafe { (at as *const i32).read_unaligned() }))?;
        // SAFETY: the code is mapped to be read, and stays.
        let code = unsafe { core::slice::from_raw_parts(function.start as *const u8, function.len()) };
        (function.start == address).then_some(code)
    }
}

/// Where the function around an address begins and ends, by the table for unwinding, which is read by `word`.
fn function(unwinding: &Range<usize>, address: usize, word: impl Fn(usize) -> Option<i32>) -> Option<Range<usize>> {
    const HEADER_BYTES: usize = 12;
    /// A version; addresses relative to their own place; counts; addresses relative to the table: each has four bytes.
    const ENCODINGS: [u8; 4] = [1, 0x1B, 0x03, 0x3B];
    let table = unwinding.start;
    if unwinding.len() < HEADER_BYTES || word(table)?.to_le_bytes() != ENCODINGS {
        return None;
    }
    let count = word(table + 8)? as u32 as usize;
    if count.checked_mul(8)?.checked_add(HEADER_BYTES)? > unwinding.len() {
        return None;
    }
    let place = |at: usize| Some(table.wrapping_add_signed(word(at)? as isize));
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low.midpoint(high);
        if place(table + HEADER_BYTES + middle * 8)? <= address { low = middle + 1 } else { high = middle }
    }
    let row = table + HEADER_BYTES + low.checked_sub(1)? * 8;
    let (begins, entry) = (place(row)?, place(row + 4)?);
    // The usual encoding is taken for granted, and has to lead to the same beginning.
    let same = (entry + 8).wrapping_add_signed(word(entry + 8)? as isize) == begins;
    let end = begins.checked_add(word(entry + 12)? as u32 as usize)?;
    if !same || address < end {
        return same.then_some(begins..end);
    }
    // What the compiler adds to each object has no entry, and lies between others.
    let following = if low < count { place(table + HEADER_BYTES + low * 8)? } else { 0 };
    (address < following && following - end <= GAP_BYTES).then_some(end..following)
}

/// Looks whether an instruction that enters the kernel stands where its bytes were found.
fn look_around(found: usize, unwinding: &Range<usize>, body: &mut [u8]) -> Result<(), Doubt> {
    let function = function(unwinding, found, word).ok_or(Doubt::Unclear)?;
    let body = body.get_mut(..function.len()).ok_or(Doubt::Unclear)?;
    if !raw::copy(function.start, body) {
        return Err(Doubt::Unclear);
    }
    let found = found - function.start;
    let mut at = 0;
    let mut within = None;
    while at < body.len() {
        let instruction = decode(&body[at..]).ok_or(Doubt::Unclear)?;
        let end = at + instruction.length;
        if (at..end).contains(&found) {
            if instruction.kind == Kind::Kernel {
                return Err(Doubt::Calls);
            }
            within = Some(at + 1..end);
        }
        at = end;
    }
    let within = within.ok_or(Doubt::Unclear)?;
    // Somebody who jumps into the middle of the instruction sees others.
    let mut at = 0;
    while let Some(instruction) = body.get(at..).and_then(decode) {
        at += instruction.length;
        if let Kind::Branch(by) = instruction.kind {
            if within.contains(&at.wrapping_add_signed(by as isize)) {
                return Err(Doubt::Calls);
            }
        }
    }
    Ok(())
}

/// Where a byte stands in code next.
fn next(code: &[u8], from: usize, byte: u8) -> Option<usize> {
    let rest = code.get(from..)?;
    // SAFETY: the bytes are there.
    let found = unsafe { libc::memchr(rest.as_ptr().cast(), byte.into(), rest.len()) };
    (!found.is_null()).then(|| found.addr() - code.as_ptr().addr())
}

/// Looks through the code of an object.
fn look_through(code: &Range<usize>, unwinding: &Range<usize>, rooms: &mut Rooms) -> Result<(), Doubt> {
    for start in code.clone().step_by(PIECE_BYTES) {
        let bytes = rooms.piece.len().min(code.end - start);
        let piece = &mut rooms.piece[..bytes];
        if !raw::copy(start, piece) {
            return Err(Doubt::Unclear);
        }
        for (first, seconds) in [(0x0F, &[0x05, 0x34][..]), (0xCD, &[0x80][..])] {
            let mut from = 0;
            while let Some(found) = next(piece, from, first) {
                if piece.get(found + 1).is_some_and(|second| seconds.contains(second)) {
                    look_around(start + found, unwinding, &mut rooms.body)?;
                }
                from = found + 1;
            }
        }
    }
    Ok(())
}

/// Looks through all code of this process that it has not seen yet. Whether all objects were met that are loaded now.
pub fn look(memory: &mut Memory, exempt: &Exempt) -> Result<bool, Doubt> {
    let mut met = 0;
    let Memory { text, clean, count, rooms, name, .. } = memory;
    lines(text, |line| {
        let mapping = Mapping::read(line).ok_or(Doubt::Unknown)?;
        let [reads, writes, runs, shares] = mapping.permissions else { return Err(Doubt::Unknown) };
        // Nobody changes what the kernel has mapped for everybody.
        let kernels = [&b"[vdso]"[..], b"[vsyscall]"].contains(&mapping.name);
        if *runs != b'x' || kernels || mapping.range.start == exempt.page {
            return Ok(());
        }
        if *writes == b'w' || *shares == b's' {
            return Err(Doubt::Changeable);
        }
        let object = Object::around(&mapping.range, exempt.objects).ok_or(Doubt::Nobodys)?;
        let this = (mapping.range.start, mapping.range.end, mapping.offset, mapping.inode);
        if object.is_exempt {
            return Ok(());
        }
        met += 1;
        if clean[..*count].contains(&this) {
            return Ok(());
        }
        *name = object.name;
        if *reads != b'r' || !object.is_whole {
            return Err(Doubt::Unclear);
        }
        look_through(&mapping.range, &object.unwinding, rooms)?;
        if let Some(place) = clean.get_mut(*count) {
            *place = this;
            *count += 1;
        }
        Ok(())
    })?;
    Ok(met == segments(exempt))
}
