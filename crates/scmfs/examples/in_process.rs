//! Files of a volume without a mount: `cargo run --example in_process`.

use pocketstone_media::{MapOptions, Mapped};
use pocketstone_scmfs::{CreateOptions, OpenOptions, Volume};
use std::io::{Read, Seek, SeekFrom, Write};

/// Makes a volume in a file, and files in that.
pub fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::temp_dir().join(format!("in-process-{}.scmfs", std::process::id()));
    Volume::create(Box::new(Mapped::create(&path, 16 << 20, &MapOptions::default())?), &CreateOptions::default())?;
    let region = Mapped::open(&path, &MapOptions::default())?;
    let fs = Volume::open(Box::new(region), &OpenOptions::default())?.into_file_system();

    fs.create_dir("/logs")?;
    writeln!(fs.create("/logs/today")?, "it works")?;
    fs.rename("/logs/today", "/logs/yesterday")?;
    let mut text = String::new();
    let mut file = fs.open("/logs/yesterday")?;
    file.seek(SeekFrom::Start(3))?;
    file.read_to_string(&mut text)?;
    assert_eq!(text, "works\n");
    drop(file);
    fs.into_volume().close()?;
    Ok(std::fs::remove_file(path)?)
}
