//! `flyswarm export`: a model as arrays of NumPy.

use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
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
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A file that takes no more after its first error, which it remembers: an archive that is dropped
/// unfinished would print errors of its own.
struct Remembering<'a> {
    file: &'a File,
    error: Option<io::Error>,
}

impl Write for Remembering<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match if self.error.is_none() { self.file.write(bytes) } else { Ok(bytes.len()) } {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                self.error = Some(error);
                Ok(bytes.len())
            }
            written => written,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for Remembering<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

impl Export {
    pub(super) fn run(self, out: &mut dyn Write) -> Result<(), Failure> {
        let model = self.model.load()?;
        let path = &self.out;
        output::check(path, self.force)?;
        let failed = |error| output::failed(path, &error);
        let file = files::beside(path).map_err(failed)?;
        let writer = BufWriter::new(Remembering { file: file.as_file(), error: None });
        let writer = model.write_npz(writer).map_err(failed)?;
        let written = writer.into_inner().map_err(|error| failed(error.into_error()))?;
        if let Some(error) = written.error {
            return Err(failed(error));
        }
        files::keep(file, path, self.force).map_err(failed)?;
        let digest = hex::encode(model.digest());
        let text = match self.json {
            true => serde_json::json!({"file": path, "digest": digest}).to_string(),
            false => format!("wrote {}: {digest}", path.display()),
        };
        print(out, &(text + "\n"))
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::cli::model::tests::small_model;
    use crate::sketch::scaling::Scaling;

    #[test]
    fn a_full_disk_is_remembered_as_one_error() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let writer = BufWriter::new(Remembering { file: &full, error: None });
        let written = small_model(Scaling::Center).write_npz(writer).unwrap().into_inner().ok().unwrap();
        assert_eq!(written.error.unwrap().kind(), io::ErrorKind::StorageFull);
    }
}
