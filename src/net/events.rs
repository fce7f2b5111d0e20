//! The queue of events for the caller. When the caller takes an event, its view of the connections changes
//! (see [`super::link`]).
//!
//! The queue itself has no length limit, but its sources are limited. Frames are limited by the account of
//! their connection. Each connection causes only a few other events, and no connection is admitted while
//! [`EventSender::is_crowded`] is true.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::link::Link;
use super::{Channel, Event, PeerId};

/// Events other than frames that may wait for the caller before new connections are refused (guess).
const CROWDED: usize = 1024;

/// Connections that are open in the caller's view.
pub(super) type Links = Arc<Mutex<BTreeMap<PeerId, Arc<Link>>>>;

#[derive(Debug)]
enum Effect {
    None,
    Up(Arc<Link>),
    Taken(Arc<Link>, Channel, usize),
}

#[derive(Debug, Clone)]
pub(super) struct EventSender {
    queue: Sender<(Event, Effect)>,
    waiting: Arc<AtomicUsize>,
    /// True if the caller also wants the events that lead to connections.
    details: bool,
}

impl EventSender {
    pub(super) fn frame(&self, event: Event, link: Arc<Link>, cost: usize) {
        if let Event::Frame { channel, .. } = event {
            // If the caller has dropped its receiver, it takes no frames. So the account stays full, and
            // reading stops.
            let _ = self.queue.send((event, Effect::Taken(link, channel, cost)));
        }
    }

    pub(super) fn up(&self, event: Event, link: Arc<Link>) {
        self.push(event, Effect::Up(link));
    }

    pub(super) fn send(&self, event: Event) {
        self.push(event, Effect::None);
    }

    /// Sends an event for callers that want to know the causes of failures.
    pub(super) fn detail(&self, event: Event) {
        if self.details {
            self.send(event);
        } else {
            tracing::debug!(?event, "on the way to a connection");
        }
    }

    fn push(&self, event: Event, effect: Effect) {
        self.waiting.fetch_add(1, Ordering::AcqRel);
        let _ = self.queue.send((event, effect));
    }

    /// Puts one [`Event::Woken`] in the queue.
    pub(super) fn wake(&self) {
        self.push(Event::Woken, Effect::None);
    }

    /// Returns whether the caller is so far behind that no new connection is admitted.
    pub(super) fn is_crowded(&self) -> bool {
        self.waiting.load(Ordering::Acquire) >= CROWDED
    }
}

/// Interrupts a caller that waits for events, from any thread.
#[derive(Clone, Debug)]
pub struct Waker(pub(super) EventSender);

impl Waker {
    /// Sends the caller one [`Event::Woken`].
    pub fn wake(&self) {
        self.0.wake();
    }
}

/// Receiving end of the queue. While the caller takes no events, received frames wait here up to a limit, and
/// further frames wait at their senders.
#[derive(Debug)]
pub struct Events {
    queue: Receiver<(Event, Effect)>,
    waiting: Arc<AtomicUsize>,
    links: Links,
}

impl Events {
    /// Returns the next event, or `None` once the network has shut down and all earlier events were taken.
    pub fn recv(&self) -> Option<Event> {
        self.queue.recv().ok().map(|entry| self.take(entry))
    }

    /// Returns the next event within `timeout`.
    ///
    /// # Errors
    /// `Timeout` if no event came, `Disconnected` if no further event will come.
    pub fn recv_timeout(&self, timeout: Duration) -> Result<Event, RecvTimeoutError> {
        self.queue.recv_timeout(timeout).map(|entry| self.take(entry))
    }

    /// Returns the next event if one waits.
    ///
    /// # Errors
    /// `Empty` if no event waits, `Disconnected` if no further event will come.
    pub fn try_recv(&self) -> Result<Event, TryRecvError> {
        self.queue.try_recv().map(|entry| self.take(entry))
    }

    fn take(&self, (event, effect): (Event, Effect)) -> Event {
        if let Effect::Taken(link, channel, cost) = effect {
            link.taken(channel, cost);
            return event;
        }
        self.waiting.fetch_sub(1, Ordering::AcqRel);
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        if let Effect::Up(link) = effect {
            links.insert(link.peer, link);
        } else if let Event::PeerLost { peer, .. } = event {
            links.remove(&peer);
        }
        event
    }
}

pub(super) fn queue(links: Links, details: bool) -> (EventSender, Events) {
    let (sender, receiver) = mpsc::channel();
    let waiting = Arc::new(AtomicUsize::new(0));
    let events = EventSender { queue: sender, waiting: Arc::clone(&waiting), details };
    (events, Events { queue: receiver, waiting, links })
}

/// Makes a text safe to print that the other side may have chosen. The result is short and has no control
/// characters.
pub(super) fn harmless(text: &str) -> String {
    text.chars().take(300).map(|c| if crate::session::printable(c) { c } else { ' ' }).collect()
}
