//! SCMFS beside memory copies, tmpfs and ext4. Prints ratios from one run: medians over interleaved rounds. Looking
//! names up is in the bench of `calls`.

mod data;
mod ground;
mod measure;
mod names;
mod sums;

use std::io::Write;

type Bench = fn(&ground::Ground);

/// Prints a line.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

fn main() {
    let only: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let wanted = |name: &str| only.is_empty() || only.iter().any(|part| name.contains(part.as_str()));
    let Some(ground) = ground::Ground::prepare(10 << 30) else { return };
    let used = pocketstone_media::persist::instructions();
    say(&format!("cache lines are written back by {}, streams are stored by {}", used.write_back, used.stream));
    let benches: [(&str, Bench); 8] = [
        ("random-read", data::random_read),
        ("overwrite", data::overwrite),
        ("append", data::append),
        ("bandwidth", data::bandwidth),
        ("threads", data::threads),
        ("hugetlbfs", data::hugetlbfs),
        ("checksums", sums::cost),
        ("names", names::change),
    ];
    for (name, bench) in benches {
        if wanted(name) {
            say(&format!("\n{name}"));
            bench(&ground);
        }
    }
}
