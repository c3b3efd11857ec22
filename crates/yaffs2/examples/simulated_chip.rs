//! Files of a volume without a mount, on a simulated chip: `cargo run --example simulated_chip`.

use pocketstone_media::nand::{Geometry, SimulatedNand, SimulatedOptions};
use pocketstone_yaffs2::{OpenOptions, Volume};
use std::io::{Read, Seek, SeekFrom, Write};

/// Makes a volume on a chip, and files in that.
pub fn main() -> Result<(), Box<dyn std::error::Error>> {
    let geometry = Geometry { page_bytes: 2048, spare_bytes: 64, pages_per_block: 64, blocks: 64 };
    let mut chip = SimulatedNand::new(geometry, SimulatedOptions::default());
    Volume::create(&mut chip)?;
    let fs = Volume::open(Box::new(chip), &OpenOptions::default())?.into_file_system();

    fs.create_dir("/logs")?;
    writeln!(fs.create("/logs/today")?, "it works")?;
    fs.rename("/logs/today", "/logs/yesterday")?;
    let mut text = String::new();
    let mut file = fs.open("/logs/yesterday")?;
    file.seek(SeekFrom::Start(3))?;
    file.read_to_string(&mut text)?;
    assert_eq!(text, "works\n");
    drop(file);
    Ok(fs.into_volume().close()?)
}
