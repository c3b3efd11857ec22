//! The same; alone, because the compiler reports this error only when there are none of the other kind.

use pocketstone_media::Dirty;

fn main() {
    let _ = Dirty { at: 0, bytes: 8 }; //~ E0451
}
