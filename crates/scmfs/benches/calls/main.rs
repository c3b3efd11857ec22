//! What single calls cost, in processor time: each bar is one line, with the ratio, the bar, and whether it is met;
//! below it the times, and what each operation is made of. First on a tmpfs with huge pages, then on `/dev/shm`, which
//! has the kernel's default pages. An argument selects the bars whose name contains it.

mod data;
mod measure;
mod names;
#[path = "../place.rs"]
mod place;

use measure::say;
use pocketstone_media::{MapOptions, Mapped};
use pocketstone_scmfs::{CreateOptions, OpenOptions, Volume};
use std::path::{Path, PathBuf};

/// A new volume in a file; `persistent`: with flushes and fences.
fn volume(path: &Path, bytes: u64, persistent: bool, inodes: Option<u32>) -> Volume {
    let options = MapOptions::default().persistent(persistent);
    let region = Mapped::create(path, bytes, &options).expect("a region");
    let create = CreateOptions::default().zeroed(true).inodes(inodes);
    Volume::create(Box::new(region), &create).expect("a volume");
    let region = Mapped::open(path, &options).expect("it opens");
    Volume::open(Box::new(region), &OpenOptions::default()).expect("the volume opens")
}

type Bench = fn(&Path);

fn main() {
    let only: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let chosen = pocketstone_media::persist::instructions();
    say(&format!("write-back {}, {}", chosen.write_back, chosen.stream));
    let mounted = tempfile::tempdir().expect("a temporary directory");
    let huge = place::huge_tmpfs(mounted.path());
    if huge.is_none() {
        say("left out: huge pages; why: this process may not mount; fix: run as root");
    }
    let places = huge.into_iter().map(|at| ("huge pages", at)).chain([("default pages", PathBuf::from("/dev/shm"))]);
    let benches: [(&str, Bench); 5] = [
        ("read", data::read),
        ("append", data::append),
        ("large", data::large),
        ("names", names::change),
        ("look-up", names::look_up),
    ];
    for (what, directory) in places {
        say(&format!("\n{what}: {}", directory.display()));
        for (name, bench) in benches {
            if only.is_empty() || only.iter().any(|part| name.contains(part.as_str())) {
                let home = tempfile::tempdir_in(&directory).expect("a directory");
                bench(home.path());
            }
        }
    }
}
