//! One round up the tree. The report of a subtree is complete when this peer and all its children have
//! reported.

use std::collections::BTreeSet;

use crate::session::Peer;

/// Items of one round, from this peer and its children's subtrees.
#[derive(Clone, Debug)]
pub(crate) struct Convergecast<T> {
    waiting: BTreeSet<Peer>,
    own: bool,
    complete: bool,
    items: Vec<T>,
}

impl<T> Convergecast<T> {
    /// Waits for this peer's own items and those of every child.
    #[must_use]
    pub(crate) fn new(children: &[Peer]) -> Self {
        Self { waiting: children.iter().copied().collect(), own: false, complete: false, items: Vec::new() }
    }

    /// Adds this peer's own items. Only the first call counts.
    pub(crate) fn own(&mut self, items: Vec<T>) {
        if !self.own {
            self.own = true;
            self.items.extend(items);
        }
    }

    /// Adds a child's items. Returns false if the child has reported before, or if the peer is not a
    /// child.
    #[must_use]
    pub(crate) fn child(&mut self, from: Peer, items: Vec<T>) -> bool {
        let expected = self.waiting.remove(&from);
        if expected {
            self.items.extend(items);
        }
        expected
    }

    /// Returns a child that has not reported yet.
    #[must_use]
    pub(crate) fn waiting(&self) -> Option<Peer> {
        self.waiting.first().copied()
    }

    /// Returns the items of the whole subtree, once, on the first call after all have reported.
    #[must_use]
    pub(crate) fn complete(&mut self) -> Option<Vec<T>> {
        if self.complete || !self.own || !self.waiting.is_empty() {
            return None;
        }
        self.complete = true;
        Some(std::mem::take(&mut self.items))
    }
}
