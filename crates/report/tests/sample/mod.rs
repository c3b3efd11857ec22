//! A model as a quick study makes it, with something of everything that a report shows.

mod layers;

use pocketstone_core::origin::Origin;
use pocketstone_study::views::model::*;

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|t| t.to_string()).collect()
}

fn line(name: &str, source: Source, xs: &[f64], ys: &[f64], spread: f64) -> Series {
    let interval = source == Source::Measured && spread > 0.0;
    let point = |(&x, &y): (&f64, &f64)| Point {
        x,
        y,
        low: interval.then_some(y - spread * (1.0 + y.abs())),
        high: interval.then_some(y + spread * (1.0 + y.abs())),
        n: Some(7),
    };
    Series { name: name.into(), source, curve: false, points: xs.iter().zip(ys).map(point).collect() }
}

fn figure(id: &str, title: &str, caption: &str, x: (&str, Scale), y: (&str, Scale), series: Vec<Series>) -> Figure {
    let axis = |(label, scale): (&str, Scale)| Axis { label: label.into(), scale };
    Figure {
        id: id.into(),
        title: title.into(),
        caption: caption.into(),
        x: axis(x),
        y: axis(y),
        series,
        ..Figure::default()
    }
}

fn figures() -> Vec<Figure> {
    use Source::{Measured, Paper};
    let n = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0];
    let requests = ("Number of requests", Scale::Log2);
    let rising = |top: f64, half: f64| n.map(|x| top * x / (x + half)).to_vec();
    let kib = 1024.0;
    let sizes = [4.0, 16.0, 32.0, 64.0, 128.0, 256.0].map(|k| k * kib);
    let systems = ["ext2", "ext3", "ext4", "btrfs", "f2fs", "xfs", "nilfs2", "jfs"];
    vec![
        figure(
            "improvement",
            "Improvement of read-ahead off over on",
            "Random reads gain from the first requests on; sequential reads lose, and the loss stays.",
            requests,
            ("Improvement of read-ahead off over on (% of the time with read-ahead)", Scale::Percent),
            vec![
                line("random", Measured, &n, &rising(0.47, 3.0), 0.012),
                line("strided", Measured, &n, &rising(0.24, 9.0), 0.01),
                line("sequential", Measured, &n, &rising(-0.21, 5.0), 0.008),
                line("random (paper)", Paper, &n[..9], &rising(0.41, 4.0), 0.0),
                line("sequential (paper)", Paper, &n[..9], &rising(-0.26, 6.0), 0.0),
            ],
        ),
        figure(
            "time",
            "Time per request",
            "With read-ahead, a random request costs the pages that nobody asked for.",
            requests,
            ("Time per request", Scale::Duration),
            vec![
                line("read-ahead on", Measured, &n, &rising(1.62e6, 0.6), 0.02),
                line("read-ahead off", Measured, &n, &rising(0.86e6, 0.4), 0.02),
            ],
        ),
        figure(
            "bytes",
            "Bytes read from flash by size of the request",
            "",
            ("Size of the request", Scale::Bytes),
            ("Bytes read", Scale::Bytes),
            vec![
                line("read-ahead on", Measured, &sizes, &sizes.map(|s| (s * 1.9).max(128.0 * kib)), 0.03),
                line("read-ahead off", Measured, &sizes, &sizes.map(|s| s * 1.04), 0.0),
            ],
        ),
        figure(
            "systems",
            "Mounted file systems: time of 256 random requests",
            "Eight file systems, the same file, the same requests.",
            ("Size of the file (MiB)", Scale::Log2),
            ("Time of all requests", Scale::Duration),
            (0..8)
                .map(|i| {
                    let ys = n[..7].iter().map(|x| 4.0e7 * (1.0 + 0.16 * i as f64) * x.powf(0.12)).collect::<Vec<_>>();
                    line(systems[i], Measured, &n[..7], &ys, 0.0)
                })
                .collect(),
        ),
        figure(
            "one",
            "Page senses per request, `bs=4k`",
            "Only one cell of this figure was measured.",
            ("Requests at once", Scale::Linear),
            ("Page senses per request", Scale::Linear),
            vec![line("random", Measured, &[4.0], &[3.25], 0.1)],
        ),
        figure(
            "f2fs",
            "Improvement on f2fs",
            "The board's kernel has no f2fs.",
            requests,
            ("Improvement", Scale::Percent),
            vec![line("random", Measured, &[], &[], 0.0)],
        ),
    ]
}

