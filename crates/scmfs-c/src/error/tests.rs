use super::*;

fn message() -> String {
    // SAFETY: it ends with a zero, and no other call of this thread is in between.
    unsafe { CStr::from_ptr(scmfs_last_error()) }.to_str().unwrap().to_owned()
}

#[test]
fn a_panic_is_an_error_and_breaks_the_volume() {
    let health = Health::default();
    let broken = status("f", || {
        let _call = health.enter()?;
        panic!("number {}", 7)
    });
    assert_eq!((broken, health.is_broken()), (-5, true));
    assert_eq!(message(), format!("f: Bug: the library panicked: number 7; hint: {REOPEN}"));
    assert_eq!(count("g", || health.enter().map(|_call| 1)), -5);
    assert_eq!(message(), format!("g: Bug: the library panicked in an earlier call; hint: {REOPEN}"));
    assert_eq!(status("h", || panic!("plain")), -5);
    assert!(message().contains("panicked: plain;"));
    assert_eq!(status("i", || std::panic::panic_any(7)), -5);
    assert!(message().contains("panicked: without a message;"));
}

#[test]
fn errors_have_numbers_kinds_causes_and_hints() {
    let fails = |error: Error| status("f", || Err(error.into()));
    assert_eq!((fails(Error::NotEmpty), message().as_str()), (-39, "f: NotEmpty: the directory is not empty"));
    let inner = std::io::Error::from_raw_os_error(13);
    let medium = pocketstone_media::Error::refused("cannot open /v").because(inner).hint("chmod\0it");
    assert_eq!(fails(medium.into()), -13, "what the operating system said");
    assert_eq!(message(), "f: Refused: cannot open /v: Permission denied (os error 13); hint: chmod it");
    let medium = pocketstone_media::Error::failed("cannot lock").because(Errno::NOLCK);
    assert_eq!(fails(medium.into()), -Errno::NOLCK.raw_os_error());
    assert_eq!(fails(pocketstone_media::Error::bug("x").into()), -5);
    assert_eq!(message(), "f: Bug: x");
    assert_eq!(fails(Error::damaged(64, "a bad page")), -5);
    assert!(message().starts_with("f: Damaged: the volume is damaged: a bad page at byte 64; hint: "));
}

#[test]
fn each_thread_has_its_own_message_and_success_keeps_it() {
    assert_eq!((message().as_str(), status("f", || Err(Failure::Argument("x is NULL")))), ("", -22));
    assert_eq!((status("g", || Ok(())), count("h", || Ok(3))), (0, 3));
    std::thread::spawn(|| assert_eq!(message(), "")).join().unwrap();
    assert_eq!((message().as_str(), message().as_str()), ("f: Argument: x is NULL", "f: Argument: x is NULL"));
}
