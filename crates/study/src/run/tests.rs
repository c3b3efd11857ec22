//! Tests of what runs on a board.

use super::*;
use pocketstone_board::Cache;
use pocketstone_board::transport::{Offer, Transport};
use pocketstone_core::board::{BoardDescription, Capabilities, Places};
use pocketstone_core::outcome::Facts;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tempfile::TempDir;

/// A board with raw flash that may be erased, which counts the orders that it gets.
struct WithFlash(Cache, Arc<AtomicUsize>);

impl Transport for WithFlash {
    fn describe(&self) -> BoardDescription {
        BoardDescription { capabilities: Capabilities::unknown(), places: Places::default(), settings: Vec::new() }
    }

    fn facts(&self) -> Result<Facts, Failed> {
        Ok(Facts::new())
    }

    fn offers(&self, volume: &Volume) -> Result<Offer> {
        match volume.name().as_str() {
            "yaffs2" => Err(Error::board("no yaffs2")),
            _ => Ok(if volume.on_raw_nand() { Offer::Try } else { Offer::Sure }),
        }
    }

    fn cache(&self) -> &Cache {
        &self.0
    }

    fn folder(&self) -> Result<TempDir> {
        tempfile::tempdir().map_err(|e| Error::board("no folder").because(e))
    }

    fn carry_out(&self, _: &[Step], _: &Path) -> Result<(), Failed> {
        self.1.fetch_add(1, Ordering::Relaxed);
        Err(Error::board("an order that erases").into())
    }
}

#[test]
fn raw_flash_that_no_cell_is_on_is_not_erased() {
    let text = "title='t'\nboard='host'\n[[experiment]]\nname='e'\n[experiment.factors]\n\
                file_system=['jffs2', 'ubifs', 'yaffs2']\nfile_bytes='1MiB'\nrequests=8\n\
                [experiment.on.host]\nfile_system='directory'\n";
    let study = Study::parse("s.toml", text).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (cache, orders) = (Cache::at(folder.path()).unwrap(), Arc::new(AtomicUsize::new(0)));
    let context = BoardContext::uninterrupted(cache.clone(), folder.path().to_owned(), Arc::new(|_| {}));
    let board = Board::new("b", vec![Box::new(WithFlash(cache, orders.clone()))], &context).unwrap();
    let request =
        Request { study: &study, only: None, directory: None, chip_bytes: None, most_cells: 100, asked: None };
    let mut traces = Traces::checked(Path::new("."));
    let selected = select_cells(&request, "host", Some(&board), &mut traces).unwrap();
    assert!(!selected.cells.is_empty());
    assert_eq!(orders.load(Ordering::Relaxed), 0);
    // What can be said without that is said.
    let left_out: Vec<&str> = selected.left_out.iter().map(|l| l.what.as_str()).collect();
    assert_eq!(left_out, ["cells on yaffs2"]);
}
