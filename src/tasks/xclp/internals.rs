//! Functions for the test vectors, which are made outside this crate.

pub use super::accounts::{Statement, Topic, named};
pub use super::classes::without_labels;
pub use super::compute::agree::hash as output_hash;
pub use super::computed::commitment;
pub use super::deliver::{parcel, to_bytes};
pub use super::pairs::{lengths, masks, partner, rounds};
pub use super::parties::candidates;
pub use super::talk::{Body, What, content};
