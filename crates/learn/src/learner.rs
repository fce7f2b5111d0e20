//! The built-in learner: small networks for classification, trained by stochastic gradient descent on one
//! core. It is `ClientUpdate` of McMahan et al., "Communication-Efficient Learning of Deep Networks from
//! Decentralized Data", AISTATS 2017 (spec, section "Task fedavg", *Learner*).
//!
//! A network is a list of layers without state. Its weights are one vector of `f32`, which holds one tensor
//! after another ([`Network::tensors`]). `ndarray` computes products of matrices, and its order of additions
//! depends only on the kind of processor. So on one machine the same call gives the same bits.

mod augment;
mod classifier;
mod layer;
mod network;
mod pseudo;
mod train;

pub use augment::Augment;
pub(crate) use classifier::looks_like;
pub use classifier::{Classifier, ClassifierError, scaler_metadata, scaler_of_metadata};
pub use network::{Architecture, Batch, Network, NetworkError, Tape, Tensor, surprise};
pub use pseudo::{PseudoLabels, class_weights, shares};
pub use train::{Schedule, Settings, Trained, clip_update, train, train_halves};

/// Largest number of weights of a network: 64 MiB of them.
pub const MAX_WEIGHTS: usize = 1 << 24;

#[cfg(test)]
mod tests;
