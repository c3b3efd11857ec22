//! Tokens come from the medium alone.

use pocketstone_media::{Durable, Flushed};

fn main() {
    let _ = Flushed(()); //~ E0423
    let _ = Durable(()); //~ E0423
}