fn claims() -> Vec<ClaimResult> {
    let claim = |name: &str, text: &str, verdict, detail: &str, paper: Option<&str>, required| ClaimResult {
        name: name.into(),
        text: text.into(),
        verdict,
        detail: detail.into(),
        paper: paper.map(Into::into),
        deviation: None,
        origin: Default::default(),
        query: format!(
            "SELECT 1 - off.mean / on.mean\nFROM cells AS off JOIN cells AS on USING (file_system, \
                requests)\nWHERE off.read_ahead = 0 AND on.read_ahead = 128 AND pattern = '{name}'"
        ),
        required,
    };
    vec![
        claim(
            "random-gains",
            "Random reads are at least 30% faster with read-ahead off",
            Verdict::Holds,
            "saves 45.7 % (98.4% interval 44.1% to 47.2%); claimed: at least 30 %",
            Some("41% on an SD card of 2012, figure 6."),
            true,
        ),
        claim(
            "sequential-loses",
            "Sequential reads are slower with read-ahead off",
            Verdict::Holds,
            "20.9% slower (98.4% interval 19.9% to 21.9%).",
            Some("“about a quarter”, section 4.2."),
            false,
        ),
        claim(
            "no-erases",
            "Reading erases no block",
            Verdict::Unexplained,
            "3 block erases were counted; at most 0 were expected. The clock of `atime` writes metadata.",
            None,
            true,
        ),
        claim(
            "f2fs-gains",
            "The gain on f2fs is within 5 points of the gain on ext4",
            Verdict::Unavailable,
            "No results for file system f2fs: see what was left out.",
            Some("“similar for both”."),
            false,
        ),
    ]
}

fn tables() -> Vec<Table> {
    let row = |cells: [&str; 6]| strings(&cells);
    let cells = Table {
        origin: Origin::Measured,
        id: "cells".into(),
        title: "All cells".into(),
        caption: "Medians of seven runs each, with an interval of the median.".into(),
        columns: strings(&["File system", "Pattern", "Read-ahead", "Requests", "Time per request", "Page senses"]),
        rows: vec![
            row(["ext4", "random", "128 KiB", "256", "1.62 ms (1.59 ms to 1.66 ms)", "8230"]),
            row(["ext4", "random", "0 B", "256", "0.86 ms (0.84 ms to 0.89 ms)", "1024"]),
            row(["ext4", "sequential", "128 KiB", "256", "0.31 ms (0.30 ms to 0.31 ms)", "1036"]),
            row(["ext4", "sequential", "0 B", "256", "0.39 ms (0.38 ms to 0.40 ms)", "1024"]),
            row(["btrfs", "random", "128 KiB", "256", "1.98 ms (1.91 ms to 2.07 ms)", "9411"]),
            row(["f2fs", "random", "128 KiB", "256", "–", "–"]),
        ],
    };
    let ops = Table {
        origin: Origin::Measured,
        id: "operations".into(),
        title: "Flash operations".into(),
        caption: String::new(),
        columns: strings(&["Operation", "Count", "Share of the time"]),
        rows: [["page sense", "21743", "92.1%"], ["page program", "48", "7.4%"], ["block erase", "3", "0.5%"]]
            .iter()
            .map(|r| strings(r))
            .collect(),
    };
    vec![cells, ops]
}

