//! The payload of a checkpoint, cut into pages with running sums.

use crate::bytes::u32_at;

/// Bytes before the payload in each page.
pub const PAGE_HEADER: usize = 16;

/// Sum and exclusive or of all bytes so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sums {
    pub sum: u32,
    pub xor: u8,
}

impl Sums {
    fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.sum = self.sum.wrapping_add(byte.into());
            self.xor ^= byte;
        }
    }

    /// What ends a checkpoint.
    pub fn last(self) -> u32 {
        self.sum << 8 | u32::from(self.xor)
    }
}

/// Collects payload into pages.
pub struct Writer {
    pub pages: Vec<Vec<u8>>,
    at: usize,
    page_bytes: usize,
    pub sums: Sums,
}

impl Writer {
    pub fn new(page_bytes: usize) -> Writer {
        Writer { pages: Vec::new(), at: page_bytes, page_bytes, sums: Sums::default() }
    }

    pub fn put(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.at == self.page_bytes {
                let mut page = vec![0xFF; self.page_bytes];
                let head = [super::VERSION, self.pages.len() as u32, self.sums.sum, self.sums.xor.into()];
                for (place, word) in head.into_iter().enumerate() {
                    page[4 * place..][..4].copy_from_slice(&word.to_le_bytes());
                }
                self.pages.push(page);
                self.at = PAGE_HEADER;
            }
            let part = bytes.len().min(self.page_bytes - self.at);
            if let Some(page) = self.pages.last_mut() {
                page[self.at..self.at + part].copy_from_slice(&bytes[..part]);
            }
            self.sums.add(&bytes[..part]);
            self.at += part;
            bytes = &bytes[part..];
        }
    }

    pub fn words(&mut self, words: &[u32]) {
        words.iter().for_each(|word| self.put(&word.to_le_bytes()));
    }
}

/// Reads payload out of pages that are read one by one.
pub struct Reader<F> {
    next_page: F,
    page: Vec<u8>,
    at: usize,
    index: u32,
    pub sums: Sums,
}

/// There is no more, or it is not as it should be.
#[derive(Debug)]
pub struct Invalid;

impl<F: FnMut(u32) -> Option<Vec<u8>>> Reader<F> {
    /// `next_page` gives the page of an index from 0.
    pub fn new(next_page: F) -> Reader<F> {
        Reader { next_page, page: Vec::new(), at: 0, index: 0, sums: Sums::default() }
    }

    pub fn take(&mut self, into: &mut [u8]) -> Result<(), Invalid> {
        let mut done = 0;
        while done < into.len() {
            if self.at == self.page.len() {
                self.page = (self.next_page)(self.index).ok_or(Invalid)?;
                let Sums { sum, xor } = self.sums;
                let expected = [super::VERSION, self.index, sum, xor.into()];
                // The exclusive or is a byte; what a writer leaves above it means nothing.
                let same = (0..4).all(|place| match place {
                    3 => u32_at(&self.page, 12) as u8 == xor,
                    place => u32_at(&self.page, 4 * place) == expected[place],
                });
                if !same {
                    return Err(Invalid);
                }
                self.index += 1;
                self.at = PAGE_HEADER;
            }
            let part = (into.len() - done).min(self.page.len() - self.at);
            into[done..done + part].copy_from_slice(&self.page[self.at..self.at + part]);
            self.sums.add(&into[done..done + part]);
            self.at += part;
            done += part;
        }
        Ok(())
    }

    pub fn words<const N: usize>(&mut self) -> Result<[u32; N], Invalid> {
        let mut words = [0; N];
        for word in &mut words {
            let mut bytes = [0; 4];
            self.take(&mut bytes)?;
            *word = u32::from_le_bytes(bytes);
        }
        Ok(words)
    }
}
