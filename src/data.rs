//! Rows of data: read from files or made from arrays.

#[cfg(feature = "cli")]
pub(crate) mod map;

#[cfg(feature = "cli")]
pub(crate) use flyswarm_data::keep_pipe;
pub(crate) use flyswarm_data::prepare;
pub(crate) use flyswarm_data::prepare::read::Dialect;
#[doc(inline)]
pub use flyswarm_data::{
    Column, Contents, DataError, Dataset, Expected, Format, Group, LabelColumn, Loaded, NamedBy, load,
    load_named,
};
pub(crate) use flyswarm_data::{MAX_FEATURES, column_texts, deal, digits, groups, npz_digest, site, split};
