//! Lengths and kinds of instructions: as Intel's manual has them, and as objdump(1) says of whole libraries.

#[path = "../src/instructions.rs"]
mod instructions;

use instructions::{Instruction, Kind, decode};
use pocketstone_testing::{or_skip, program};
use std::path::Path;
use std::process::Command;

fn length(code: &[u8]) -> Option<usize> {
    decode(code).map(|instruction| instruction.length)
}

#[test]
fn forms_of_the_manual() {
    let forms: [(&str, &[u8]); 26] = [
        ("nop", &[0x90]),
        ("mov %rsp, %rbp", &[0x48, 0x89, 0xE5]),
        ("mov $1, %eax", &[0xB8, 1, 0, 0, 0]),
        ("mov $1, %ax", &[0x66, 0xB8, 1, 0]),
        ("movabs $1, %rax", &[0x48, 0xB8, 1, 0, 0, 0, 0, 0, 0, 0]),
        ("mov (moffs), %eax", &[0xA1, 1, 2, 3, 4, 5, 6, 7, 8]),
        ("mov (moffs32), %eax", &[0x67, 0xA1, 1, 2, 3, 4]),
        ("mov %fs:0x28, %rax", &[0x64, 0x48, 0x8B, 0x04, 0x25, 0x28, 0, 0, 0]),
        ("mov 8(%rsp), %r9", &[0x4C, 0x8B, 0x4C, 0x24, 8]),
        ("lea 0x12345678(,%rax,8), %rcx", &[0x48, 0x8D, 0x0C, 0xC5, 0x78, 0x56, 0x34, 0x12]),
        ("testb $1, %al, by F6 /0", &[0xF6, 0xC0, 1]),
        ("notb %al, by F6 /2", &[0xF6, 0xD0]),
        ("testl $1, %eax, by F7 /0", &[0xF7, 0xC0, 1, 0, 0, 0]),
        ("negl %eax, by F7 /3", &[0xF7, 0xD8]),
        ("enter $1, $2", &[0xC8, 1, 0, 2]),
        ("ret $8", &[0xC2, 8, 0]),
        ("cmpxchg %rcx, (%rdx) with lock", &[0xF0, 0x48, 0x0F, 0xB1, 0x0A]),
        ("endbr64", &[0xF3, 0x0F, 0x1E, 0xFA]),
        ("nopw 0(%rax,%rax,1) of nine bytes", &[0x66, 0x0F, 0x1F, 0x84, 0, 0, 0, 0, 0]),
        ("pshufd $1, %xmm1, %xmm2", &[0x66, 0x0F, 0x70, 0xD1, 1]),
        ("pshufb %xmm1, %xmm2", &[0x66, 0x0F, 0x38, 0x00, 0xD1]),
        ("palignr $1, %xmm1, %xmm2", &[0x66, 0x0F, 0x3A, 0x0F, 0xD1, 1]),
        ("vzeroupper", &[0xC5, 0xF8, 0x77]),
        ("vpalignr $1, %ymm1, %ymm2, %ymm3", &[0xC4, 0xE3, 0x6D, 0x0F, 0xD9, 1]),
        ("vmovdqu64 (%rdi), %zmm0", &[0x62, 0xF1, 0xFE, 0x48, 0x6F, 0x07]),
        ("vprotd $2, %xmm4, %xmm5 of XOP", &[0x8F, 0xE8, 0x78, 0xC2, 0xEC, 2]),
    ];
    for (name, code) in forms {
        let padded = [code, &[0; 16]].concat();
        assert_eq!(length(&padded), Some(code.len()), "{name}");
        assert_eq!(length(&code[..code.len() - 1]), None, "{name}, cut short");
        assert_eq!(decode(code).map(|instruction| instruction.kind), Some(Kind::Other), "{name}");
    }
    for invalid in [&[0x06, 0, 0][..], &[0x0F, 0x04, 0], &[0xD6], &[0x62, 0, 0, 0, 0, 0], &[]] {
        assert_eq!(length(invalid), None, "{invalid:?}");
    }
    assert_eq!(length(&[0x66; 20]), None, "prefixes without end");
}

#[test]
fn the_kernel_is_entered_and_places_in_the_code_are_named() {
    let kernel = |length| Some(Instruction { length, kind: Kind::Kernel, relative_at: None });
    assert_eq!(decode(&[0x0F, 0x05]), kernel(2));
    assert_eq!(decode(&[0x48, 0x0F, 0x05]), kernel(3), "with a prefix that means nothing");
    assert_eq!(decode(&[0x0F, 0x34]), kernel(2), "sysenter");
    assert_eq!(decode(&[0xCD, 0x80]), kernel(2), "int $0x80");
    let branch = |length, by| Some(Instruction { length, kind: Kind::Branch(by), relative_at: None });
    assert_eq!(decode(&[0xEB, 0xFE]), branch(2, -2), "to itself");
    assert_eq!(decode(&[0x0F, 0x84, 0, 1, 0, 0]), branch(6, 256), "je");
    assert_eq!(decode(&[0xE8, 0xFB, 0xFF, 0xFF, 0xFF]), branch(5, -5), "call");
    assert_eq!(decode(&[0xC7, 0xF8, 0x10, 0, 0, 0]).map(|i| i.length), Some(6), "xbegin");
    let compared = decode(&[0x80, 0x3D, 1, 2, 3, 4, 0]);
    assert_eq!(compared, Some(Instruction { length: 7, kind: Kind::Other, relative_at: Some(2) }), "cmpb $0, x(%rip)");
}

/// Instructions of a file, as objdump has them: their bytes, and the text.
fn listed(objdump: &Path, file: &Path) -> Vec<(Vec<u8>, String)> {
    let said = Command::new(objdump).args(["-d", "-w"]).arg(file).output().expect("objdump starts").stdout;
    let lines = String::from_utf8_lossy(&said).into_owned();
    let instruction = |line: &str| {
        let mut parts = line.split('\t').skip(1);
        let bytes = parts.next()?.split_whitespace().map(|byte| u8::from_str_radix(byte, 16));
        Some((bytes.collect::<Result<_, _>>().ok()?, parts.next()?.to_owned()))
    };
    lines.lines().filter_map(instruction).collect()
}

#[test]
fn whole_libraries_are_decoded_as_objdump_does() {
    let objdump = or_skip!(program("objdump", "binutils"));
    let folder = Path::new("/lib/x86_64-linux-gnu");
    let mut count = 0;
    for name in ["libc.so.6", "libstdc++.so.6", "libm.so.6"] {
        for (bytes, text) in listed(&objdump, &folder.join(name)) {
            // The assembler's names for two instructions, and what is none.
            if text.contains("(bad)") || bytes.first() == Some(&0x9B) {
                continue;
            }
            let found = decode(&[&bytes[..], &[0; 16]].concat());
            let found = found.unwrap_or_else(|| panic!("{name}: {bytes:x?} is {text}"));
            assert_eq!(found.length, bytes.len(), "{name}: {bytes:x?} is {text}");
            let kernel = ["syscall", "sysenter", "int"].contains(&text.split_whitespace().next().unwrap_or_default());
            assert_eq!(found.kind == Kind::Kernel, kernel, "{name}: {bytes:x?} is {text}");
            let relative = text.contains("(%rip)") || text.contains("(%eip)");
            assert_eq!(found.relative_at.is_some(), relative, "{name}: {bytes:x?} is {text}");
            count += 1;
        }
    }
    assert!(count > 100_000 || !folder.exists(), "{count}");
}
