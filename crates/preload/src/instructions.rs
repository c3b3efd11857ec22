//! How long instructions of x86-64 are, and which of them enter the kernel or name a place in the code: from the opcode
//! maps of Intel's manual (volume 2, appendix A). No memory is asked for, so a signal handler may decode.

/// An instruction, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instruction {
    /// In bytes.
    pub length: usize,
    pub kind: Kind,
    /// Where the four bytes of an address relative to the next instruction begin, if it has one for data.
    pub relative_at: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `syscall`, `sysenter`, or `int`: the kernel may be entered.
    Kernel,
    /// A jump or call to the next instruction's address and this.
    Branch(i64),
    Other,
}

/// What follows an opcode.
#[derive(Clone, Copy)]
enum Form {
    /// Nothing, or so many bytes.
    Plain(usize),
    /// An operand in a register or in memory, and so many bytes.
    Operand(usize),
    /// The same, with an immediate value of the operand's size, of at most four bytes.
    OperandWord,
    /// An immediate value of the operand's size, of at most four bytes.
    Word,
    /// A place in the code, by so many bytes.
    Relative(usize),
    /// The kernel's, with so many bytes.
    Kernel(usize),
}

use Form::{Kernel, Operand, OperandWord, Plain, Relative, Word};

/// Prefixes, as far as they change lengths.
#[derive(Default)]
struct Prefixes {
    /// 66: operands have two bytes.
    narrow: bool,
    /// 67: addresses have four.
    short: bool,
    /// REX.W: operands have eight.
    wide: bool,
}

/// The longest that an instruction can be.
const LENGTH_MOST: usize = 15;

/// The instruction at the beginning of `code`; `None`: there is none, or none that is known here.
pub fn decode(code: &[u8]) -> Option<Instruction> {
    let code = &code[..code.len().min(LENGTH_MOST)];
    let mut prefixes = Prefixes::default();
    let mut at = 0;
    let opcode = loop {
        let byte = *code.get(at)?;
        at += 1;
        match byte {
            0x66 => prefixes.narrow = true,
            0x67 => prefixes.short = true,
            0x26 | 0x2E | 0x36 | 0x3E | 0x64 | 0x65 | 0xF0 | 0xF2 | 0xF3 => {}
            0x40..=0x4F => {
                let next = *code.get(at)?;
                // One that is not the last prefix does not count.
                prefixes.wide = byte & 8 != 0;
                if is_prefix(next) {
                    prefixes.wide = false;
                    continue;
                }
                at += 1;
                break next;
            }
            opcode => break opcode,
        }
    };
    let form = match opcode {
        0x0F => {
            let second = *code.get(at)?;
            at += 1;
            match second {
                0x38 | 0x3A => {
                    at += 1;
                    Operand(usize::from(second == 0x3A))
                }
                second => two_bytes(second)?,
            }
        }
        0xC5 => {
            let opcode = *code.get(at + 1)?;
            at += 2;
            vector(1, opcode)?
        }
        0xC4 => {
            let (map, opcode) = (code.get(at)? & 0x1F, *code.get(at + 2)?);
            at += 3;
            vector(map, opcode)?
        }
        0x62 => {
            let (map, opcode) = (code.get(at)? & 7, *code.get(at + 3)?);
            at += 4;
            vector(map, opcode)?
        }
        // AMD's XOP; below map 8 it is `pop`.
        0x8F if code.get(at)? & 0x1F >= 8 => {
            let map = code[at] & 0x1F;
            at += 3;
            match map {
                8 => Operand(1),
                9 => Operand(0),
                _ => return None,
            }
        }
        opcode => one_byte(opcode, code.get(at).copied(), &prefixes)?,
    };
    finish(code, at, form, &prefixes)
}

fn is_prefix(byte: u8) -> bool {
    matches!(byte, 0x26 | 0x2E | 0x36 | 0x3E | 0x40..=0x4F | 0x64..=0x67 | 0xF0 | 0xF2 | 0xF3)
}

