//! Nor can somebody implement a region without the promises that others rely on.

use pocketstone_media::Window;

struct Anywhere;

impl Window for Anywhere { //~ E0200
    fn base(&self) -> *const u8 {
        std::ptr::null()
    }
}

fn main() {}
