//! A mail server's work, as filebench's varmail has it: files of 16 KiB on average, all in one directory;
//! created, appended to and synchronised, read, and removed.

use pocketstone_random::Random;
use pocketstone_scmfs::{Ino, Meta, Operations, ROOT, Volume};

/// Mean bytes of one append.
const MEAN_BYTES: u64 = 16 << 10;

pub struct Mail {
    random: Random,
    directory: Ino,
    files: u64,
    buffer: Vec<u8>,
    exists: Vec<bool>,
}

impl Mail {
    /// A directory for `files` files, half of which are there at first.
    pub fn new(volume: &Volume, files: u64, seed: u64) -> Mail {
        let directory = volume.create_directory(ROOT, b"mail", &Meta::directory(0o755)).expect("a directory").ino;
        let (random, buffer) = (Random::labelled(seed, "mail"), vec![0x6d; 4 * MEAN_BYTES as usize]);
        let mut mail = Mail { random, directory, files, buffer, exists: vec![false; files as usize] };
        for index in 0..files / 2 {
            mail.deliver(volume, index * 2);
        }
        mail
    }

    fn name(index: u64) -> Vec<u8> {
        format!("{index:08}").into_bytes()
    }

    /// Between a sixteenth of the mean and twice it less that, so that the mean is the mean.
    fn bytes(&mut self) -> usize {
        (MEAN_BYTES / 16 + self.random.below(2 * MEAN_BYTES - MEAN_BYTES / 8 + 1)) as usize
    }

    /// Creates, appends, synchronises.
    fn deliver(&mut self, volume: &Volume, index: u64) {
        let bytes = self.bytes();
        let file = volume.create_file(self.directory, &Mail::name(index), &Meta::file(0o600)).expect("a file");
        file.append(&self.buffer[..bytes]).expect("an append");
        file.sync().expect("a sync");
        self.exists[index as usize] = true;
    }

    /// One round: removes or delivers, reads and appends, reads. The operations in it.
    pub fn round(&mut self, volume: &Volume) -> u64 {
        let index = self.random.below(self.files);
        let mut operations = 0;
        if self.exists[index as usize] {
            volume.unlink(self.directory, &Mail::name(index)).expect("a removal");
            self.exists[index as usize] = false;
            operations += 1;
        } else {
            self.deliver(volume, index);
            operations += 3;
        }
        for appends in [true, false] {
            let index = self.random.below(self.files);
            if !self.exists[index as usize] {
                continue;
            }
            let ino = volume.lookup(self.directory, &Mail::name(index)).expect("the file is there").ino;
            let file = volume.open(ino).expect("the file opens");
            // As large as a mailbox gets; then it is begun anew, as the average stays 16 KiB or so.
            operations += 1 + file.read_at(&mut self.buffer, 0).map(|_| 0).expect("a read");
            if appends {
                let bytes = self.bytes();
                file.append(&self.buffer[..bytes]).expect("an append");
                file.sync().expect("a sync");
                operations += 2;
            }
        }
        operations
    }

    pub fn directory(&self) -> Ino {
        self.directory
    }
}
