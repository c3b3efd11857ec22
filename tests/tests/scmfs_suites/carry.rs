//! What programs carry from one file system to another, and what they find when they do the same things on tmpfs:
//! modes, owners, lists of access rights, attributes, capabilities, links, holes, times.

use pocketstone_testing::{Need, Skip, clock, or_skip, program};
use pocketstone_tests::command::run;
use pocketstone_tests::mounted::{MountedVolume, Place, open_to_all};
use pocketstone_tests::suites::{command, tell};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A tree with everything that can be told apart, by root.
const TREE: &str = r#"
umask 022
mkdir tree && cd tree
for mode in 000 400 444 600 640 644 700 755 777 1777 2755 4755 6711; do
    echo "$mode" > "file-$mode" && chmod "$mode" "file-$mode"
    mkdir "folder-$mode" && echo "$mode" > "folder-$mode/inside"
done
echo owned > owned && chown 1000:1001 owned && echo grouped > grouped && chgrp 2000 grouped && chmod 2775 grouped
echo acl > acl && setfacl -m u:1000:rw,g:2000:r,m::rx acl
echo hidden > hidden && chmod 600 hidden && setfacl -m u:1001:r hidden
mkdir inheriting && setfacl -m u:1000:rwx,d:u:1001:rx,d:g:2000:rw,d:o::- inheriting
mkdir inheriting/below && echo heir > inheriting/heir && mkdir default && setfacl -d -m u::rwx,g::rx,o::r default
echo attributes > attributes && setfattr -n user.colour -v blue attributes
setfattr -n user.empty attributes && setfattr -n trusted.secret -v 0x00ff00 attributes
setfattr -n user.folder -v yes default && setfattr -n security.label -v any attributes
cp /bin/true capable && chmod 755 capable && setcap cap_net_raw,cap_chown+ep capable
echo links > link-1 && ln link-1 link-2 && ln link-1 default/link-3 && ln acl acl-2
truncate -s 16M hole && echo end >> hole && ln -s ../nowhere symlink && ln -s tree/acl good-link
chown -h 1000:1000 symlink && setfattr -h -n trusted.symlink -v s symlink
mkfifo -m 620 fifo && mknod -m 600 null c 1 3 && mknod -m 640 loop b 7 0 && setfacl -m u:1000:rw fifo
touch -- "a name" $'two\nlines' $'\xff\xfe' -dash "$(printf 'n%.0s' {1..255})" 'ünïcödé' '*?'
touch -d '2001-02-03 04:05:06.123456789' acl attributes && touch -d '1969-12-31 23:59:58.5 UTC' owned
touch -h -d '2010-10-10 10:10:10.101010101' symlink
for mode in 000 400 444 600 640 644 700 755 777 1777 2755 4755 6711; do chmod "$mode" "folder-$mode"; done
touch -d '2012-12-12 12:12:12.121212121' default inheriting . folder-755
"#;

