//! A model as NumPy arrays, for use without this program. `docs/python.md` describes the arrays and how
//! to predict from them.

use std::io::{self, Seek, Write};

use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::Model;
use super::calibration::Calibration;
use super::origin::Origin;
use crate::sketch::flyhash::FlyHash;
use flyswarm_data::scaling::{Scaler, Scaling};

/// Version of the archive's contents, stored in the array `version`.
const VERSION: i64 = 3;

impl Model {
    /// Writes the model as an NPZ archive. Equal models give equal bytes.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn write_npz<W: Write + Seek>(&self, out: W) -> io::Result<W> {
        let parameters = self.sketch.parameters();
        let mut archive = Archive::new(out);
        let hash = FlyHash::new(&self.sketch);
        let integer = |x: usize| i64::try_from(x).unwrap_or(i64::MAX).to_le_bytes();
        let bins = if let Scaling::SoftBins(bins) = parameters.scaling { bins.into() } else { 0 };
        let (shift, scale) = linear(&self.scaler);

        archive.array("version", "<i8", &[], [VERSION.to_le_bytes()])?;
        archive.texts("classes", &[self.classes.len()], self.classes.iter().map(String::as_str))?;
        let counts = self.counts.values().iter().map(|count| count.to_le_bytes());
        archive.array("counts", "<u4", &[self.classes.len(), parameters.m], counts)?;
        let columns = hash.matrix().flatten().map(|column| column.to_le_bytes());
        archive.array("M", "<u4", &[parameters.m, parameters.s], columns)?;
        archive.array("rho", "<i8", &[], [integer(parameters.rho)])?;
        archive.texts("score", &[], [self.readout.score.name()])?;
        archive.array("gamma", "<f8", &[], [self.readout.gamma.to_le_bytes()])?;
        let (calibration, frequencies) =
            (self.calibration.unwrap_or(Calibration::CAUTIOUS), self.frequencies());
        archive.array("calibrated", "|b1", &[], [[u8::from(self.calibration.is_some())]])?;
        archive.array("sharpness", "<f8", &[], [calibration.sharpness().to_le_bytes()])?;
        let shares = frequencies.shares().iter().map(|share| share.to_le_bytes());
        archive.array("frequencies", "<f8", &[self.classes.len()], shares)?;
        archive.texts("scaling", &[], [parameters.scaling.name()])?;
        archive.array("bins", "<i8", &[], [integer(bins)])?;
        archive.array("shift", "<f8", &[parameters.d], shift.iter().map(|x| x.to_le_bytes()))?;
        archive.array("scale", "<f8", &[parameters.d], scale.iter().map(|x| x.to_le_bytes()))?;
        archive.array("densify", "|b1", &[], [[u8::from(parameters.densify)]])?;
        if let Some(signs) = hash.signs() {
            archive.array("signs", "<f4", &[signs.len()], signs.iter().map(|x| x.to_le_bytes()))?;
        }
        archive.array("seed", "|u1", &[parameters.seed.len()], parameters.seed.map(|byte| [byte]))?;
        archive.texts("digest", &[], [hex::encode(self.digest()).as_str()])?;
        if let Some(preparation) = &self.preparation {
            let encoded = preparation.encode();
            archive.array("preparation", "|u1", &[encoded.len()], encoded.iter().map(|byte| [*byte]))?;
        }
        archive.texts("column_names", &[self.columns.len()], self.columns.iter().map(String::as_str))?;
        let (id, date, members) = match &self.origin {
            Some(origin) => (hex::encode(origin.id), origin.date(), &origin.members[..]),
            None => Default::default(),
        };
        let of = |text: fn(&Origin) -> &str| self.origin.as_ref().map_or("", text);
        archive.texts("session", &[], [of(|origin| &origin.session)])?;
        archive.texts("session_id", &[], [&*id])?;
        archive.texts("members", &[members.len()], members.iter().map(String::as_str))?;
        archive.texts("date", &[], [&*date])?;
        archive.texts("protocol", &[], [of(|origin| &origin.protocol)])?;
        archive.texts("program", &[], [of(|origin| &origin.program)])?;
        archive.finish()
    }
}

/// Returns the number subtracted from each feature, and the number that the difference is divided by. A
/// divisor of 0 marks a constant feature, which becomes 0.
pub(crate) fn linear(scaler: &Scaler) -> (Vec<f64>, Vec<f64>) {
    let d = scaler.features();
    let or = |values: &[f64], otherwise| if values.is_empty() { vec![otherwise; d] } else { values.to_vec() };
    match scaler.scaling() {
        Scaling::Range { lo, hi } => {
            let bounds =
                || lo.iter().zip(hi).cycle().take(d).map(|(&lo, &hi)| (f64::from(lo), f64::from(hi)));
            (bounds().map(|(lo, _)| lo).collect(), bounds().map(|(lo, hi)| hi - lo).collect())
        }
        _ => (or(scaler.means(), 0.0), or(scaler.deviations(), 1.0)),
    }
}

