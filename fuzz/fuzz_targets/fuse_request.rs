//! Any bytes as a message of the kernel.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|message: &[u8]| {
    // Whatever it is, it is read or refused.
    let _ = pocketstone_mount::is_request(message);
});
