//! Images for the examples.
#![allow(dead_code, reason = "each example uses a part")]

use std::error::Error;
use std::io::Read;
use std::path::Path;

use flyswarm_data::Dataset;

type Failure = Box<dyn Error + Send + Sync>;

/// Reads a part of Fashion-MNIST: `train` or `t10k`.
pub(crate) fn fashion(folder: &Path, part: &str) -> Result<Dataset, Failure> {
    let pixels = unpacked(&folder.join(format!("{part}-images-idx3-ubyte.gz")))?;
    let labels = unpacked(&folder.join(format!("{part}-labels-idx1-ubyte.gz")))?;
    dataset(pixels.into_iter().skip(16), labels.into_iter().skip(8).map(u16::from).collect(), 10)
}

/// Reads images of CIFAR: records of a label and 3,072 bytes.
pub(crate) fn cifar(path: &Path, classes: usize) -> Result<Dataset, Failure> {
    let bytes = unpacked(path)?;
    let records = bytes.chunks_exact(3073);
    let labels = records.clone().map(|record| u16::from(record[0])).collect();
    dataset(records.flat_map(|record| record[1..].iter().copied()), labels, classes)
}

/// Scales pixels to -2 to 2.
fn dataset(pixels: impl Iterator<Item = u8>, labels: Vec<u16>, classes: usize) -> Result<Dataset, Failure> {
    let values: Vec<f32> = pixels.map(|pixel| (f32::from(pixel) / 255.0 - 0.5) * 4.0).collect();
    let names = (0..classes).map(|class| class.to_string()).collect();
    Ok(Dataset::new(values.len() / labels.len().max(1), values, labels, names)?)
}

fn unpacked(path: &Path) -> Result<Vec<u8>, Failure> {
    let file = std::fs::File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(file).read_to_end(&mut bytes)?;
    Ok(bytes)
}