/// An NPZ archive that is being written.
pub(crate) struct Archive<W: Write + Seek>(ZipWriter<W>);

impl<W: Write + Seek> Archive<W> {
    pub(crate) fn new(out: W) -> Self {
        Self(ZipWriter::new(out))
    }

    pub(crate) fn finish(self) -> io::Result<W> {
        self.0.finish().map_err(io::Error::from)
    }

    /// Writes one array in C order: its type and shape in NumPy's notation, and its elements.
    pub(crate) fn array<const N: usize>(
        &mut self,
        name: &str,
        descr: &str,
        shape: &[usize],
        elements: impl IntoIterator<Item = [u8; N]>,
    ) -> io::Result<()> {
        self.begin(name, descr, shape, N)?;
        let mut block = Vec::with_capacity(1 << 16);
        for element in elements {
            block.extend(element);
            if block.len() >= 1 << 16 {
                self.0.write_all(&block)?;
                block.clear();
            }
        }
        self.0.write_all(&block)
    }

    /// Writes one array of texts, in 32-bit characters padded with zeros.
    pub(crate) fn texts<'a>(
        &mut self,
        name: &str,
        shape: &[usize],
        texts: impl IntoIterator<Item = &'a str, IntoIter: Clone>,
    ) -> io::Result<()> {
        let texts = texts.into_iter();
        let width = texts.clone().map(|text| text.chars().count()).max().unwrap_or(0).max(1);
        self.begin(name, &format!("<U{width}"), shape, 4 * width)?;
        for text in texts {
            let padded = text.chars().map(u32::from).chain(std::iter::repeat(0)).take(width);
            let bytes: Vec<u8> = padded.flat_map(u32::to_le_bytes).collect();
            self.0.write_all(&bytes)?;
        }
        Ok(())
    }

    fn begin(&mut self, name: &str, descr: &str, shape: &[usize], width: usize) -> io::Result<()> {
        let bytes = shape.iter().product::<usize>() * width;
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .large_file(bytes >= 1 << 31);
        self.0.start_file(format!("{name}.npy"), options)?;
        let sizes: Vec<String> = shape.iter().map(usize::to_string).collect();
        let comma = if sizes.len() == 1 { "," } else { "" };
        let mut header = format!(
            "{{'descr': '{descr}', 'fortran_order': False, 'shape': ({}{comma}), }}",
            sizes.join(", ")
        );
        // Version 1.0 of the format. The elements begin at a multiple of 64 bytes.
        let unpadded = 10 + header.len() + 1;
        header.extend(std::iter::repeat_n(' ', unpadded.next_multiple_of(64) - unpadded));
        header.push('\n');
        self.0.write_all(b"\x93NUMPY\x01\x00")?;
        // The header is shorter than 200 bytes, because a shape has at most five numbers.
        self.0.write_all(&(header.len() as u16).to_le_bytes())?;
        self.0.write_all(header.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;
    use crate::model::tests::small_model;
    use flyswarm_data::{Expected, LabelColumn, load};

    /// Reads the archive back with the reader of data files.
    #[test]
    fn the_arrays_are_those_of_the_model() {
        let model = small_model(Scaling::Center, 0.5);
        let bytes = model.write_npz(Cursor::new(Vec::new())).unwrap().into_inner();
        assert_eq!(
            bytes,
            model.write_npz(Cursor::new(Vec::new())).unwrap().into_inner(),
            "the same bytes again"
        );
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.npz");
        std::fs::write(&path, bytes).unwrap();
        let read = |array, label| {
            let expected = Expected { array: Some(array), label, ..Expected::default() };
            load(&path, &expected).unwrap()
        };
        let counts = read("counts", LabelColumn::Name("classes".into()));
        assert_eq!((counts.rows(), counts.features()), (10, 100));
        assert_eq!(counts.classes(), model.classes());
        assert!(counts.values().iter().zip(model.counts().values()).all(|(a, b)| *a as u32 == *b));
        let matrix = read("M", LabelColumn::None);
        assert_eq!((matrix.rows(), matrix.features()), (100, 6));
        let hash = FlyHash::new(model.sketch());
        assert!(matrix.values().iter().zip(hash.matrix().flatten()).all(|(a, b)| *a as u32 == *b));
    }
}
