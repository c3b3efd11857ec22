//! Who stores promises that nobody looks, which the compiler cannot know.

use pocketstone_media::{Durable, Heap, Medium, Region};

fn main() {
    let region = Heap::new(4096);
    region.write(64, &[1; 8]); //~ E0133
    let medium = Medium::new(Box::new(region));
    let stored = medium.write(64, &[1; 8], Durable::unreferenced()); //~ E0133
    medium.fence(medium.flush(stored)).done();
}
