//! What pages are told: events in their order, kept for pages that are opened late, and what each node is at.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::{Stream, stream};
use serde_json::{Value, json};
use tokio::sync::watch;

/// Bytes of events that are kept (guess: the events of some ten thousand sums). A page that is opened later
/// is told how many it has missed.
const KEPT: usize = 16 << 20;
/// Bytes that are handed over at once, and an event more.
const PIECE: usize = 64 << 10;

#[derive(Debug)]
struct History {
    about: Arc<str>,
    /// The number of the oldest event that is kept; the first has 1.
    first: u64,
    events: VecDeque<Arc<str>>,
    bytes: usize,
    /// The newest status of each node, and when it came, counted in changes.
    statuses: BTreeMap<usize, (u64, Arc<str>)>,
    changes: u64,
    over: bool,
}

/// Where it is told and read.
#[derive(Debug)]
pub(in crate::cli) struct Feed {
    told: Arc<Mutex<History>>,
    changed: watch::Sender<u64>,
    readers: Arc<AtomicUsize>,
}

impl Default for Feed {
    fn default() -> Self {
        let told = History {
            about: "null".into(),
            first: 1,
            events: VecDeque::new(),
            bytes: 0,
            statuses: BTreeMap::new(),
            changes: 0,
            over: false,
        };
        Self { told: Arc::new(Mutex::new(told)), changed: watch::Sender::new(0), readers: Arc::default() }
    }
}

/// Counts a reader as long as it is there.
struct Reader {
    told: Arc<Mutex<History>>,
    changed: watch::Receiver<u64>,
    readers: Arc<AtomicUsize>,
    /// The number of the event that is read next.
    next: u64,
    /// The change up to which statuses were read; `None` before the first piece.
    seen: Option<u64>,
    /// Whether it was told all, with the end.
    has_all: bool,
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.readers.fetch_sub(1, Ordering::AcqRel);
    }
}

fn lock(told: &Mutex<History>) -> MutexGuard<'_, History> {
    told.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Feed {
    fn change(&self, change: impl FnOnce(&mut History)) {
        let mut told = lock(&self.told);
        told.changes += 1;
        change(&mut told);
        let changes = told.changes;
        drop(told);
        self.changed.send_replace(changes);
    }

    /// What every page is told first.
    pub(in crate::cli) fn about(&self, about: &Value) {
        self.change(|told| told.about = about.to_string().into());
    }

    /// Something happened at a node, or to all of them.
    pub(in crate::cli) fn event(&self, node: Option<usize>, event: &Value, text: &str) {
        let event: Arc<str> = json!({"node": node, "event": event, "text": text}).to_string().into();
        self.change(|told| {
            told.bytes += event.len();
            told.events.push_back(event);
            while told.bytes > KEPT && told.events.len() > 1 {
                told.bytes -= told.events.pop_front().map_or(0, |event| event.len());
                told.first += 1;
            }
        });
    }

    /// What a node is at now.
    pub(in crate::cli) fn status(&self, node: usize, status: &Value) {
        let status: Arc<str> = json!({"node": node, "status": status}).to_string().into();
        self.change(|told| drop(told.statuses.insert(node, (told.changes, status))));
    }

    /// Nothing more is told.
    pub(super) fn end(&self) {
        self.change(|told| told.over = true);
    }

    /// All that a page is told that is opened at the end: a JSON array of the name, data and number of each.
    pub(super) fn kept(&self) -> String {
        let told = lock(&self.told);
        let mut all = vec![format!("[\"about\",{},0]", told.about)];
        all.extend((told.first > 1).then(|| format!("[\"missed\",{},0]", told.first - 1)));
        let events = (told.first..).zip(&told.events);
        all.extend(events.map(|(number, event)| format!("[\"happened\",{event},{number}]")));
        all.extend(told.statuses.values().map(|(_, status)| format!("[\"status\",{status},0]")));
        all.push("[\"over\",null,0]".to_owned());
        format!("[{}]", all.join(","))
    }

    /// Pages that read.
    pub(super) fn readers(&self) -> usize {
        self.readers.load(Ordering::Acquire)
    }

    /// The text of server-sent events: those after number `after`, from the first that is kept without it,
    /// then what comes, up to `over`. The stream does not end after it: a page that has the end, and the
    /// report with it, closes the stream. So the program cannot exit before the page has them.
    pub(super) fn read(&self, after: Option<u64>) -> impl Stream<Item = String> + Send + use<> {
        self.readers.fetch_add(1, Ordering::AcqRel);
        let (told, changed) = (Arc::clone(&self.told), self.changed.subscribe());
        let readers = Arc::clone(&self.readers);
        let next = after.map_or(1, |after| after.saturating_add(1));
        let reader = Reader { told, changed, readers, next, seen: None, has_all: false };
        stream::unfold(reader, |mut reader| async move {
            loop {
                if reader.has_all {
                    std::future::pending::<()>().await;
                }
                reader.changed.mark_unchanged();
                let (text, over) = reader.piece();
                reader.has_all = over;
                if !text.is_empty() {
                    return Some((text, reader));
                }
                // An error means that the feed is gone, and with it all that could be told.
                reader.changed.changed().await.ok()?;
            }
        })
    }
}

impl Reader {
    /// What is new, and whether that is all for ever.
    fn piece(&mut self) -> (String, bool) {
        let told = lock(&self.told);
        let mut out = String::new();
        if self.seen.is_none() {
            out += &format!("event: about\ndata: {}\n\n", told.about);
        }
        // Who was never told so many asks again after a restart of the program.
        self.next = self.next.min(told.first + told.events.len() as u64);
        if self.next < told.first {
            out += &format!("event: missed\ndata: {}\n\n", told.first - self.next);
            self.next = told.first;
        }
        let from = usize::try_from(self.next - told.first).unwrap_or(usize::MAX);
        for event in told.events.iter().skip(from) {
            if out.len() > PIECE {
                break;
            }
            out += &format!("id: {}\nevent: happened\ndata: {event}\n\n", self.next);
            self.next += 1;
        }
        let seen = self.seen.replace(told.changes).unwrap_or(0);
        for (change, status) in told.statuses.values() {
            if *change > seen {
                out += &format!("event: status\ndata: {status}\n\n");
            }
        }
        let over = told.over && self.next == told.first + told.events.len() as u64;
        if over {
            out += "event: over\ndata: null\n\n";
        }
        (out, over)
    }
}
