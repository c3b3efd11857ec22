//! Building images in the format of mkyaffs2image: every object once, readable front to back.
//!
//! All blocks have the sequence number 0x1000, headers have no extra information in their tags, parents come before
//! their children, and a file's data stands behind its header.

use crate::log::FIRST_SEQUENCE;
use crate::log::tags::{Content, ECC_BYTES, INBAND_BYTES, Kind, PLAIN_BYTES, Tags};
use crate::tree::header::{HEADER_BYTES, Header, NAME_BYTES, TARGET_BYTES};
use crate::tree::names::check_name;
use crate::tree::objects::{FIRST_ID, LARGEST_OBJECT, ROOT_ID};
use crate::tree::xattrs;
use pocketstone_media::nand::ImageLayout;
use pocketstone_vfs::{Context, FileType, Ino, MediumError, Result, setters};
use std::collections::HashMap;
use std::io::{Read, Write};

/// The layout of an image.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageForm {
    /// Sizes, and where tags begin in the spare area.
    pub layout: ImageLayout,
    /// Tags have error correction of their own. Never with in-band tags.
    pub tags_ecc: bool,
    /// Tags are at the end of every page, not in its spare area.
    pub inband_tags: bool,
    /// Fill the last block up with erased pages.
    pub whole_blocks: bool,
}

impl ImageForm {
    /// What mkyaffs2image writes: tags at the start of a spare area that is a 32nd of the page.
    pub fn mkyaffs2image(page_bytes: u32) -> ImageForm {
        let spare = page_bytes / 32;
        let layout = ImageLayout {
            page_bytes,
            spare_total_bytes: spare,
            spare_offset: 0,
            spare_free_bytes: spare,
            pages_per_block: 64,
        };
        ImageForm::new(layout)
    }

    /// Tags with error correction, in spare areas, and no block filled up.
    pub fn new(layout: ImageLayout) -> ImageForm {
        ImageForm { layout, tags_ecc: true, inband_tags: false, whole_blocks: false }
    }

    setters! { tags_ecc: bool, inband_tags: bool, whole_blocks: bool }

    fn data_bytes(&self) -> usize {
        self.layout.page_bytes as usize - if self.inband_tags { INBAND_BYTES } else { 0 }
    }

    fn check(&self) -> Result<()> {
        let ImageLayout { page_bytes, spare_total_bytes, spare_offset, spare_free_bytes, pages_per_block } =
            self.layout;
        let tags = if self.tags_ecc && !self.inband_tags { ECC_BYTES } else { PLAIN_BYTES } as u32;
        let why = if !(1024..=1 << 16).contains(&page_bytes) {
            format!("pages of {page_bytes} bytes")
        } else if pages_per_block == 0 {
            "blocks without pages".to_owned()
        } else if spare_offset.checked_add(spare_free_bytes).is_none_or(|end| end > spare_total_bytes) {
            format!("{spare_free_bytes} free bytes from {spare_offset} in a spare area of {spare_total_bytes}")
        } else if !self.inband_tags && spare_free_bytes < tags {
            format!("{spare_free_bytes} free spare bytes, but {tags} needed for tags")
        } else {
            return Ok(());
        };
        Err(MediumError::refused(format!("a YAFFS2 image cannot have {why}"))
            .hint("pages have 1024 to 65536 bytes and 28 free spare bytes (16 without the tags' error correction)")
            .into())
    }
}

/// What is said of an object beside its name and content.
#[non_exhaustive]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImageMeta {
    /// Permission bits, `0o7777`.
    pub permissions: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Last read, in seconds since 1970.
    pub atime_s: i64,
    /// Last change of the content.
    pub mtime_s: i64,
    /// Last change of the attributes.
    pub ctime_s: i64,
    /// Extended attributes: name and value.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

impl ImageMeta {
    setters! {
        permissions: u16,
        uid: u32,
        gid: u32,
        atime_s: i64,
        mtime_s: i64,
        ctime_s: i64,
        xattrs: impl Into<Vec<(Vec<u8>, Vec<u8>)>>,
    }
}

