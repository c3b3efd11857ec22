use super::*;
use crate::{CreateOptions, OpenOptions, ROOT, check};
use pocketstone_media::{Pcm, PcmOptions};

#[test]
fn what_is_removed_before_its_maker_lets_go_of_it_leaves_nothing() {
    let options = PcmOptions::default().read_ns(0).write_ns(0);
    let (memory, _) = Pcm::new(16 << 20, &options);
    Volume::create(Box::new(memory.region().unwrap()), &CreateOptions::default()).unwrap();
    let volume = Volume::open(Box::new(memory.region().unwrap()), &OpenOptions::default()).unwrap();
    let used = volume.usage().inodes_used;
    let metas = [Meta::file(0o777).kind(FileType::Symlink), Meta::directory(0o755)];
    for (meta, content) in metas.iter().zip([&b"x"[..], b""]) {
        // The two halves of making it: anybody may come in between.
        let new = create::create(&volume.parts, ROOT, b"new", meta, content).unwrap();
        match meta.kind {
            FileType::Directory => volume.remove_directory(ROOT, b"new").unwrap(),
            _ => volume.unlink(ROOT, b"new").unwrap(),
        }
        let ino = new.ino;
        assert_eq!(let_go(&volume.parts, new).ino, ino);
        assert_eq!(volume.usage().inodes_used, used, "{:?}: an inode without a name is left", meta.kind);
        assert!(matches!(volume.attributes(ino), Err(Error::NotFound)));
    }
    volume.close().unwrap();
    let report = check(Box::new(memory.region().unwrap())).unwrap();
    assert!(report.findings.is_empty(), "{:#?}", report.findings);
}