/// What programs do without keeping anything: each line is done in two places, and the outcomes are compared.
const DEEDS: &[&str] = &[
    "cp -r $SOURCE/tree/inheriting plain",
    "umask 027; cp -r $SOURCE/tree/default plain; mkdir plain/new; touch plain/new/file; mkfifo plain/fifo",
    "umask 077; mkdir open; setfacl -d -m u::rwx,g::rwx,o::rx open; touch open/f; mkdir open/d; touch open/d/f",
    "umask 0; mkdir a; setfacl -d -m u:1000:rwx,m::r a; mkdir -p a/b/c; echo x > a/b/c/d; ln -s x a/s; mkfifo a/p",
    "echo old > file; chmod 644 file; sed -i s/old/new/ file; cat file",
    "echo old > file; chmod 4750 file; sed -i s/old/new/ file; cp -p file other; mv other file; cat file",
    "echo old > file; setfacl -m u:1000:rw file; sed -i s/old/new/ file; getfacl -cn file",
    "install -p -m 751 $SOURCE/tree/acl one; install -d -m 2770 two; install -p $SOURCE/tree/file-644 two; cat two/*",
    "echo x > f; setfacl -m u:1000:rwx f; chmod 640 f; getfacl -cn f; chmod 4711 f; getfacl -cn f; setfacl -b f",
    "echo x > f; chmod 2755 f; setfacl -m u:1000:r f; chgrp 2000 f; chmod 2755 f; setfacl -m u:1000:rw f",
    "mkdir d; setfacl -d -m u:7:rwx d; chacl -D d; chacl u::rw-,u:9:r--,g::r--,m::r--,o::--- d; getfacl -cn d",
    "mkdir d d/e; touch d/f d/e/g; setfacl -R -m u:7:rwX,d:g:8:r d; getfacl -Rcn d | sort; setfacl -Rb d",
    "cp -p $SOURCE/tree/capable p; echo x >> p; getcap p; cp -a $SOURCE/tree/capable p; chown 0 p; getcap p",
    "cp -a $SOURCE/tree/capable p; touch p; getcap p; truncate -s 5 p; getcap p; fallocate -l 9 p; cat p | wc -c",
    "cp $SOURCE/tree/capable p; chmod 6777 p; setpriv --reuid=5 --regid=5 --clear-groups sh -c 'echo x >> p'",
    "cp $SOURCE/tree/capable p; chmod 6777 p; setpriv --reuid=5 --regid=5 --clear-groups sh -c ': > p'",
    "touch f; mkfifo p; ln -s f s; for n in user.a trusted.a security.a system.a other.a user. bare; do
        for o in f p s; do setfattr -h -n $n -v 1 $o; getfattr -h -n $n $o; setfattr -h -x $n $o; done; done",
];

/// The same with what is append-only or immutable. A mount that is not asked at open(2) refuses when something is
/// written: other words, and nothing else.
const PROTECTED: &[&str] = &[
    "mkdir d; touch i a d/x; chattr +i i d; chattr +a a; for o in i a d; do echo x >> $o; echo x > $o; chmod 1 $o;
        chown 1 $o; rm -f $o; mv $o n; ln $o n; touch $o; touch -d @1 $o; setfattr -n user.a -v 1 $o; truncate -s 9 $o;
        setfacl -m u:7:r $o; done; touch d/n; rm d/x; mv a d; mv i d; ls -R; chattr -i i d; chattr -a a; cat a",
    "mkdir d; touch d/x; chattr +a d; touch d/y; ln d/y d/z; rm d/x; mv d/y n; mv -f d/y d/x; ls d; chattr -a d",
];

/// Who does it: a user, a group, and more groups.
#[derive(Debug, Clone, Copy)]
struct Who(u32, u32, &'static str);

const ROOT: Who = Who(0, 0, "0");
const USERS: [Who; 2] = [Who(1000, 1000, "1000"), Who(1001, 1001, "2000,1001")];

/// Everything about an object that can be told, but not where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Told {
    mode: String,
    owner: (u32, u32),
    /// Of what is neither file nor directory nor link.
    device: u64,
    /// The first of its names, and how many there are.
    links: (PathBuf, u64),
    mtime_ns: i128,
    content: Vec<u8>,
    has_holes: bool,
    attributes: BTreeMap<Vec<u8>, Vec<u8>>,
}

fn attributes(path: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut buffer = vec![0u8; 1 << 16];
    let bytes = rustix::fs::llistxattr(path, &mut buffer[..]).expect("a list of attributes");
    let names: Vec<Vec<u8>> =
        buffer[..bytes].split(|b| *b == 0).filter(|n| !n.is_empty()).map(<[u8]>::to_vec).collect();
    let mut value = |name: Vec<u8>| {
        let bytes = rustix::fs::lgetxattr(path, &name[..], &mut buffer[..]).expect("an attribute that is listed");
        (name, buffer[..bytes].to_vec())
    };
    names.into_iter().map(&mut value).collect()
}

