//! The classifier: predictions, scores, its file and the origin that the file records.

#[cfg(feature = "cli")]
pub(crate) mod compare;
#[cfg(feature = "cli")]
pub(crate) mod notes;
#[cfg(feature = "cli")]
pub(crate) mod onnx;

#[doc(inline)]
pub use flyswarm_learn::model::{
    Model, ModelError, Predictor, file::DecodeError, file::FileError, origin::Origin,
};
pub(crate) use flyswarm_learn::model::{
    bloom, file, heterogeneity, neighbours, origin, outside, readout, score, selection,
};
