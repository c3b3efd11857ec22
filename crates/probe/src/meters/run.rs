//! Meters over the time of a run: at rest before it, and while it lasts.

use super::rails::Rails;
use super::{Found, Meter, Missing, Reading, joined};
use pocketstone_core::Result;
use pocketstone_core::outcome::{EnergyReading, Quantity, Unavailable};
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a machine rests before a run whose energy is measured.
pub const REST: Duration = Duration::from_secs(1);

/// How often power is sampled.
pub const PERIOD: Duration = Duration::from_millis(10);

/// How often counters are read, so that none starts again twice between two readings.
const COUNTER_PERIOD: Duration = Duration::from_secs(10);

/// Energy of one meter so far.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Account {
    first: Option<(u64, f64)>,
    last: Option<(u64, f64)>,
    pub energy_uj: f64,
    pub samples: u64,
}

impl Account {
    /// Adds a reading at a time in ns. Between two samples power changes evenly (trapezoids).
    pub fn add(&mut self, time_ns: u64, reading: Reading) {
        self.samples += 1;
        let (Reading::TotalUj(value) | Reading::SteppedUj(value) | Reading::PowerUw(value)) = reading;
        let (_, start) = *self.first.get_or_insert((time_ns, value));
        match (reading, self.last) {
            (Reading::TotalUj(total) | Reading::SteppedUj(total), _) => self.energy_uj = total - start,
            // uW times ns is fJ.
            (Reading::PowerUw(power), Some((then_ns, before))) => {
                self.energy_uj += (before + power) / 2.0 * (time_ns - then_ns) as f64 / 1e9;
            }
            (Reading::PowerUw(_), None) => {}
        }
        self.last = Some((time_ns, value));
    }

    pub fn duration_ns(&self) -> u64 {
        self.first.zip(self.last).map_or(0, |(first, last)| last.0 - first.0)
    }

    /// Mean power in mW; `None` before two readings.
    pub fn mean_mw(&self) -> Option<f64> {
        let ns = self.duration_ns();
        // uJ in ns is GW.
        (ns > 0).then(|| self.energy_uj / ns as f64 * 1e6)
    }
}

/// Meters and their accounts.
struct Book {
    pages: Vec<Page>,
    begin: Instant,
    /// A phone's power rails, where they are tried; they are read by themselves.
    rails: Option<Result<Rails>>,
    /// Why other meters cannot be had, where the rails decide whether that is to be said.
    held: Vec<Missing>,
}

impl Book {
    fn of(pages: Vec<Page>, rails: Option<Result<Rails>>, held: Vec<Missing>) -> Book {
        Book { pages, begin: Instant::now(), rails, held }
    }
}

struct Page {
    meter: Meter,
    account: Result<Account>,
    counts: bool,
    stepped: bool,
    idle_mw: Option<f64>,
}

impl Book {
    /// Reads every meter, or those that tell power alone. One that fails is not read again.
    fn read(&mut self, counters: bool) {
        for page in &mut self.pages {
            let Ok(sums) = &mut page.account else { continue };
            if page.counts && !counters {
                continue;
            }
            match page.meter.read() {
                Ok(reading) => {
                    page.counts = !matches!(reading, Reading::PowerUw(_));
                    page.stepped = matches!(reading, Reading::SteppedUj(_));
                    sums.add(self.begin.elapsed().as_nanos() as u64, reading);
                }
                Err(error) => page.account = Err(error),
            }
        }
    }
}

/// Meters of a machine that is about to run something, with its power at rest.
pub struct Resting(Book);

impl Resting {
    /// Finds the meters of the machine whose `sys` is in `root` and rests for a time, [`REST`] in earnest. It rests
    /// without a meter, too: a bench meter sees it. What is missing is said in one entry.
    pub fn begin(root: &Path, rest: Duration, unavailable: &mut Vec<Unavailable>) -> Resting {
        let mut found = Found::on(root);
        let held = if found.rails { std::mem::take(&mut found.missing) } else { Vec::new() };
        unavailable.extend(found.unavailable());
        let page =
            |meter| Page { meter, account: Ok(Account::default()), counts: false, stepped: false, idle_mw: None };
        let rails = found.rails.then(Rails::start);
        let book = Book::of(found.meters.into_iter().map(page).collect(), rails, held);
        let metered = Metered::begin(book);
        std::thread::sleep(rest);
        // A sampler that ended by a fault of its own leaves no meter.
        let mut book = metered.end().0.unwrap_or_else(|| Book::of(Vec::new(), None, Vec::new()));
        if let Some(Ok(rails)) = &mut book.rails {
            rails.rested();
        }
        for page in &mut book.pages {
            // A counter that did not move at rest tells nothing of it, nor does the one large step of a gauge.
            let tells = |account: &&Account| account.energy_uj > 0.0 && !page.stepped;
            page.idle_mw = page.account.as_ref().ok().filter(tells).and_then(Account::mean_mw);
        }
        Resting(book)
    }

