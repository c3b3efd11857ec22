//! What the server of a mount and the processes that reach its files without the kernel ("direct" ones) share: tables
//! in memory, messages, and the rules by which both sides go.
//!
//! ```text
//! table, written by the server alone              a process's own page, written by that process
//!   entry: sequence, key, kernel, size, pieces      slots: what it is storing to now
//!          up to where the end is leased            times: when it stored to which entry last
//!                                                   leases: of which files it has the end, and their sizes
//! ```
//!
//! **The server** changes an inode under its exclusive lock. The entry's sequence is odd meanwhile
//! ([`Table::begin`], [`Table::end`]). What the inode loses is not given to others before every store that may still go
//! there has ended ([`Stores::running`]); nobody waits for that.
//!
//! **The kernel** may hold pages of an inode, which do not change by direct stores, and which stores through mappings
//! change without the server's knowledge. The entry says so ([`Table::kernel_came`]) before the kernel gets an answer.
//! Whoever wants to be direct then asks the server, a thread of which makes a call that the kernel makes with the
//! inode's lock held. While another thread answers that, it has the kernel forget the pages ([`Table::kernel_went`]):
//! the lock keeps writes off, which the kernel shows in its pages before the server has them.
//!
//! **A direct read** copies while the sequence stays the same and even, and the kernel holds nothing.
//!
//! **A direct store** says in a slot what it is at, looks, stores, and looks again: if the sequence has changed it does
//! it all again, for storing the same bytes twice does no harm; if the kernel came, its pages must go before the store
//! has happened. It stays inside the file's size and space; everything else is the kernel's and the server's.
//!
//! **A direct append** needs the lease of the file's end, which one process has at a time, with space behind it. It
//! asks for that by a call of its own of that kind ([`message::Lease`]), in which the kernel forgets the pages, too. A
//! word in that process's memory holds the size. The process marks the word as busy, stores behind the size, and
//! puts the new size in, if the word is still what it was; the server takes the lease back by taking the word. It
//! does so before anybody else is told of the file or changes it. Where a store may still run behind the size, the
//! file goes on in another page. Only fsync(2) and whatever else changes neither size nor place leaves the lease,
//! and takes the size over. The kernel takes the file to be as long as its space meanwhile, so that it asks.
//!
//! **fdatasync(2)** of such a file is a record of its size in the region
//! ([`size_record`](pocketstone_media::size_record)), which the server lends to a file that is synchronised again and
//! again. The process stores to it with the word busy and a slot taken. It goes on from the version of the inode that
//! is stored: the next one voids it, and has the size in it, for the server looks at the word after it has made the
//! sequence odd. A record is lent to another file once the size is stored and no slot may still mean it.
//!
//! **A mapped file** lies still. The server gives out a file by which the region is mapped, with a mark that the kernel
//! keeps as long as anybody has it open or mapped ([`pocketstone_media::marked`]): who mapped it, or a child, whatever
//! became of the others. As long as the mark is there, the server neither takes those pages from the file nor moves
//! them: what would do that fails, or zeroes in place. It keeps the inode in memory, which knows that, and in use, so
//! that losing its last name frees nothing. Loads and stores through a mapping look at nothing. So on a mount where
//! files can be mapped the kernel keeps no pages: each read(2) and write(2) comes to the server, and nothing is mapped
//! but as the library does it, or for a process alone (`MAP_PRIVATE`). Nor is there a lease of an end, or a checkpoint.
//! That a mapping was stored to, its process says among its times; a child, which has no such page, asks the server to
//! note it ([`Inherited`]).
//!
//! **A checkpoint** copies pages as they were at one moment. The server turns direct stores away before it
//! ([`Table::pause`]), waits for those that have a slot, and takes their marks ([`Stores::take_marks`]), which say what
//! they stored to.
//!
//! Doubt means the kernel: an [`Outcome::Kernel`] says why. Nothing here allocates or takes a lock on the way of a read
//! or a store, so signal handlers may do either. `tests/protocol.rs` is the model of all this, `tests/append.rs` that
//! of appends, `tests/records.rs` that of records, `tests/map.rs` that of mapped files.

mod average;
pub mod batch;
mod direct;
mod inherited;
mod memory;
pub mod message;
mod recent;
mod served;
mod session;
mod slots;
mod table;

pub use average::Average;
pub use direct::{Outcome, Pieces, Why};
pub use inherited::Inherited;
pub use memory::reopen;
pub use served::Serving;
pub use session::{Access, LEASE_BYTES_MOST, Lying, Refusal, Session, now_ms};
pub use slots::{Slots, Stores};
pub use table::{Content, ENTRIES, File, PIECES_MAX, Table};
