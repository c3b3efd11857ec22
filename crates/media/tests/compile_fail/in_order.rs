//! The order that the types ask for: this one compiles.

use pocketstone_media::{Durable, Heap, Medium};

fn main() {
    let medium = Medium::new(Box::new(Heap::new(4096)));
    // SAFETY: nobody else has the medium.
    unsafe {
        let data = medium.stream(1024, &[1; 512], Durable::unreferenced());
        let more = medium.flush(medium.write(2048, &[2; 16], Durable::unreferenced()));
        let durable = medium.fence(data.and(more));
        let pointer = medium.store_u64(0, 1024, durable);
        medium.fence(medium.flush(pointer)).done();
    }
}
