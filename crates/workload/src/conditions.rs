//! The conditions in which the processors work while a program is measured, as factors of studies.

use crate::factor::{Count, Factor, Impossible, OrDefault, Point, Text, blame};
use pocketstone_core::database::Conditions;

pub(crate) const GOVERNOR: Factor<OrDefault<Text>> =
    Factor::new("governor", "CPU frequency governor; default leaves the machine's").default("default");
pub(crate) const FREQUENCY: Factor<OrDefault<Text>> = Factor::new(
    "frequency",
    "CPU frequency bounds: LOW-HIGH in kHz, fixed:1267200kHz, fixed:50 (per cent of the maximum)",
)
.default("default");
pub(crate) const CORES: Factor<OrDefault<Count>> = Factor::new("cores", "cores on-line").default("default");
pub(crate) const POWER: Factor<OrDefault<Text>> = Factor::new("power", "power source, a label").default("default");

/// The conditions of a point.
///
/// # Errors
/// `Impossible` if a value is none that its factor takes.
pub(crate) fn of_point(point: &Point) -> Result<Conditions, Impossible> {
    let frequency = point.of(&FREQUENCY)?;
    Ok(Conditions {
        governor: point.of(&GOVERNOR)?,
        cores: point.of(&CORES)?.map(|n| n as u32),
        power: point.of(&POWER)?,
        frequency: frequency.map(|text| text.parse().map_err(blame(FREQUENCY.name()))).transpose()?,
    })
}
