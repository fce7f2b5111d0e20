//! `flyswarm export`: writes a model as NumPy arrays, or a network as an ONNX graph.

use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use flyswarm_learn::learner::Classifier;

use super::model::ModelArguments;
use super::model::network::Network;
use super::{Failure, output, print};
use crate::files;
use crate::model::onnx;

/// Write a model as an NPZ archive (counts, lifting matrix, classes, settings), or a network and its scaling
/// as an ONNX file
///
/// docs/python.md describes the arrays and has twenty lines of NumPy that predict from them. A personal
/// model needs --with-private-rows; lab/tables/networks.md describes its arrays.
#[derive(Debug, Args)]
pub(super) struct Export {
    #[command(flatten)]
    model: ModelArguments,
    /// File to write: an NPZ archive for a model, an ONNX file for a network
    #[arg(long, value_name = "FILE.npz|FILE.onnx")]
    out: PathBuf,
    /// Allow the export of a personal model, which holds numbers that reveal much about your rows
    #[arg(long)]
    with_private_rows: bool,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A file that stores its first error and accepts no data after it. Otherwise an unfinished archive would
/// print errors of its own when it is dropped.
struct Remembering<'a> {
    file: &'a File,
    error: Option<io::Error>,
}

type Writer<'a> = BufWriter<Remembering<'a>>;

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

/// Error if the file for a network has another ending than .onnx.
pub(super) const NAME_IT: &str = "a network is written as ONNX, so its name must end in .onnx";

/// Returns whether a file has the name of an ONNX graph.
pub(super) fn is_graph(file: &Path) -> bool {
    file.extension().is_some_and(|ending| ending == "onnx")
}

impl Export {
    pub(super) fn run(self, out: &mut dyn Write) -> Result<(), Failure> {
        let graph = is_graph(&self.out);
        let refused = |text| Err(Failure::Input(format!("--out {}: {text}", self.out.display())));
        let network = Network::load(&self.model.model)?;
        if let Some(Network::Global(network)) = &network {
            if !graph {
                return refused(NAME_IT);
            }
            write_graph(network, &self.out, self.force)?;
            return self.report(&network.digest(), Some(&onnx::expects(network)), out);
        }
        if graph {
            return refused("only a network is written as ONNX");
        }
        if let Some(Network::Personal(model)) = network {
            if !self.with_private_rows {
                return Err(Failure::Input(format!(
                    "{}: holds representations of private rows; --with-private-rows exports them",
                    self.model.model.display()
                )));
            }
            self.write(true, |out| model.write_npz(out))?;
            return self.report(&model.digest(), None, out);
        }
        let model = self.model.load()?;
        self.write(false, |out| model.write_npz(out))?;
        self.report(&model.digest(), None, out)
    }

    /// Writes the archive. If it has private rows, only its owner can read it.
    fn write(
        &self,
        private: bool,
        write: impl FnOnce(Writer<'_>) -> io::Result<Writer<'_>>,
    ) -> Result<(), Failure> {
        write_file(&self.out, self.force, private, write)
    }

    fn report(&self, digest: &[u8; 32], expects: Option<&str>, out: &mut dyn Write) -> Result<(), Failure> {
        let (path, digest) = (&self.out, hex::encode(digest));
        let text = if self.json {
            let mut value = serde_json::json!({"file": path, "digest": digest});
            if let Some(expects) = expects {
                value["expects"] = expects.into();
            }
            value.to_string()
        } else {
            let expects = expects.map(|expects| format!("\n{expects}")).unwrap_or_default();
            format!("wrote {}: {digest}{expects}", path.display())
        };
        print(out, &(text + "\n"))
    }
}

/// Writes a network as an ONNX graph.
pub(super) fn write_graph(network: &Classifier, path: &Path, force: bool) -> Result<(), Failure> {
    let bytes = onnx::encode(network);
    write_file(path, force, false, |mut out| out.write_all(&bytes).map(|()| out))
}

fn write_file(
    path: &Path,
    force: bool,
    private: bool,
    write: impl FnOnce(Writer<'_>) -> io::Result<Writer<'_>>,
) -> Result<(), Failure> {
    output::check(path, force)?;
    let failed = |error| output::failed(path, &error);
    let file = if private { files::private_beside(path) } else { files::beside(path) };
    let file = file.map_err(failed)?;
    let writer = write(BufWriter::new(Remembering { file: file.as_file(), error: None })).map_err(failed)?;
    let written = writer.into_inner().map_err(|error| failed(error.into_error()))?;
    if let Some(error) = written.error {
        return Err(failed(error));
    }
    files::keep(file, path, force).map_err(failed)
}

#[cfg(test)]
mod tests;