/// A folder and everything in it. `times`: when what was changed counts.
fn listing(folder: &Path, times: bool) -> BTreeMap<PathBuf, Told> {
    let (mut todo, mut paths) = (vec![folder.to_owned()], Vec::new());
    while let Some(path) = todo.pop() {
        if fs::symlink_metadata(&path).expect("attributes").is_dir() {
            todo.extend(fs::read_dir(&path).expect("a listing").map(|entry| entry.expect("an entry").path()));
        }
        paths.push(path);
    }
    paths.sort();
    let mut first = BTreeMap::new();
    let mut told = BTreeMap::new();
    for path in paths {
        let meta = fs::symlink_metadata(&path).expect("attributes");
        let kind = meta.file_type();
        let name = path.strip_prefix(folder).expect("it is in there").to_owned();
        let content = match kind {
            _ if kind.is_file() => fs::read(&path).expect("content"),
            _ if kind.is_symlink() => fs::read_link(&path).expect("a target").as_os_str().as_bytes().to_vec(),
            _ => Vec::new(),
        };
        let is_device = kind.is_block_device() || kind.is_char_device();
        let one = Told {
            mode: format!("{:o}", meta.mode()),
            owner: (meta.uid(), meta.gid()),
            device: if is_device { meta.rdev() } else { 0 },
            links: (first.entry(meta.ino()).or_insert(name.clone()).clone(), meta.nlink()),
            mtime_ns: if times { i128::from(meta.mtime()) * 1_000_000_000 + i128::from(meta.mtime_nsec()) } else { 0 },
            has_holes: kind.is_file() && meta.len() > 1 << 20 && meta.blocks() * 512 < meta.len() / 2,
            content,
            attributes: attributes(&path),
        };
        told.insert(name, one);
    }
    told
}

#[track_caller]
fn equal(what: &str, expected: &BTreeMap<PathBuf, Told>, found: &BTreeMap<PathBuf, Told>) {
    let names = |told: &BTreeMap<PathBuf, Told>| told.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(expected), names(found), "{what}");
    for (name, one) in expected {
        let short = |told: &Told| Told { content: told.content.iter().take(80).copied().collect(), ..told.clone() };
        let other = &found[name];
        assert!(one == other, "{what}: {}\nexpected {:?}\nfound    {:?}", name.display(), short(one), short(other));
    }
}

/// What a script gave: its status, and what it said with the place it was in left out.
type Said = (Option<i32>, String, String);

fn script(who: Who, folder: &Path, source: &Path, text: &str) -> Said {
    let mut words = command("setpriv");
    words.args([format!("--reuid={}", who.0), format!("--regid={}", who.1), format!("--groups={}", who.2)]);
    words
        .args(["bash", "-c", &format!("umask 022\n{text}")])
        .current_dir(folder)
        .env("SOURCE", source)
        .env("LC_ALL", "C")
        .env("TZ", "UTC");
    let ran = run(&mut words);
    let plain = |text: &str| text.replace(&*folder.to_string_lossy(), ".");
    // What fails first depends on the order of a directory.
    let mut complaints: Vec<&str> = ran.err.lines().collect();
    complaints.sort_unstable();
    (ran.status, plain(&ran.out), plain(&complaints.join("\n")))
}

struct Carrier {
    place: Place,
    volume: MountedVolume,
    source: PathBuf,
    places: u32,
}

impl Carrier {
    fn new(mount: &[&str]) -> Result<Carrier, Skip> {
        for (name, package) in [
            ("setfacl", "acl"),
            ("setfattr", "attr"),
            ("setcap", "libcap2-bin"),
            ("rsync", "rsync"),
            ("tar", "tar"),
            ("chattr", "e2fsprogs"),
            ("setpriv", "util-linux"),
        ] {
            program(name, package)?;
        }
        let place = Place::new()?;
        let source = place.folder("source");
        let none = rustix::fs::XattrFlags::empty();
        if rustix::fs::setxattr(&source, "user.any", b"", none).is_err() {
            return Err(Need::Kernel.lacks("this kernel's tmpfs has no user attributes: use Linux 6.6 or newer"));
        }
        let made = script(ROOT, &source, &source, &format!("set -e; {TREE}"));
        assert_eq!(made, (Some(0), String::new(), String::new()));
        // rsync takes times of the same second for the same, and leaves those of pipes and devices then.
        clock::next_second();
        let volume = place.volume(mount);
        open_to_all(volume.path());
        Ok(Carrier { place, volume, source, places: 0 })
    }

    /// Two new folders, in tmpfs and in the volume.
    fn folders(&mut self) -> (PathBuf, PathBuf) {
        self.places += 1;
        let (here, there) = (self.place.folder(&format!("here-{}", self.places)), format!("there-{}", self.places));
        let there = self.volume.path().join(there);
        fs::create_dir(&there).expect("a new folder");
        open_to_all(&there);
        (here, there)
    }

