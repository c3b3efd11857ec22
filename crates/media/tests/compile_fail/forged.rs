//! Tokens come from the medium alone.

use pocketstone_media::{Dirty, Durable, Flushed};

fn main() {
    let _ = Dirty(()); //~ E0423
    let _ = Flushed(()); //~ E0423
    let _ = Durable(()); //~ E0423
}