/// Writes an image to a stream, object by object.
///
/// The root directory comes first ([`ImageWriter::new`]). Every name is given once, after its directory.
pub struct ImageWriter<W: Write> {
    out: W,
    form: ImageForm,
    next: Ino,
    pages: u64,
    /// Directories and other objects that can be named, by number.
    known: HashMap<Ino, Kind>,
    page: Vec<u8>,
}

impl<W: Write> ImageWriter<W> {
    /// Starts an image with its root directory.
    ///
    /// # Errors
    /// `Medium` if the layout is unsupported, or `out` cannot be written.
    pub fn new(out: W, form: &ImageForm, root: &ImageMeta) -> Result<ImageWriter<W>> {
        form.check()?;
        let page = vec![0xFF; form.layout.stride() as usize];
        let mut writer = ImageWriter { out, form: *form, next: FIRST_ID, pages: 0, known: HashMap::new(), page };
        writer.known.insert(ROOT_ID, Kind::Directory);
        let header = header_of(Kind::Directory, ROOT_ID, b"", FileType::Directory, root);
        writer.header(ROOT_ID, &header, &root.xattrs)?;
        Ok(writer)
    }

    /// Adds a directory and gives its number.
    ///
    /// # Errors
    /// `Medium` if `parent` is not a directory of this image, the name is invalid, there are too many objects, extended
    /// attributes do not fit into one page with the header, or the stream cannot be written.
    pub fn directory(&mut self, parent: Ino, name: &[u8], meta: &ImageMeta) -> Result<Ino> {
        self.add(header_of(Kind::Directory, parent, name, FileType::Directory, meta), meta)
    }

    /// Adds a file of `bytes` bytes, which are read from `content`.
    ///
    /// # Errors
    /// As [`ImageWriter::directory`]; `Medium` also if `content` ends early or cannot be read.
    pub fn file(
        &mut self,
        parent: Ino,
        name: &[u8],
        meta: &ImageMeta,
        bytes: u64,
        content: &mut dyn Read,
    ) -> Result<Ino> {
        let data_bytes = self.form.data_bytes();
        let chunks = bytes.div_ceil(data_bytes as u64);
        if chunks >= 1 << 28 {
            return Err(MediumError::refused(format!("{} is too large: {bytes} bytes", show(name)))
                .hint(format!("a file has at most 2^28 pages of {data_bytes} bytes"))
                .into());
        }
        let mut header = header_of(Kind::File, parent, name, FileType::Regular, meta);
        header.size = bytes;
        let id = self.add(header, meta)?;
        let mut data = vec![0; data_bytes];
        let mut left = bytes;
        for chunk in 1..=chunks as u32 {
            let valid = left.min(data_bytes as u64) as usize;
            content
                .read_exact(&mut data[..valid])
                .refused(|| format!("cannot read {} bytes of {}", bytes, show(name)))?;
            data[valid..].fill(0xFF);
            self.put(id, Content::Data { chunk, bytes: valid as u32 }, &data)?;
            left -= valid as u64;
        }
        Ok(id)
    }

    /// Adds a symbolic link.
    ///
    /// # Errors
    /// As [`ImageWriter::directory`]; `Medium` also if the target is longer than 159 bytes.
    pub fn symlink(&mut self, parent: Ino, name: &[u8], meta: &ImageMeta, target: &[u8]) -> Result<Ino> {
        if target.is_empty() || target.len() > TARGET_BYTES || target.contains(&0) {
            return Err(MediumError::refused(format!("{}: the link's target has {} bytes", show(name), target.len()))
                .hint(format!("YAFFS2 supports targets of 1 to {TARGET_BYTES} bytes"))
                .into());
        }
        let mut header = header_of(Kind::Symlink, parent, name, FileType::Symlink, meta);
        header.target = target.to_vec();
        self.add(header, meta)
    }

    /// Adds a pipe, a socket or a device of the number `rdev`.
    ///
    /// # Errors
    /// As [`ImageWriter::directory`].
    pub fn special(&mut self, parent: Ino, name: &[u8], meta: &ImageMeta, kind: FileType, rdev: u32) -> Result<Ino> {
        if matches!(kind, FileType::Regular | FileType::Directory | FileType::Symlink) {
            return Err(MediumError::bug(format!("{} is not a special file", show(name))).into());
        }
        let mut header = header_of(Kind::Special, parent, name, kind, meta);
        header.rdev = if matches!(kind, FileType::CharDevice | FileType::BlockDevice) { rdev } else { 0 };
        self.add(header, meta)
    }