    /// Root carries the tree there and back: nothing changes.
    fn there_and_back(&mut self, carry: &str) {
        let expected = listing(&self.source.join("tree"), true);
        let (here, there) = self.folders();
        // What it carries away was there before.
        let copied = script(ROOT, &here, &self.source, "cp -a --sparse=always $SOURCE/tree .");
        assert_eq!(copied, (Some(0), String::new(), String::new()));
        equal("the copy", &expected, &listing(&here.join("tree"), true));
        for (from, to) in [(&here, &there), (&there, &here)] {
            if carry.contains("mv ") && to == &here {
                assert!(!here.join("tree").exists(), "it was moved");
            }
            let _ = fs::remove_dir_all(to.join("tree"));
            let said = script(ROOT, to, from, carry);
            assert_eq!(said.0, Some(0), "{carry}: {said:?}");
            equal(carry, &expected, &listing(&to.join("tree"), true));
        }
        let volume = there.strip_prefix(self.volume.path()).expect("it is there").to_owned();
        let _ = fs::remove_dir_all(self.volume.path().join(volume));
    }

    /// Somebody does the same on tmpfs and in the volume.
    fn in_both(&mut self, who: Who, deed: &str, times: bool) {
        let what = format!("{who:?}: {deed}");
        let [expected, found] = self.leaves_the_same(who, deed, times);
        assert_eq!(expected, found, "{what}");
    }

    /// Somebody does the same in both, and leaves the same; what they are told may be in other words.
    fn leaves_the_same(&mut self, who: Who, deed: &str, times: bool) -> [String; 2] {
        let (here, there) = self.folders();
        let what = format!("{who:?}: {deed}");
        let said = [&here, &there].map(|folder| script(who, folder, &self.source, deed));
        let [expected, found] = said.each_ref().map(|(status, out, _)| (status, out));
        assert_eq!(expected, found, "{what}: {} {}", said[0].2, said[1].2);
        let [expected, found] = [&here, &there].map(|folder| {
            let mut told = listing(folder, times);
            // The folder itself changes when something gets a name in it.
            told.remove(Path::new(""));
            told
        });
        equal(&what, &expected, &found);
        said.map(|(_, _, complaints)| complaints)
    }
}

const CARRIERS: [&str; 4] = [
    "cp -a --sparse=always $SOURCE/tree .",
    "mv $SOURCE/tree .",
    "tar -C $SOURCE --acls --xattrs --xattrs-include='*' --numeric-owner -S --format=posix -cf - tree 2> /dev/null |
        tar --acls --xattrs --xattrs-include='*' --numeric-owner --same-owner -Sxpf -",
    "rsync -aHAXS --devices --specials --numeric-ids $SOURCE/tree .",
];

#[test]
fn trees_are_carried_there_and_back() {
    let mut carrier = or_skip!(Carrier::new(&[]));
    for carry in CARRIERS {
        carrier.there_and_back(carry);
    }
    // What users carry they may not read everywhere, nor keep: that is so on tmpfs, too.
    for who in USERS {
        for carry in [CARRIERS[0], CARRIERS[2], CARRIERS[3]] {
            carrier.in_both(who, carry, true);
        }
    }
    carrier.volume.end();
    tell("carry: cp, mv, tar and rsync carry a tree there and back, by root and two users");
}

#[test]
fn deeds_are_as_on_tmpfs() {
    for mount in [&[][..], &["-o", "strict_open"], &["-o", "direct_io"], &["-o", "writeback"]] {
        let mut carrier = or_skip!(Carrier::new(mount));
        for who in [ROOT, USERS[0], USERS[1]] {
            for deed in DEEDS {
                carrier.in_both(who, deed, false);
            }
            for deed in PROTECTED {
                match mount {
                    [] => _ = carrier.leaves_the_same(who, deed, false),
                    _ => carrier.in_both(who, deed, false),
                }
            }
        }
        let volume = carrier.volume.again(&[]);
        volume.end();
    }
    let deeds = DEEDS.len() + PROTECTED.len();
    tell(&format!("carry: {deeds} deeds by three users in four kinds of mounts are as on tmpfs"));
}
