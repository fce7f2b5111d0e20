//! The classifier: predictions, scores, its file and what the file says of its origin.

#[doc(inline)]
pub use flyswarm_kernels::model::{
    Model, ModelError, Predictor, file::DecodeError, file::FileError, origin::Origin,
};
pub(crate) use flyswarm_kernels::model::{
    bloom, file, heterogeneity, neighbours, origin, outside, propagation, readout, score, selection, simhash,
};