    /// Adds one more name of an object that is there.
    ///
    /// # Errors
    /// As [`ImageWriter::directory`]; `Medium` also if `target` cannot have several names.
    pub fn hard_link(&mut self, parent: Ino, name: &[u8], target: Ino) -> Result<()> {
        if !self.known.get(&target).is_some_and(|kind| *kind != Kind::Directory) {
            return Err(MediumError::bug(format!("{}: object {target} cannot get another name", show(name))).into());
        }
        let mut header = header_of(Kind::HardLink, parent, name, FileType::Regular, &ImageMeta::default());
        (header.mode, header.equivalent) = (0, target);
        let id = self.add(header, &ImageMeta::default())?;
        // Links lead to objects, not to links.
        self.known.remove(&id);
        Ok(())
    }

    /// Pages so far.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// Ends the image and gives the stream back.
    ///
    /// # Errors
    /// `Medium` if it cannot be written.
    pub fn finish(mut self) -> Result<W> {
        if self.form.whole_blocks {
            self.page.fill(0xFF);
            while self.pages % u64::from(self.form.layout.pages_per_block) != 0 {
                self.write_page()?;
            }
        }
        self.out.flush().failed(|| "cannot write the image".to_owned())?;
        Ok(self.out)
    }

    fn add(&mut self, header: Header, meta: &ImageMeta) -> Result<Ino> {
        let name = show(&header.name);
        check_name(&header.name).refused(|| {
            format!(
                "{name} is not a valid file name: it is empty, `.`, `..`, contains a `/`, or has more than \
                {NAME_BYTES} bytes"
            )
        })?;
        if self.known.get(&header.parent) != Some(&Kind::Directory) {
            return Err(MediumError::bug(format!("{name}: {} is not a directory of the image", header.parent)).into());
        }
        if self.next >= LARGEST_OBJECT {
            return Err(MediumError::refused(format!("{name} exceeds the maximum number of objects"))
                .hint(format!("YAFFS2 supports at most {} objects; omit some", LARGEST_OBJECT - FIRST_ID))
                .into());
        }
        let id = self.next;
        self.next += 1;
        self.known.insert(id, header.kind);
        self.header(id, &header, &meta.xattrs)?;
        Ok(id)
    }

    fn header(&mut self, id: Ino, header: &Header, xattrs: &[(Vec<u8>, Vec<u8>)]) -> Result<()> {
        let mut page = vec![0xFF; self.form.data_bytes()];
        let room = page.len() - HEADER_BYTES;
        let records = xattrs.iter().map(|(name, value)| (&name[..], &value[..]));
        let area = xattrs::area_of(records, room).map_err(|_| {
            MediumError::refused(format!("the extended attributes of {} do not fit", show(&header.name)))
                .hint(format!("pages of this size have space for {room} bytes of them; omit some"))
        })?;
        header.encode(&mut page, self.form.inband_tags);
        page[HEADER_BYTES..].copy_from_slice(&area);
        self.put(id, Content::Header, &page)
    }

    fn put(&mut self, id: Ino, content: Content, data: &[u8]) -> Result<()> {
        let tags = Tags { sequence: FIRST_SEQUENCE, object: id, content };
        let (stored, bytes) = tags.encode(self.form.tags_ecc && !self.form.inband_tags);
        self.page.fill(0xFF);
        self.page[..data.len()].copy_from_slice(data);
        let at = match self.form.inband_tags {
            true => data.len(),
            false => (self.form.layout.page_bytes + self.form.layout.spare_offset) as usize,
        };
        self.page[at..at + bytes].copy_from_slice(&stored[..bytes]);
        self.write_page()
    }

    fn write_page(&mut self) -> Result<()> {
        self.pages += 1;
        Ok(self.out.write_all(&self.page).failed(|| "cannot write the image".to_owned())?)
    }
}

