//! The data for the pages: the events in their order, and the status of each node. Events are kept for pages
//! that are opened late.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::{Stream, stream};
use serde_json::{Value, json};
use tokio::sync::watch;

/// Bytes of events that are kept (guess: the events of about ten thousand sums). A page that is opened too
/// late for some events receives their number.
const KEPT: usize = 16 << 20;
/// Number of bytes after which a piece of the stream ends. The last event in it is sent completely.
const PIECE: usize = 64 << 10;

#[derive(Debug)]
struct History {
    about: Arc<str>,
    /// Number of the oldest event that is kept; the first event has number 1.
    first: u64,
    events: VecDeque<Arc<str>>,
    bytes: usize,
    /// Newest status of each node, with the number of the change that brought it.
    statuses: BTreeMap<usize, (u64, Arc<str>)>,
    changes: u64,
    over: bool,
}

/// A feed. Nodes write it, and pages read it.
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

/// A reader. It is counted until it is dropped.
struct Reader {
    told: Arc<Mutex<History>>,
    changed: watch::Receiver<u64>,
    readers: Arc<AtomicUsize>,
    /// Number of the next event to read.
    next: u64,
    /// Number of the last change whose statuses were read, or `None` before the first piece.
    seen: Option<u64>,
    /// True if the reader has received everything, including the end.
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

    /// Sets the description that every page receives first.
    pub(in crate::cli) fn about(&self, about: &Value) {
        self.change(|told| told.about = about.to_string().into());
    }

    /// Adds an event of a node, or of all nodes.
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

    /// Sets the present status of a node.
    pub(in crate::cli) fn status(&self, node: usize, status: &Value) {
        let status: Arc<str> = json!({"node": node, "status": status}).to_string().into();
        self.change(|told| drop(told.statuses.insert(node, (told.changes, status))));
    }

    /// Ends the feed.
    pub(super) fn end(&self) {
        self.change(|told| told.over = true);
    }

    /// Returns the data for a page that is stored at the end: a JSON array with the name, data and number of
    /// each entry.
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

    /// Returns the number of pages that read.
    pub(super) fn readers(&self) -> usize {
        self.readers.load(Ordering::Acquire)
    }

    /// Streams server-sent events: first the events after number `after` (without a number, all kept events),
    /// then new events up to `over`. The stream does not end after `over`. The page closes it when it has
    /// received the end and the report, so the program does not exit before.
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
                // An error means that the feed no longer exists, so no more data will follow.
                reader.changed.changed().await.ok()?;
            }
        })
    }
}

impl Reader {
    /// Returns new data, and whether it is the last piece.
    fn piece(&mut self) -> (String, bool) {
        let told = lock(&self.told);
        let mut out = String::new();
        if self.seen.is_none() {
            out += &format!("event: about\ndata: {}\n\n", told.about);
        }
        // If a page asks for a number that does not exist, the program has been restarted.
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
