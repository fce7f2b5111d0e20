//! `flyswarm export`: a model as arrays of NumPy.

use std::io::{BufWriter, Write};
use std::path::PathBuf;

use clap::Args;

use super::model::ModelArguments;
use super::{Failure, output, print};
use crate::files;

/// Write a model as an NPZ archive: counts, lifting matrix, classes and settings as arrays of NumPy
///
/// docs/export.md says what the arrays are, and has twenty lines of NumPy that predict from them.
#[derive(Debug, Args)]
pub(super) struct Export {
    #[command(flatten)]
    model: ModelArguments,
    /// The archive to write
    #[arg(long, value_name = "FILE.npz")]
    out: PathBuf,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
}

impl Export {
    pub(super) fn run(self, out: &mut dyn Write) -> Result<(), Failure> {
        let model = self.model.load()?;
        let path = &self.out;
        output::check(path, self.force)?;
        let failed = |error| output::failed(path, &error);
        let file = files::beside(path).map_err(failed)?;
        let writer = model.write_npz(BufWriter::new(file.as_file())).map_err(failed)?;
        writer.into_inner().map_err(|error| failed(error.into_error()))?;
        files::keep(file, path, self.force).map_err(failed)?;
        print(out, &format!("wrote {}: {}\n", path.display(), hex::encode(model.digest())))
    }
}
