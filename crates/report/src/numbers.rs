//! Numbers above bars, and the room that bars and numbers have.

use crate::svg::{Svg, num};

/// How much higher than its bars a picture is, so that a number fits above the highest one.
pub(crate) const HEADROOM: f64 = 1.3;
/// How much lower than the smallest bar a logarithmic axis begins: a bar that ends where it begins has no height.
pub(crate) const FOOTROOM: f64 = 1.1;
/// The part of a group's room that its bars take.
pub(crate) const GROUP: f64 = 0.84;

/// How the number above a bar is shown that has so much room, if it is: text is larger on phones.
fn number_class(room: f64) -> Option<&'static str> {
    match room {
        r if r >= 18.0 => Some("tb"),
        r if r >= 11.0 => Some("tb odd"),
        _ => None,
    }
}

/// Width of a letter of these numbers, where text is largest and where it is not.
const LETTER: f64 = 10.6;
const SMALL_LETTER: f64 = 6.8;
/// The widest bar: a wider one says nothing more.
pub(crate) const WIDEST: f64 = 110.0;

/// Whether a number has room above its bar as it is read; else it is turned upright, because bars are narrow.
fn lies(number: &str, room: f64) -> bool {
    number.chars().count() as f64 * LETTER <= room
}

/// How high a number is above a bar that has so much room.
pub(crate) fn number_height(number: &str, room: f64) -> f64 {
    let letter = match number_class(room) {
        None => return 0.0,
        Some(_) if lies(number, room) => return 26.0,
        Some("tb") => LETTER,
        Some(_) => SMALL_LETTER,
    };
    number.chars().count() as f64 * letter + 8.0
}

/// How high a line over an interval is that a number has to leave open below it.
const NEAR: f64 = 18.0;

/// Writes a number above a bar that ends at `top` and has so much room: what it says is where the bar ends, however far
/// from there the line over its interval ends (`end`). It stands above a line that is near, and upright, where it would
/// hide the line.
pub(crate) fn number(svg: &mut Svg, number: &str, (x, top): (f64, f64), end: Option<f64>, room: f64) {
    let Some(class) = number_class(room) else { return };
    let above = end.map_or(top, |end| end.min(top));
    if lies(number, room) {
        let (x, y) = (num(x), num(if above < top - NEAR { top } else { above } - 7.0));
        svg.leaf("text", &[("class", "tb over"), ("x", &x), ("y", &y)], number);
        return;
    }
    let turned = format!("translate({},{})rotate(-90)", num(x), num(above - 5.0));
    svg.leaf("text", &[("class", class), ("transform", &turned), ("dy", ".35em")], number);
}
