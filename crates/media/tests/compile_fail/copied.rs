//! Nor can it be doubled.

use pocketstone_media::Durable;

fn main() {
    let durable = Durable::unreferenced();
    durable.clone().done(); //~ E0599
    durable.done();
}
