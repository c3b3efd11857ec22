//! A distribution of latencies as a percentile chart: nines evenly spaced, latencies by powers of ten.

use pocketstone_study::views::model::{Axis, Distribution, Figure, Point, Quantiles, Scale, Series};

/// The distribution as a figure of lines.
pub(crate) fn figure(distribution: &Distribution) -> Figure {
    let point = |&(percentile, ns): &(f64, f64)| Point { x: percentile, y: ns, ..Point::default() };
    let series = |q: &Quantiles| Series {
        name: match q.count {
            0 => q.name.clone(),
            n => format!("{} ({})", q.name, crate::format::count(n)),
        },
        points: q.points.iter().map(point).collect(),
        ..Series::default()
    };
    Figure {
        id: distribution.id.clone(),
        title: distribution.title.clone(),
        caption: distribution.caption.clone(),
        x: Axis { label: "Percentile".into(), scale: Scale::Percentile },
        y: Axis { label: "Latency".into(), scale: Scale::LogDuration },
        series: distribution.series.iter().map(series).collect(),
        ..Figure::default()
    }
}
