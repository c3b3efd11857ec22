//! An independent reader of JFFS2: where a file's nodes lie on the chip, from an image of it.
//!
//! Node layout (fs/jffs2's on-medium format, all little-endian here), offsets in bytes:
//!
//! ```text
//! any node   0 magic 0x1985 (2)  2 type (2)  4 totlen (4)  8 hdr_crc (4)
//! dirent     12 pino (4)  16 version (4)  20 ino (4)  24 mctime (4)  28 nsize (1)  29 type (1) ... 40 name
//! inode      12 ino (4)  16 version (4)  20 mode (4) ... 44 offset (4)  48 csize (4)  52 dsize (4)
//!            56 compr (1)  57 usercompr (1)  58 flags (2)  60 data_crc (4)  64 node_crc (4)  68 data
//! ```

use pocketstone_board::Board;
use pocketstone_core::outcome::Geometry;
use pocketstone_workload::plan::Step;
use pocketstone_workload::population::TARGET_FILE;

const MAGIC: u16 = 0x1985;
const DIRENT: u16 = 0xe001;
const INODE: u16 = 0xe002;
/// Bytes of an inode node before its data; the kernel reads them apart from the data.
const INODE_HEADER: u64 = 68;

/// A piece of a file: a data node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node {
    /// Address on the chip.
    pub address: u64,
    version: u32,
    inode: u32,
    offset: u32,
    compressed: u32,
    bytes: u32,
}

impl Node {
    /// Chip pages that the kernel senses to read this node with software ECC: one read for the
    /// header and one for the data, each sensing every page it touches.
    pub fn senses(&self, page_bytes: u64) -> u64 {
        let span = |from: u64, length: u64| match length {
            0 => 0,
            _ => (from + length - 1) / page_bytes - from / page_bytes + 1,
        };
        span(self.address, INODE_HEADER) + span(self.address + INODE_HEADER, u64::from(self.compressed))
    }
}

fn number(bytes: &[u8], at: usize, length: usize) -> Option<u32> {
    let field = bytes.get(at..at + length)?;
    Some(field.iter().rev().fold(0, |value, byte| value << 8 | u32::from(*byte)))
}

/// CRC-32 as JFFS2 computes it: polynomial 0xEDB88320, seed 0, no final inversion.
fn crc(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |mut crc, byte| {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = crc >> 1 ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 };
        }
        crc
    })
}

/// The data nodes of the file `name`, and for every byte of it the index of the node that holds it.
///
/// `image` is a part of the chip that starts at the address `base`. Every header's checksum is
/// checked. Bytes that no node of the image holds are an error: the file's map must be whole.
pub fn file_map(image: &[u8], base: u64, name: &str, file_bytes: usize) -> Result<(Vec<Node>, Vec<u32>), String> {
    let (mut nodes, mut entry) = (Vec::new(), None);
    let mut at = 0;
    while at + 12 <= image.len() {
        let node = &image[at..];
        let field = |at, length| number(node, at, length).unwrap_or(0);
        let header_is_sound = field(0, 2) == u32::from(MAGIC) && crc(&node[..8]) == field(8, 4);
        if !header_is_sound {
            at += 4;
            continue;
        }
        let total = field(4, 4) as usize;
        match field(2, 2) as u16 {
            INODE if node.len() >= 68 && crc(&node[..60]) == field(64, 4) => nodes.push(Node {
                address: base + at as u64,
                inode: field(12, 4),
                version: field(16, 4),
                offset: field(44, 4),
                compressed: field(48, 4),
                bytes: field(52, 4),
            }),
            DIRENT if node.get(40..40 + field(28, 1) as usize) == Some(name.as_bytes()) => {
                entry = entry.max(Some((field(16, 4), field(20, 4))));
            }
            _ => {}
        }
        at += total.next_multiple_of(4).max(12);
    }
    let (_, inode) = entry.ok_or_else(|| format!("no directory entry `{name}` in the image"))?;
    nodes.retain(|n| n.inode == inode && n.bytes > 0);
    nodes.sort_by_key(|n| n.version);
    let mut owner = vec![u32::MAX; file_bytes];
    for (index, node) in nodes.iter().enumerate() {
        let end = (node.offset + node.bytes) as usize;
        owner[node.offset as usize..end.min(file_bytes)].fill(index as u32);
    }
    match owner.iter().position(|o| *o == u32::MAX) {
        Some(hole) => Err(format!("no node holds byte {hole} of `{name}`; {} nodes found", nodes.len())),
        None => Ok((nodes, owner)),
    }
}

/// The map of the `read` workload's file in the state after `steps`. Its senses in a run from that state, which were
/// in `blocks`, only say where to look: a map with a hole in it, or without the file's name, is refused.
pub fn target_on(
    board: &Board,
    steps: &[Step],
    chip: Geometry,
    blocks: std::ops::RangeInclusive<u64>,
) -> (Vec<Node>, Vec<u32>) {
    const AROUND: u64 = 12;
    let Some(Step::Populate { population, .. }) = steps.last() else { panic!("the steps make no file") };
    let first = blocks.start().saturating_sub(AROUND);
    let count = (blocks.end() + 1 + AROUND).min(chip.blocks()) - first;
    let command = format!("dd if=/dev/mtd0 bs={} skip={first} count={count} 2>/dev/null", chip.block_bytes);
    let argv = ["sh", "-c", &command].map(str::to_owned);
    let (image, status) = board.exec_after(steps, &argv).map_err(|f| f.error.chain()).expect("a dump");
    assert_eq!((status, image.len() as u64), (0, count * u64::from(chip.block_bytes)));
    let base = first * u64::from(chip.block_bytes);
    file_map(&image, base, TARGET_FILE, population.file_bytes as usize).expect("the whole file")
}

/// Senses that the kernel needs to fill one 4 KiB page of the page cache: each node that holds a part
/// of it is read once, in order.
pub fn senses_of_page(nodes: &[Node], owner: &[u32], page: usize, page_bytes: u64) -> u64 {
    let part = &owner[page * 4096..((page + 1) * 4096).min(owner.len())];
    let changes = part.windows(2).filter(|w| w[0] != w[1]).map(|w| w[1]);
    std::iter::once(part[0]).chain(changes).map(|index| nodes[index as usize].senses(page_bytes)).sum()
}
