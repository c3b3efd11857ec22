//! The views of replays.

use crate::specification::factor::FACTORS;
use crate::specification::setting::{Lever, lever_columns as levers};
use pocketstone_core::words::Word;

/// What a factor of the cell is called beside the replay's own columns.
fn recorded(factor: &str) -> String {
    let own = ["device", "governor"].contains(&factor) || Lever::of_word(factor).is_some();
    if own { format!("recorded_{factor}") } else { factor.to_owned() }
}

/// The views that one line of SQL can read. A factor that is a lever too is `recorded_...` there.
pub(super) fn views() -> String {
    let columns =
        |point: &str| FACTORS.iter().map(|f| format!("{point} ->> '$.{}' AS {}, ", f.name, recorded(f.name))).collect();
    let (of_cell, of_point): (String, String) = (columns("coalesce(c.point, r.recorded)"), columns("point"));
    let of_log = "point ->> '$.log' AS log,";
    format!(
        "CREATE VIEW replays AS
             SELECT r.id, r.name AS replay, r.cell, r.recorded ->> '$.log' AS log, c.experiment, {of_cell} c.repetition,
                    c.seed, r.device, r.governor, {}, r.cycles_scale, r.source, r.profile, r.digest
             FROM replay r LEFT JOIN cell c ON c.id = r.cell;
         CREATE VIEW replay_summary AS
             SELECT name AS replay, experiment, {of_log} {of_point} device, governor, {}, metric, n, median, mean,
                    low, high, coverage, 'modelled' AS origin
             FROM replay_statistic WHERE metric NOT LIKE 'residency:%';
         CREATE VIEW replay_residency AS
             SELECT name AS replay, experiment, {of_log} {of_point} device, governor, {},
                    CAST(substr(metric, 11) AS INTEGER) AS khz, n, median AS share, low, high,
                    coverage, 'modelled' AS origin
             FROM replay_statistic WHERE metric LIKE 'residency:%';",
        levers("r."),
        levers(""),
        levers(""),
    )
}
