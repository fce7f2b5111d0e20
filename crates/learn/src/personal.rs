//! kNN-Per: a network that all peers trained, personalised with a peer's own rows (Marfoq et al.,
//! "Personalized Federated Learning through Local Memorization", ICML 2022, section 3).
//!
//! No protocol is needed: each peer makes its own personal model, with rows that stay on its machine. The
//! *datastore* ([`Datastore`], equation 3) has a key and a class for each of its rows. The key is the
//! network's representation of the row: the numbers before the last layer
//! ([`Network::representation`](crate::learner::Network::representation)). The k nearest keys of a row
//! (equations 4 and 5) vote for their classes with the weights exp(-d / scale), where d is the Euclidean
//! distance (equations 6 and 40). The votes are mixed with the probabilities of the network: lambda x
//! neighbours + (1 - lambda) x network (equation 7). Lambda is chosen from [`LAMBDAS`] with rows that are in
//! no datastore ([`assess()`]), never with test rows.
//!
//! Representations that another program computed can be used as rows. Then the network is a logistic
//! regression, and its representation of a row is the scaled row.
//!
//! We depart from the paper in one point: k-means finds prototypes in each class ([`Datastore::prototypes`]),
//! without a learnt projection. The paper saves memory with ProtoNN.

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

/// Largest number of neighbours that vote.
pub const MAX_NEIGHBOURS: usize = 1024;

/// Reason why no personal model was made. Nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum PersonalError {
    /// The network or a file failed.
    #[error(transparent)]
    Classifier(#[from] ClassifierError),
    /// The bytes are not a personal model.
    #[error("not a flyswarm personal model: {0}")]
    Bad(String),
    /// A number of a representation is not finite, because the network's weights are too large.
    #[error("number {1} of the representation of row {0} is {2}")]
    Representation(usize, usize, f32),
    /// Keys, labels and classes do not fit together.
    #[error("{0}")]
    Shape(String),
    /// A setting is outside its limits.
    #[error("{0} is {1}, must be {2}")]
    Setting(&'static str, f64, &'static str),
    /// There are too few rows to choose lambda.
    #[error("{0} rows, at least {1} are needed to choose lambda")]
    Few(usize, usize),
}

#[cfg(test)]
mod tests;
