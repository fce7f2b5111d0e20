//! kNN-Per: a network that all peers have trained, made personal by a peer's own rows (Marfoq et al.,
//! "Personalized Federated Learning through Local Memorization", ICML 2022, section 3).
//!
//! There is no protocol: each peer does this alone, with rows that stay with it. The *datastore*
//! ([`Datastore`], equation 3) has a key and a class for each of its rows; the key is the network's
//! representation, the numbers before its last layer
//! ([`Network::representation`](crate::learner::Network::representation)). The k nearest keys of a row
//! (equations 4 and 5) vote for their classes with the weights exp(-d / scale), d the Euclidean distance
//! (equations 6 and 40). What they say is mixed with the probabilities of the network:
//! lambda x neighbours + (1 - lambda) x network (equation 7). Lambda is chosen from [`LAMBDAS`] by rows
//! that are in no datastore ([`assess()`]), and never by rows of a test.
//!
//! Representations that some other program has computed are rows like any other: with them the network is a
//! logistic regression, whose representation of a row is the row, scaled.
//!
//! Departures from the paper: its memory-saving ProtoNN is replaced by prototypes that k-means finds in each
//! class ([`Datastore::prototypes`]), without a learnt projection.

mod assess;
mod datastore;
mod file;
mod mix;
mod prototypes;

pub use assess::{Assessment, Practice, assess, trained};
pub use datastore::{Datastore, Drift, Neighbour};
pub use file::{Contents, PersonalModel};
pub use mix::{LAMBDAS, Mixture, Tally, probabilities};

use crate::learner::ClassifierError;

/// Most neighbours that vote.
pub const MAX_NEIGHBOURS: usize = 1024;

/// Why there is no personal model. Nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum PersonalError {
    /// The network, or a file.
    #[error(transparent)]
    Classifier(#[from] ClassifierError),
    /// The bytes are not a personal model.
    #[error("not a flyswarm personal model: {0}")]
    Bad(String),
    /// A representation that is not a finite number: the network's weights are too large.
    #[error("number {1} of the representation of row {0} is {2}")]
    Representation(usize, usize, f32),
    /// Keys, labels and classes do not belong together.
    #[error("{0}")]
    Shape(String),
    /// A setting outside its limits.
    #[error("{0} is {1}, must be {2}")]
    Setting(&'static str, f64, &'static str),
    /// Too few rows to choose lambda by.
    #[error("{0} rows, at least {1} are needed to choose lambda by")]
    Few(usize, usize),
}

#[cfg(test)]
mod tests;
