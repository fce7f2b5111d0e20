//! Keeps the events of a peer for its readers. Every reader receives them from the first event.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::Stream;
use futures::stream;
use tokio::sync::watch;

use super::event::{Event, Timed};

/// Number of events that are kept (guess). A reader that is too slow receives the number of missed events.
const KEPT: usize = 1 << 13;

#[derive(Debug, Default)]
struct Events {
    /// Number of the oldest event that is kept.
    first: u64,
    kept: VecDeque<Timed>,
}

/// Writing end of a peer's events. The stream ends with the last clone.
#[derive(Clone, Debug)]
pub(super) struct Journal {
    events: Arc<Mutex<Events>>,
    written: Arc<watch::Sender<u64>>,
}

/// Reading end of a peer's events.
#[derive(Clone, Debug)]
pub(super) struct Reader {
    events: Arc<Mutex<Events>>,
    written: watch::Receiver<u64>,
}

fn lock(events: &Mutex<Events>) -> MutexGuard<'_, Events> {
    events.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes an empty journal.
pub(super) fn journal() -> (Journal, Reader) {
    let events = Arc::default();
    let (sender, receiver) = watch::channel(0);
    let journal = Journal { events: Arc::clone(&events), written: Arc::new(sender) };
    (journal, Reader { events, written: receiver })
}

impl Journal {
    /// Writes an event with the present time.
    pub(super) fn write(&self, event: Event) {
        let mut events = lock(&self.events);
        if events.kept.len() == KEPT {
            events.kept.pop_front();
            events.first += 1;
        }
        events.kept.push_back(Timed { time: super::unix(), event });
        let count = events.first + events.kept.len() as u64;
        drop(events);
        self.written.send_replace(count);
    }
}

impl Reader {
    /// Streams all events from the first. The stream ends when the node ends.
    pub(super) fn stream(&self) -> impl Stream<Item = Timed> + Send + Unpin + use<> {
        Box::pin(stream::unfold((self.clone(), 0), |(mut reader, next)| async move {
            // An error means that no more events follow. The reader still reads the remaining ones.
            let _ = reader.written.wait_for(|&count| count > next).await;
            let (timed, next) = reader.at(next)?;
            Some((timed, (reader, next)))
        }))
    }

    /// Returns event number `next` and the number after it. If that event is no longer kept, returns the
    /// number of missed events before the oldest kept event.
    fn at(&self, next: u64) -> Option<(Timed, u64)> {
        let events = lock(&self.events);
        if next < events.first {
            let count = events.first - next;
            return Some((Timed { time: super::unix(), event: Event::Missed { count } }, events.first));
        }
        let timed = events.kept.get(usize::try_from(next - events.first).ok()?)?;
        Some((timed.clone(), next + 1))
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;
    use futures::executor::block_on;

    use super::*;

    fn joined(i: usize) -> Event {
        Event::Joined { peer: i.to_string() }
    }

    #[test]
    fn every_reader_gets_every_event_and_the_end() {
        let (journal, reader) = journal();
        journal.write(joined(0));
        let early = reader.stream();
        journal.write(joined(1));
        let late = reader.stream();
        let writer = std::thread::spawn(move || (2..100).for_each(|i| journal.write(joined(i))));
        for stream in [early, late] {
            let events: Vec<_> = block_on(stream.map(|timed| timed.event).collect());
            assert_eq!(events, (0..100).map(joined).collect::<Vec<_>>());
        }
        writer.join().unwrap();
    }

    #[test]
    fn a_slow_reader_is_told_what_it_has_missed() {
        let (journal, reader) = journal();
        (0..KEPT + 3).for_each(|i| journal.write(joined(i)));
        drop(journal);
        let events: Vec<_> = block_on(reader.stream().map(|timed| timed.event).collect());
        assert_eq!(events[0], Event::Missed { count: 3 });
        assert_eq!(events[1], joined(3));
        assert_eq!(events.len(), KEPT + 1);
    }
}