    /// The run begins: returns when every meter was read once.
    pub fn run(self) -> Metered {
        Metered::begin(self.0)
    }
}

/// A run that is being measured.
pub struct Metered {
    book: Option<Book>,
    sampler: Option<(Sender<()>, JoinHandle<Book>)>,
}

impl Metered {
    fn begin(mut book: Book) -> Metered {
        book.begin = Instant::now();
        if let Some(Ok(rails)) = &mut book.rails {
            rails.begin();
        }
        for page in &mut book.pages {
            // One that failed before fails again.
            if page.account.is_ok() {
                page.account = Ok(Account::default());
            }
        }
        book.read(true);
        if book.pages.is_empty() {
            return Metered { book: Some(book), sampler: None };
        }
        let period = if book.pages.iter().all(|p| p.counts) { COUNTER_PERIOD } else { PERIOD };
        let (stop, stopped) = channel();
        let sample = move || {
            let mut counted = Instant::now();
            while stopped.recv_timeout(period) == Err(RecvTimeoutError::Timeout) {
                let counters = counted.elapsed() >= COUNTER_PERIOD;
                if counters {
                    counted = Instant::now();
                }
                book.read(counters);
            }
            book.read(true);
            book
        };
        Metered { book: None, sampler: Some((stop, std::thread::spawn(sample))) }
    }

    /// The run has ended.
    pub fn end(self) -> Ended {
        let mut book = match self.sampler {
            None => self.book,
            Some((stop, thread)) => {
                drop(stop);
                thread.join().ok()
            }
        };
        if let Some(Ok(rails)) = book.as_mut().and_then(|book| book.rails.as_mut()) {
            rails.end();
        }
        Ended(book)
    }
}

/// A run that was measured; without a book, its sampler ended by a fault of its own.
pub struct Ended(Option<Book>);

impl Ended {
    /// What was measured. Meters that failed, or whose counters did not move, say so in one entry.
    pub fn finish(self, unavailable: &mut Vec<Unavailable>) -> Vec<EnergyReading> {
        let (mut readings, mut missing) = (Vec::new(), Vec::new());
        let Some(book) = self.0 else {
            missing.push(Missing { why: "the meter thread exited".into(), cure: String::new() });
            return said(missing, unavailable, readings);
        };
        for page in book.pages {
            let name = page.meter.name;
            missing.push(match page.account {
                Err(error) => Missing::of(&error),
                Ok(sums) if sums.energy_uj <= 0.0 => {
                    let why = format!("{name} did not move in {} ms", sums.duration_ns() / 1_000_000);
                    Missing { why, cure: "a longer run".to_owned() }
                }
                Ok(sums) => {
                    readings.push(EnergyReading {
                        meter: name,
                        scope: page.meter.scope,
                        energy_uj: sums.energy_uj.round() as u64,
                        duration_ns: sums.duration_ns(),
                        idle_mw: page.idle_mw,
                        samples: sums.samples,
                        note: page.meter.note.to_owned(),
                    });
                    continue;
                }
            });
        }
        match book.rails.map(|rails| rails.and_then(Rails::finish)) {
            None => {}
            Some(Ok(of_rails)) => readings.extend(of_rails),
            Some(Err(error)) => missing.push(Missing::of(&error)),
        }
        let none = readings.is_empty();
        missing.extend(book.held.into_iter().filter(|m| none || !m.cure.is_empty()));
        said(missing, unavailable, readings)
    }
}

/// Says in one entry what is missing.
fn said(missing: Vec<Missing>, unavailable: &mut Vec<Unavailable>, readings: Vec<EnergyReading>) -> Vec<EnergyReading> {
    let all = |part: fn(&Missing) -> &str| joined(missing.iter().map(part), "; ");
    if !missing.is_empty() {
        let what = if readings.is_empty() { Quantity::Energy } else { Quantity::EnergyOfSomeMeters };
        unavailable.push(Unavailable { what, why: all(|m| &m.why), cure: all(|m| &m.cure) });
    }
    readings
}
