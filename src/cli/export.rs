//! `flyswarm export`: a model as arrays of NumPy.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::Args;

use super::model::for_io;
use super::{Failure, print};
use crate::model::Model;

/// Write a model as an NPZ archive: counts, lifting matrix, classes and settings as arrays of NumPy
///
/// docs/export.md says what the arrays are, and has twenty lines of NumPy that predict from them.
#[derive(Debug, Args)]
pub(super) struct Export {
    /// Model file
    model: PathBuf,
    /// The archive to write
    #[arg(long, value_name = "FILE.npz")]
    out: PathBuf,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
}

impl Export {
    pub(super) fn run(self, out: &mut dyn Write) -> Result<(), Failure> {
        let model = Model::load(&self.model)?;
        let path = &self.out;
        if path.exists() && !self.force {
            return Err(Failure::Input(format!("{}: exists; --force overwrites it", path.display())));
        }
        let failed = |error| for_io(&error, format!("{}: {error}", path.display()));
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut builder = tempfile::Builder::new();
        builder.prefix(".export");
        // As any file that is handed on: the usual mode, less the umask.
        #[cfg(unix)]
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o666);
        #[cfg(unix)]
        builder.permissions(mode);
        let file = builder.tempfile_in(folder).map_err(failed)?;
        let writer = model.write_npz(BufWriter::new(file)).map_err(failed)?;
        let file = writer.into_inner().map_err(|error| failed(error.into_error()))?;
        file.as_file().sync_all().map_err(failed)?;
        file.persist(path).map_err(|error| failed(error.error))?;
        print(out, &format!("wrote {}: {}\n", path.display(), hex::encode(model.digest())))
    }
}