fn heat_maps() -> Vec<HeatMap> {
    let senses = |i: u64| match i {
        3 | 4 => 4200,
        130..420 => 1 + (i * 2_654_435_761 % 97) * (i * 40_503 % 13) / 4,
        700..708 => 900,
        1500..1560 => i % 5,
        _ => 0,
    };
    let map = |id: &str, title: &str, unit: &str, blocks| HeatMap {
        id: id.into(),
        title: title.into(),
        caption: "The file lies in one stretch; blocks 3 and 4 hold the file system's own tables.".into(),
        unit: unit.into(),
        blocks,
    };
    vec![
        map("senses", "Page senses by block, read-ahead on", "page sense", (0..2048).map(senses).collect()),
        map("erases", "Block erases by block", "block erases", (0..2048).map(|i| u64::from(i % 613 == 5)).collect()),
    ]
}

/// The model.
pub fn model() -> Model {
    let fact = |name: &str, value: &str| (name.to_string(), value.to_string());
    let left = |what: &str, why: &str, cure: &str| LeftOut { what: what.into(), why: why.into(), cure: cure.into() };
    let f2fs = "the kernel of board `pi-zero` has no f2fs";
    Model {
        title: "Read-ahead on a flash chip: when to switch it off".into(),
        description: strings(&[
            "Read-ahead fetches pages that nobody has asked for yet. On a raw flash chip each of them costs a \
                page sense, which a random reader pays for nothing.",
            "This study reads a file of 64 MiB in requests of 4 KiB, in three orders, with `read_ahead_kb` at \
                128 and at 0, and compares the times.",
        ]),
        answer: None,
        summary: "38 of 42 cells ran on board pi-zero in 11 min 4 s; two of four claims hold, one does not, one \
            has no results."
            .into(),
        command: "pocketstone run studies/read-ahead.toml --board devices/pi-zero.toml --quick --seed 42 \
            --output 'results/read ahead'"
            .into(),
        facts: vec![
            fact("pocketstone", "0.1.0"),
            fact("Board", "pi-zero (virtual, ARMv6, 512 MiB)"),
            fact("Kernel", "6.1.0-28-rpi armv6l"),
            fact("Flash chip", "nandsim, 256 MiB, 2048 blocks of 128 KiB"),
            fact("Started", "2026-03-14 09:26:53 UTC"),
            fact("Seed", "42"),
            fact("Results", "results/read ahead/results.sqlite"),
        ],
        caveats: strings(&[
            "The chip is simulated: times are counted from its operations, not measured at its pins.",
            "Quick mode: 3 runs instead of 30 per cell, so intervals are wide.",
        ]),
        claims: claims(),
        figures: [figures(), layers::figures()].concat(),
        distributions: layers::distributions(),
        timelines: layers::timelines(),
        chains: layers::chains(),
        tables: tables(),
        heat_maps: heat_maps(),
        explorer: None,
        explanations: vec![Explanation {
            heading: "Why random reads gain so much".into(),
            paragraphs: strings(&[
                "With `read_ahead_kb=128` a request of one page brings 31 others along. The next request hits \
                    one of them with a chance of 0.2%.",
                "The gain grows with the number of requests because mounting, which is the same for both, \
                    weighs less and less.",
            ]),
        }],
        left_out: vec![
            left("random reads on f2fs", f2fs, "build the kernel with `CONFIG_F2FS_FS=m`"),
            left("sequential reads on f2fs", f2fs, "build the kernel with `CONFIG_F2FS_FS=m`"),
            left("power", "the board has no power meter", ""),
        ],
        failures: vec![FailedCell {
            cell: "btrfs, strided, read-ahead 0, 1024 requests".into(),
            message: "the board did not answer: cannot mount /dev/mtdblock0: no space left on device".into(),
            hint: Some("give the chip at least 256 MiB: `chip.blocks = 2048` in the device's file".into()),
            console: Some(
                "\u{1b}[32m[   12.301]\u{1b}[0m BTRFS: device fsid 2f1c devid 1 transid 7\n[   \
                12.377] BTRFS error (device mtdblock0): no space left <-28>\n[   12.391] probe: mount: \
                ENOSPC\n"
                    .into(),
            ),
        }],
    }
}