fn header_of(kind: Kind, parent: Ino, name: &[u8], file_type: FileType, meta: &ImageMeta) -> Header {
    Header {
        kind,
        parent,
        name: name.to_vec(),
        mode: u32::from(file_type.mode_bits()) | u32::from(meta.permissions & 0o7777),
        uid: meta.uid,
        gid: meta.gid,
        atime_s: meta.atime_s,
        mtime_s: meta.mtime_s,
        ctime_s: meta.ctime_s,
        size: 0,
        equivalent: 0,
        target: Vec::new(),
        rdev: 0,
        shadows: 0,
        shrinks: false,
    }
}

fn show(name: &[u8]) -> String {
    if name.is_empty() { "/".to_owned() } else { String::from_utf8_lossy(name).into_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build(form: &ImageForm) -> Vec<u8> {
        let meta = ImageMeta { permissions: 0o644, mtime_s: 5, ..ImageMeta::default() };
        let mut image = ImageWriter::new(Vec::new(), form, &meta).expect("started");
        let folder = image.directory(ROOT_ID, b"d", &meta).expect("added");
        let file = image.file(folder, b"f", &meta, 2049, &mut &[7; 2049][..]).expect("added");
        image.hard_link(ROOT_ID, b"h", file).expect("added");
        image.finish().expect("written")
    }

    #[test]
    fn pages_are_those_that_mkyaffs2image_writes() {
        let image = build(&ImageForm::mkyaffs2image(2048));
        // Headers of /, d, f; two chunks; the header of h.
        assert_eq!(image.len(), 6 * 2112);
        let tags =
            |page: usize| image[page * 2112 + 2048..][..28].iter().map(|b| format!("{b:02x}")).collect::<String>();
        // By a Python script from the description of the tags alone.
        assert_eq!(tags(1), "001000000101000000000000ffff00002500000000000000ffffffff");
        assert_eq!(tags(3), "001000000201000001000000000800002900000005000000faffffff");
        assert!(image[3 * 2112 - 36..3 * 2112].iter().all(|&byte| byte == 0xFF));
        // What is a size, and what an older program takes for a checksum.
        assert_eq!(image[2 * 2112 + 8..2 * 2112 + 10], [0xFF, 0xFF]);
        assert_eq!(image[2 * 2112 + 292..2 * 2112 + 296], 2049u32.to_le_bytes());
        assert_eq!(image[2 * 2112 + 496..2 * 2112 + 500], [0xFF; 4]);
        assert_eq!(image[5 * 2112 + 296..5 * 2112 + 300], 258u32.to_le_bytes());
    }

    #[test]
    fn blocks_are_filled_up_when_asked_for() {
        let form = ImageForm { whole_blocks: true, ..ImageForm::mkyaffs2image(2048) };
        let image = build(&form);
        assert_eq!(image.len(), 64 * 2112);
        assert!(image[6 * 2112..].iter().all(|&byte| byte == 0xFF));
    }

    #[test]
    fn what_no_image_can_hold_is_refused() {
        let meta = ImageMeta::default();
        let form = ImageForm::mkyaffs2image(2048);
        let mut image = ImageWriter::new(Vec::new(), &form, &meta).expect("started");
        for name in [&b""[..], b".", b"..", b"a/b", &[b'x'; 256]] {
            assert!(image.directory(ROOT_ID, name, &meta).is_err());
        }
        assert!(image.directory(300, b"d", &meta).is_err());
        assert!(image.symlink(ROOT_ID, b"s", &meta, &[b'x'; 160]).is_err());
        assert!(image.hard_link(ROOT_ID, b"h", ROOT_ID).is_err());
        let early = image.file(ROOT_ID, b"f", &meta, 3, &mut &b"ab"[..]);
        assert!(early.expect_err("it ends early").to_string().contains("3 bytes of f"));
        let large = ImageMeta { xattrs: vec![(b"user.a".to_vec(), vec![0; 2000])], ..meta.clone() };
        assert!(image.directory(ROOT_ID, b"x", &large).expect_err("too large").cure().is_some());
        let small = ImageForm { layout: ImageLayout { page_bytes: 512, ..form.layout }, ..form };
        assert!(ImageWriter::new(Vec::new(), &small, &meta).is_err());
        let tight = ImageForm { layout: ImageLayout { spare_free_bytes: 20, ..form.layout }, ..form };
        assert!(ImageWriter::new(Vec::new(), &tight, &meta).is_err());
    }
}
