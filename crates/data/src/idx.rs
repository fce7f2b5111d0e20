//! IDX (the format of MNIST): two zero bytes, element type, number of dimensions, the sizes as big-endian
//! u32, the elements. Unsigned bytes (type 8) are read; images become rows of the pixels in file order,
//! values 0 to 255. Format: <http://yann.lecun.com/exdb/mnist/>, "the IDX file format".

use super::{
    DataError, Expected, LabelColumn, Labels, Loaded, MAX_FEATURES, MAX_ROWS, MAX_VALUES, Source, npy,
};

const UNSIGNED_BYTES: u8 = 0x08;

pub(super) fn read(mut images: Source, expected: &Expected) -> Result<Loaded, DataError> {
    let refuse =
        |problem: &str| Err(DataError::Layout { file: images.file.clone(), problem: problem.into() });
    let labels = match (expected.labels_file, &expected.label) {
        (_, LabelColumn::None) => None,
        (Some(labels), _) => Some(Source::open(labels)?),
        (None, _) => {
            return refuse("IDX images hold no labels, expected a labels file beside them (--labels)");
        }
    };
    if !expected.drop.is_empty() {
        return refuse("IDX images have pixels and no columns to leave out");
    }
    let sizes = sizes(&mut images, 2..=4)?;
    let (rows, shape) = sizes.split_first().map_or((0, &[][..]), |(&rows, shape)| (rows, shape));
    // At most 3 factors below 2^32: no overflow in u128.
    let features = shape.iter().map(|&n| u128::from(n)).product::<u128>();
    let limit = |what, found: u128, limit: usize| {
        let found = u64::try_from(found).unwrap_or(u64::MAX);
        Err(DataError::Limit { file: images.file.clone(), what, found, limit: limit as u64 })
    };
    if features > MAX_FEATURES as u128 {
        return limit("too many pixels per image", features, MAX_FEATURES);
    }
    if rows as usize > MAX_ROWS {
        return limit("too many images", u128::from(rows), MAX_ROWS);
    }
    if u128::from(rows) * features > MAX_VALUES as u128 {
        return limit("too many pixels", u128::from(rows) * features, MAX_VALUES);
    }
    let (rows, features) = (rows as usize, features as usize);
    if rows == 0 || features == 0 {
        return Err(DataError::NoRows { file: images.file, header: true });
    }
    if let Some(expected) = expected.features
        && expected != features
    {
        return Err(DataError::Features {
            file: images.file,
            line: 1,
            found: features,
            expected,
            labelled: false,
        });
    }

    let pixels = elements(&mut images, rows * features)?;
    let mut names = Labels::new(expected);
    if let Some(source) = labels {
        labels_of(source, rows, &mut names)?;
    }
    let values = pixels.iter().map(|&x| f32::from(x)).collect();
    Ok(names.finish(features, values))
}

/// Reads a labels file, IDX or NPY, for so many rows.
pub(super) fn labels_of(mut source: Source, rows: usize, names: &mut Labels) -> Result<(), DataError> {
    if source.head.starts_with(npy::MAGIC) {
        return npy::read_labels(source, rows, names);
    }
    let found = sizes(&mut source, 1..=1)?;
    if found != [rows as u32] {
        return Err(wrong(
            &source,
            "number of labels",
            format!("{found:?}"),
            format!("[{rows}] as in the images"),
        ));
    }
    for (i, label) in elements(&mut source, rows)?.iter().enumerate() {
        names
            .push(&label.to_string())
            .map_err(|expected| wrong(&source, &format!("label {i}"), label.to_string(), expected))?;
    }
    Ok(())
}

fn wrong(source: &Source, what: &str, found: String, expected: String) -> DataError {
    DataError::Entry { file: source.file.clone(), what: what.into(), found, expected }
}

/// Reads the magic number and the sizes.
fn sizes(source: &mut Source, dimensions: std::ops::RangeInclusive<u8>) -> Result<Vec<u32>, DataError> {
    let magic = source.read_up_to(4)?;
    let &[0, 0, kind, count] = magic.as_slice() else {
        return Err(wrong(
            source,
            "magic number",
            format!("{magic:02x?}"),
            "00 00 08 and a number of dimensions".into(),
        ));
    };
    if kind != UNSIGNED_BYTES {
        return Err(wrong(source, "element type", format!("{kind:#04x}"), "0x08 (unsigned bytes)".into()));
    }
    if !dimensions.contains(&count) {
        let expected = format!("{} to {}", dimensions.start(), dimensions.end());
        return Err(wrong(source, "number of dimensions", count.to_string(), expected));
    }
    let bytes = source.read_up_to(4 * u64::from(count))?;
    let (sizes, rest) = bytes.as_chunks::<4>();
    if sizes.len() != usize::from(count) || !rest.is_empty() {
        return Err(wrong(source, "length", format!("{} bytes", 4 + bytes.len()), "a whole header".into()));
    }
    Ok(sizes.iter().map(|&size| u32::from_be_bytes(size)).collect())
}

/// Reads exactly the elements that are left, and no byte may follow them.
fn elements(source: &mut Source, count: usize) -> Result<Vec<u8>, DataError> {
    let bytes = source.read_up_to(count as u64 + 1)?;
    if bytes.len() != count {
        let found = if bytes.len() > count { format!("over {count}") } else { bytes.len().to_string() };
        return Err(wrong(source, "number of elements", found, format!("{count} as in its header")));
    }
    Ok(bytes)
}
