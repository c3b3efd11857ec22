//! How dark each pixel of a row is: by the share of its time that spans cover.

/// Shades from the lightest, 1, to full colour.
pub(crate) const SHADES: usize = 8;

/// The share of each of `pixels` that spans cover; where they overlap, a share is at most 1. Spans are in pixels, and
/// what lies outside is not drawn.
pub(crate) fn shares(spans: impl Iterator<Item = (f64, f64)>, pixels: usize) -> Vec<f64> {
    let mut shares = vec![0.0; pixels];
    for (from, to) in spans {
        let (from, to) = (from.clamp(0.0, pixels as f64), to.clamp(0.0, pixels as f64));
        let first = from as usize;
        for (n, share) in shares.iter_mut().enumerate().take(to.ceil() as usize).skip(first) {
            let covered = to.min((n + 1) as f64) - from.max(n as f64);
            *share = f64::min(1.0, *share + covered.max(0.0));
        }
    }
    shares
}

/// The shade of a share that is not 0: even the smallest can be seen.
pub(crate) fn shade(share: f64) -> usize {
    ((share * SHADES as f64 - 1e-6).ceil() as usize).clamp(1, SHADES)
}

/// Stretches of pixels of the same shade: the shade, the first pixel, how many.
pub(crate) fn stretches(shares: &[f64]) -> Vec<(usize, usize, usize)> {
    let mut found: Vec<(usize, usize, usize)> = Vec::new();
    for (n, share) in shares.iter().enumerate().filter(|(_, share)| **share > 0.0) {
        let shade = shade(*share);
        match found.last_mut() {
            Some((last, first, count)) if *last == shade && *first + *count == n => *count += 1,
            _ => found.push((shade, n, 1)),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_what_spans_cover_of_a_pixel() {
        // A quarter of pixel 0, all of 1, half of 2; another one within pixel 1 changes nothing.
        let found = shares([(0.75, 2.5), (1.2, 1.4)].into_iter(), 4);
        assert_eq!(found, [0.25, 1.0, 0.5, 0.0]);
        assert_eq!(stretches(&found), [(2, 0, 1), (8, 1, 1), (4, 2, 1)]);
        // What lies outside is cut.
        assert_eq!(shares([(-5.0, 0.5), (3.5, 99.0)].into_iter(), 4), [0.5, 0.0, 0.0, 0.5]);
    }

    #[test]
    fn a_tenth_is_light_and_nothing_that_is_there_is_invisible() {
        let tenth = shares((0..100).map(|n| (f64::from(n), f64::from(n) + 0.1)), 100);
        assert_eq!(stretches(&tenth), [(1, 0, 100)]);
        assert_eq!((shade(1e-9), shade(0.5), shade(1.0)), (1, 4, SHADES));
    }
}
