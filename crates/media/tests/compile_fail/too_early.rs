//! What is not durable yet cannot be referred to.

use pocketstone_media::{Durable, Heap, Medium};

fn main() {
    let medium = Medium::new(Box::new(Heap::new(4096)));
    // SAFETY: nobody else has the medium.
    unsafe {
        let dirty = medium.write(64, &[1; 8], Durable::unreferenced());
        let _ = medium.store_u64(0, 64, dirty); //~ E0308
        let dirty = medium.write(64, &[1; 8], Durable::unreferenced());
        let _ = medium.fence(dirty); //~ E0308
        let flushed = medium.stream(64, &[1; 8], Durable::unreferenced());
        let _ = medium.store_u64(0, 64, flushed); //~ E0308
        let flushed = medium.stream(64, &[1; 8], Durable::unreferenced());
        flushed.done(); //~ E0599
    }
}