/// What the form says, and how long the instruction is with it. `at`: behind the opcode.
fn finish(code: &[u8], mut at: usize, form: Form, prefixes: &Prefixes) -> Option<Instruction> {
    let word = if prefixes.narrow && !prefixes.wide { 2 } else { 4 };
    let mut relative_at = None;
    if let Operand(_) | OperandWord = form {
        let operand = *code.get(at)?;
        at += 1;
        let (mode, mut base) = (operand >> 6, operand & 7);
        let in_memory = mode != 3;
        if in_memory && base == 4 {
            base = code.get(at)? & 7;
            at += 1;
        } else if mode == 0 && base == 5 {
            relative_at = Some(at);
        }
        at += match mode {
            0 if base == 5 => 4,
            1 => 1,
            2 => 4,
            _ => 0,
        };
    }
    at += match form {
        Plain(bytes) | Operand(bytes) | Relative(bytes) | Kernel(bytes) => bytes,
        OperandWord | Word => word,
    };
    if at > code.len() {
        return None;
    }
    let kind = match form {
        Kernel(_) => Kind::Kernel,
        Relative(1) => Kind::Branch(i64::from(code[at - 1] as i8)),
        Relative(_) => Kind::Branch(i64::from(i32::from_le_bytes(code[at - 4..at].try_into().ok()?))),
        _ => Kind::Other,
    };
    Some(Instruction { length: at, kind, relative_at })
}

fn one_byte(opcode: u8, next: Option<u8>, prefixes: &Prefixes) -> Option<Form> {
    let extension = next.map(|operand| operand >> 3 & 7);
    Some(match opcode {
        0x00..=0x3F => match opcode & 7 {
            0..=3 => Operand(0),
            4 => Plain(1),
            5 => Word,
            _ => return None,
        },
        0x50..=0x5F | 0x6C..=0x6F | 0x90..=0x99 | 0x9B..=0x9F => Plain(0),
        0x63 | 0x84..=0x8E | 0xC0..=0xC1 | 0xD0..=0xD3 | 0xD8..=0xDF => {
            Operand(usize::from(matches!(opcode, 0xC0 | 0xC1)))
        }
        0x68 => Word,
        0x69 | 0x81 => OperandWord,
        0x6A | 0xA8 | 0xB0..=0xB7 | 0xE4..=0xE7 => Plain(1),
        0x6B | 0x80 | 0x83 | 0xC6 => Operand(1),
        0x70..=0x7F | 0xE0..=0xE3 | 0xEB => Relative(1),
        0x8F if extension == Some(0) => Operand(0),
        0xA0..=0xA3 => Plain(if prefixes.short { 4 } else { 8 }),
        0xA4..=0xA7 | 0xAA..=0xAF | 0xC3 | 0xC9 | 0xCB | 0xCC | 0xCF | 0xD7 | 0xEC..=0xEF => Plain(0),
        0xA9 => Word,
        0xB8..=0xBF if prefixes.wide => Plain(8),
        0xB8..=0xBF => Word,
        0xC2 | 0xCA => Plain(2),
        0xC7 => OperandWord,
        0xC8 => Plain(3),
        0xCD => Kernel(1),
        0xE8 | 0xE9 => Relative(4),
        0xF1 | 0xF4 | 0xF5 | 0xF8..=0xFD => Plain(0),
        0xF6 => Operand(usize::from(extension? < 2)),
        0xF7 => {
            if extension? < 2 {
                OperandWord
            } else {
                Operand(0)
            }
        }
        0xFE | 0xFF => Operand(0),
        _ => return None,
    })
}

/// The map behind 0F.
fn two_bytes(opcode: u8) -> Option<Form> {
    Some(match opcode {
        0x05 | 0x34 => Kernel(0),
        0x06..=0x09 | 0x0B | 0x0E | 0x30..=0x33 | 0x35 | 0x37 | 0x77 | 0xA0..=0xA2 | 0xA8..=0xAA | 0xC8..=0xCF => {
            Plain(0)
        }
        0x04 | 0x0A | 0x0C | 0x24..=0x27 | 0x36 | 0x39 | 0x3B..=0x3F | 0x7A | 0x7B => return None,
        0x0F | 0x70..=0x73 | 0xA4 | 0xAC | 0xBA | 0xC2 | 0xC4..=0xC6 => Operand(1),
        0x80..=0x8F => Relative(4),
        _ => Operand(0),
    })
}

/// Maps of VEX and EVEX.
fn vector(map: u8, opcode: u8) -> Option<Form> {
    Some(match (map, opcode) {
        (1, 0x77) => Plain(0),
        (1, 0x70..=0x73 | 0xC2 | 0xC4..=0xC6) | (3, _) => Operand(1),
        (1 | 2 | 5 | 6, _) => Operand(0),
        _ => return None,
    })
}
