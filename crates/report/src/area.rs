//! Rectangles of a picture, and whether they are in each other's way.

/// A rectangle of a picture.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Area {
    pub left: f64,
    pub top: f64,
    pub right: f64,
    pub bottom: f64,
}

impl Area {
    /// A square around a place.
    pub(crate) fn around(x: f64, y: f64, half: f64) -> Area {
        Area { left: x - half, top: y - half, right: x + half, bottom: y + half }
    }

    /// Whether two have a place in common.
    pub(crate) fn meets(&self, other: &Area) -> bool {
        self.left < other.right && other.left < self.right && self.top < other.bottom && other.top < self.bottom
    }

    /// Whether another one is inside of it.
    pub(crate) fn holds(&self, other: &Area) -> bool {
        self.left <= other.left && other.right <= self.right && self.top <= other.top && other.bottom <= self.bottom
    }
}
