//! Whether numbers were measured or come from models.

use serde::Serialize;

/// What stands behind every number of a model.
pub const MODELLED: &str = "Modelled, not measured.";

/// Where a number comes from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// It was measured.
    #[default]
    Measured,
    /// It comes from a model.
    Modelled,
    /// A model and measurements both went into it.
    Both,
}

impl Origin {
    /// Of values together.
    pub fn of_all(origins: impl IntoIterator<Item = Origin>) -> Origin {
        let both = |one, other| if one == other { one } else { Origin::Both };
        origins.into_iter().reduce(both).unwrap_or_default()
    }

    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Origin::Measured => "measured",
            Origin::Modelled => "modelled",
            Origin::Both => "both",
        }
    }

    /// A caption, with a sentence on its numbers where not all of them were measured.
    pub fn caption(self, text: &str) -> String {
        let more = match self {
            Origin::Measured => return text.to_owned(),
            Origin::Modelled => MODELLED,
            Origin::Both => "Values marked as modelled were not measured.",
        };
        format!("{} {more}", text.trim_end()).trim_start().to_owned()
    }

    /// A claim's verdict in words, with where its number comes from.
    pub fn detail(self, text: &str) -> String {
        match self {
            Origin::Measured => text.to_owned(),
            Origin::Modelled => format!("{text} (modelled, not measured)"),
            Origin::Both => format!("{text} (modelled, alongside measured values)"),
        }
    }
}
