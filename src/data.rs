//! Rows of data: read from files or made from arrays.

pub(crate) use flyswarm_kernels::data::prepare;
pub(crate) use flyswarm_kernels::data::prepare::read::Dialect;
#[doc(inline)]
pub use flyswarm_kernels::data::{
    Column, DataError, Dataset, Expected, Format, LabelColumn, Loaded, NamedBy, load, load_named,
};
pub(crate) use flyswarm_kernels::data::{MAX_FEATURES, column_texts, deal, digits, npz_digest, split};
