//! A token proves one thing once.

use pocketstone_media::{Durable, Heap, Medium};

fn main() {
    let medium = Medium::new(Box::new(Heap::new(4096)));
    // SAFETY: nobody else has the medium.
    unsafe {
        let dirty = medium.write(64, &[1; 8], Durable::unreferenced());
        let flushed = medium.flush(dirty);
        let _ = medium.flush(dirty); //~ E0382
        let durable = medium.fence(flushed);
        let _ = medium.store_u64(0, 64, durable);
        let _ = medium.store_u64(8, 64, durable); //~ E0382
    }
}
