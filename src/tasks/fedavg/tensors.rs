//! The tensors of a model: names, types and shapes, and how the peers combine them (spec, section "Task
//! fedavg", *Tensors*). The built-in networks are lists of tensors of binary32 that are averaged.

use std::collections::BTreeMap;

use bytes::Bytes;
use flyswarm_learn::learner::MAX_WEIGHTS;
use half::{bf16, f16};
use serde_json::{Map, Value, json};

use crate::session::encoding::{integer, list, number, put, text};
use crate::session::fields::{Table, Word};

/// Most tensors of a model.
pub(crate) const MAX_TENSORS: usize = 4096;
/// Longest name of a tensor, in bytes.
const MAX_NAME: usize = 256;
/// Most dimensions of a tensor.
const MAX_DIMENSIONS: usize = 8;
/// Smallest and largest range of a tensor, as powers of two.
pub(crate) const RANGES: (i32, i32) = (-20, 40);
/// Range of a tensor if the session file gives none.
pub(crate) const USUAL_RANGE: f64 = 16.0;

/// Type of the numbers of a tensor, by its name in the format safetensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dtype {
    /// binary64.
    F64,
    /// binary32.
    F32,
    /// binary16.
    F16,
    /// bfloat16.
    Bf16,
    /// Signed, 64 bits.
    I64,
    /// Signed, 32 bits.
    I32,
    /// Signed, 16 bits.
    I16,
    /// Signed, 8 bits.
    I8,
    /// Unsigned, 8 bits.
    U8,
    /// One byte, 0 or 1. Tensors of this type cannot be averaged.
    Bool,
}

/// How the peers combine a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Each round takes the mean over its members.
    Average,
    /// Each peer keeps its own values. They never leave the peer.
    KeepOwn,
    /// All rounds use the values of the first weights.
    First,
}

impl Word for Dtype {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("F64", Self::F64),
        ("F32", Self::F32),
        ("F16", Self::F16),
        ("BF16", Self::Bf16),
        ("I64", Self::I64),
        ("I32", Self::I32),
        ("I16", Self::I16),
        ("I8", Self::I8),
        ("U8", Self::U8),
        ("BOOL", Self::Bool),
    ];
}

impl Word for Rule {
    const WORDS: &'static [(&'static str, Self)] =
        &[("average", Self::Average), ("keep-own", Self::KeepOwn), ("first", Self::First)];
}

impl Dtype {
    /// Returns the number of bytes of one number.
    pub(crate) fn size(self) -> usize {
        match self {
            Self::F64 | Self::I64 => 8,
            Self::F32 | Self::I32 => 4,
            Self::F16 | Self::Bf16 | Self::I16 => 2,
            Self::I8 | Self::U8 | Self::Bool => 1,
        }
    }

    fn is_float(self) -> bool {
        matches!(self, Self::F64 | Self::F32 | Self::F16 | Self::Bf16)
    }

    /// Appends the numbers in these bytes, rounded to binary32.
    #[expect(clippy::cast_possible_truncation, reason = "rounding to binary32 is the rule")]
    fn read(self, bytes: &[u8], to: &mut Vec<f32>) {
        let (two, four, eight) = (bytes.as_chunks().0, bytes.as_chunks().0, bytes.as_chunks().0);
        match self {
            Self::F64 => to.extend(eight.iter().map(|&each| f64::from_le_bytes(each) as f32)),
            Self::F32 => to.extend(four.iter().map(|&each| f32::from_le_bytes(each))),
            Self::F16 => to.extend(two.iter().map(|&each| f16::from_le_bytes(each).to_f32())),
            Self::Bf16 => to.extend(two.iter().map(|&each| bf16::from_le_bytes(each).to_f32())),
            Self::I64 => to.extend(eight.iter().map(|&each| i64::from_le_bytes(each) as f32)),
            Self::I32 => to.extend(four.iter().map(|&each| i32::from_le_bytes(each) as f32)),
            Self::I16 => to.extend(two.iter().map(|&each| f32::from(i16::from_le_bytes(each)))),
            Self::I8 => to.extend(bytes.iter().map(|&each| f32::from(each.cast_signed()))),
            Self::U8 | Self::Bool => to.extend(bytes.iter().map(|&each| f32::from(each))),
        }
    }

    /// Appends the bytes of numbers, rounded to this type. A half is rounded away from 0 in integer types,
    /// and to even in the others.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a cast to integers saturates"
    )]
    fn write(self, numbers: &[f32], to: &mut Vec<u8>) {
        let whole = numbers.iter().map(|number| number.round());
        match self {
            Self::F64 => to.extend(numbers.iter().flat_map(|&each| f64::from(each).to_le_bytes())),
            Self::F32 => to.extend(numbers.iter().flat_map(|each| each.to_le_bytes())),
            Self::F16 => to.extend(numbers.iter().flat_map(|&each| f16::from_f32(each).to_le_bytes())),
            Self::Bf16 => to.extend(numbers.iter().flat_map(|&each| bf16::from_f32(each).to_le_bytes())),
            Self::I64 => to.extend(whole.flat_map(|each| (each as i64).to_le_bytes())),
            Self::I32 => to.extend(whole.flat_map(|each| (each as i32).to_le_bytes())),
            Self::I16 => to.extend(whole.flat_map(|each| (each as i16).to_le_bytes())),
            Self::I8 => to.extend(whole.flat_map(|each| (each as i8).to_le_bytes())),
            Self::U8 | Self::Bool => to.extend(whole.map(|each| each as u8)),
        }
    }
}

/// A tensor of the model that a session trains.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorSpec {
    /// Name, such as `conv1.weight`.
    pub name: String,
    /// Type of its numbers.
    pub dtype: Dtype,
    /// Its dimensions. A single number has none.
    pub shape: Vec<u32>,
    /// How the peers combine it.
    pub rule: Rule,
    /// A power of two. If the tensor is averaged, its numbers must be less than this in magnitude. 0 means
    /// that the tensor has no range of its own; after the session file has been read, it is replaced by the
    /// range of the session.
    pub range: f64,
}

impl TensorSpec {
    /// Returns the number of values. A checked tensor has at most [`MAX_WEIGHTS`].
    #[must_use]
    pub fn count(&self) -> usize {
        self.shape.iter().fold(1, |count: usize, &side| count.saturating_mul(side as usize))
    }

    pub(crate) fn is_averaged(&self) -> bool {
        self.rule == Rule::Average
    }

    fn bytes(&self) -> usize {
        self.count().saturating_mul(self.dtype.size())
    }

    /// Returns the type and shape of the tensor for an error text.
    fn kind(&self) -> String {
        format!("{} {:?}", self.dtype.word(), self.shape)
    }
}

impl Table for TensorSpec {
    fn read(table: &Map<String, Value>) -> Result<Self, String> {
        let text = |name: &str| table.get(name).and_then(Value::as_str);
        let name = text("name").ok_or("a tensor has no name, which is a text")?.to_owned();
        let wrong = |field: &str, expected: &str| format!("tensor {name:?}: {field} is not {expected}");
        let (mut dtype, mut rule) = (Dtype::F32, Rule::Average);
        if !text("dtype").is_some_and(|word| dtype.take(word)) {
            let words: Vec<_> = Dtype::WORDS.iter().map(|(word, _)| *word).collect();
            return Err(wrong("dtype", &format!("one of {}", words.join(", "))));
        }
        if !text("rule").is_some_and(|word| rule.take(word)) {
            return Err(wrong("rule", "one of average, keep-own, first"));
        }
        let side = |side: &Value| side.as_u64().and_then(|side| u32::try_from(side).ok());
        let shape = table.get("shape").and_then(Value::as_array);
        let shape = shape.and_then(|sides| sides.iter().map(side).collect());
        let shape = shape.ok_or_else(|| wrong("shape", "a list of whole numbers"))?;
        let range = table.get("range").map_or(Some(0.0), Value::as_f64);
        let range = range.ok_or_else(|| wrong("range", "a number"))?;
        if let Some(other) =
            table.keys().find(|name| !["name", "dtype", "shape", "rule", "range"].contains(&&***name))
        {
            return Err(format!("tensor {name:?}: unknown field {other:?}"));
        }
        Ok(Self { name, dtype, shape, rule, range })
    }

    fn encode(&self) -> Vec<u8> {
        let sides: Vec<_> = self.shape.iter().map(|&side| integer(side)).collect();
        let mut out = Vec::new();
        for part in [
            text(&self.name),
            text(self.dtype.word()),
            list(sides.iter().map(Vec::as_slice)),
            text(self.rule.word()),
            number(self.range),
        ] {
            put(&mut out, &part);
        }
        out
    }

    fn json(&self) -> Map<String, Value> {
        let table = json!({
            "name": self.name, "dtype": self.dtype.word(), "shape": self.shape, "rule": self.rule.word(),
        });
        let mut table = table.as_object().cloned().unwrap_or_default();
        if self.is_averaged() {
            table.insert("range".into(), json!(self.range));
        }
        table
    }
}

/// Returns whether a number is a valid range: a power of two within [`RANGES`].
pub(crate) fn is_range(range: f64) -> bool {
    (RANGES.0..=RANGES.1).any(|power| range == 2f64.powi(power))
}

/// Checks a list of tensors.
///
/// # Errors
/// Returns one line that names the tensor.
pub(crate) fn check(tensors: &[TensorSpec]) -> Result<(), String> {
    if tensors.is_empty() || tensors.len() > MAX_TENSORS {
        return Err(format!("{} tensors, expected 1 to {MAX_TENSORS}", tensors.len()));
    }
    let mut names = BTreeMap::new();
    for tensor in tensors {
        let TensorSpec { name, shape, dtype, .. } = tensor;
        let refuse = |text: String| Err(format!("tensor {name:?} {text}"));
        if name.is_empty() || name.len() > MAX_NAME || name.chars().any(char::is_control) {
            return refuse(format!("needs a name of 1 to {MAX_NAME} bytes without control characters"));
        }
        if name == "__metadata__" || names.insert(name, ()).is_some() {
            return refuse("has a name that another tensor has, or that is reserved".into());
        }
        if shape.len() > MAX_DIMENSIONS || shape.contains(&0) {
            return refuse(format!(
                "has the shape {shape:?}, expected at most {MAX_DIMENSIONS} sides above 0"
            ));
        }
        if tensor.is_averaged() && *dtype == Dtype::Bool {
            return refuse("is BOOL and cannot be averaged: use the rule \"first\" or \"keep-own\"".into());
        }
        if tensor.is_averaged() && !is_range(tensor.range) {
            let (least, most) = RANGES;
            let limit = format!("a power of two, 2^{least} to 2^{most}");
            return refuse(format!("has the range {}, expected {limit}", tensor.range));
        }
    }
    let sum = |averaged: bool, size: fn(&TensorSpec) -> usize| {
        tensors.iter().filter(|each| each.is_averaged() == averaged).map(size).fold(0, usize::saturating_add)
    };
    match sum(true, TensorSpec::count) {
        0 => Err("no tensor is averaged, so the peers would learn nothing from each other".into()),
        count if count > MAX_WEIGHTS => {
            Err(format!("{count} averaged numbers, at most {MAX_WEIGHTS} are possible"))
        }
        _ if sum(false, TensorSpec::bytes) > 4 * MAX_WEIGHTS => {
            Err(format!("more than {} bytes of tensors that are not averaged", 4 * MAX_WEIGHTS))
        }
        _ => Ok(()),
    }
}

/// Values of all tensors of a model.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Values {
    /// Values of the averaged tensors, one tensor after another.
    pub(crate) averaged: Vec<f32>,
    /// The bytes of each tensor that is not averaged.
    pub(crate) others: Vec<Bytes>,
}

/// Describes the place of a value of the averaged tensors in a text for people. Also returns the range of its
/// tensor.
pub(crate) fn place(tensors: &[TensorSpec], at: usize) -> Option<(String, f64)> {
    let mut start = 0;
    let tensor = tensors.iter().filter(|each| each.is_averaged()).find(|each| {
        start += each.count();
        at < start
    })?;
    let mut rest = at - (start - tensor.count());
    let mut places: Vec<_> = tensor
        .shape
        .iter()
        .rev()
        .map(|&side| {
            let place = rest % (side as usize).max(1);
            rest /= (side as usize).max(1);
            place
        })
        .collect();
    places.reverse();
    let indices = if places.is_empty() { String::new() } else { format!("{places:?}") };
    Some((format!("{}{indices}", tensor.name), tensor.range))
}

/// Writes a file in the format safetensors. The tensors are in the order of the list. Averaged numbers are
/// rounded to the type of their tensor.
pub(crate) fn write(tensors: &[TensorSpec], values: &Values, metadata: Option<&Value>) -> Vec<u8> {
    let (mut data, mut averaged, mut others) = (Vec::new(), &values.averaged[..], values.others.iter());
    let mut places = Vec::new();
    for tensor in tensors {
        let start = data.len();
        if tensor.is_averaged() {
            let (own, rest) = averaged.split_at(tensor.count().min(averaged.len()));
            tensor.dtype.write(own, &mut data);
            averaged = rest;
        } else if let Some(bytes) = others.next() {
            data.extend_from_slice(bytes);
        }
        places.push((&*tensor.name, tensor.dtype.word(), &tensor.shape, start, data.len()));
    }
    let metadata = metadata.map(|metadata| format!("\"__metadata__\":{metadata}"));
    let place = |(name, dtype, shape, start, end): (&str, &str, &Vec<u32>, usize, usize)| {
        let place = json!({"dtype": dtype, "shape": shape, "data_offsets": [start, end]});
        format!("{}:{place}", json!(name))
    };
    let entries: Vec<_> = metadata.into_iter().chain(places.into_iter().map(place)).collect();
    let mut header = format!("{{{}}}", entries.join(","));
    while !header.len().is_multiple_of(8) {
        header.push(' ');
    }
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.append(&mut data);
    bytes
}

/// A file in the format safetensors. Only its header has been read.
pub(crate) struct File<'a> {
    header: Map<String, Value>,
    data: &'a [u8],
}

/// Reads the header of a file in the format safetensors.
///
/// # Errors
/// Returns one line, without the name of the file.
pub(crate) fn open(bytes: &[u8]) -> Result<File<'_>, String> {
    let none = || "is not a file in the format safetensors".to_owned();
    let (length, rest) = bytes.split_first_chunk::<8>().ok_or_else(none)?;
    let length = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX);
    let limit = MAX_TENSORS * (8 * MAX_NAME + 512);
    let (text, data) =
        rest.split_at_checked(length).filter(|(text, _)| text.len() <= limit).ok_or_else(none)?;
    Ok(File { header: serde_json::from_slice(text).map_err(|_| none())?, data })
}

impl File<'_> {
    /// Returns an entry of the metadata.
    pub(crate) fn metadata(&self, name: &str) -> Option<&str> {
        self.header.get("__metadata__")?.get(name)?.as_str()
    }

    /// Lists the tensors of the file, in the order of their values, with the default rules of their types:
    /// floating-point numbers are averaged, other numbers keep their first values.
    ///
    /// # Errors
    /// Returns one line that names the tensor.
    pub(crate) fn tensors(&self) -> Result<Vec<TensorSpec>, String> {
        let mut found = Vec::new();
        for (name, place) in self.header.iter().filter(|(name, _)| *name != "__metadata__") {
            let mut table = Map::new();
            table.insert("name".into(), json!(name));
            table.insert("dtype".into(), place["dtype"].clone());
            table.insert("shape".into(), place["shape"].clone());
            table.insert("rule".into(), json!("average"));
            let mut tensor = TensorSpec::read(&table)?;
            let bytes = self.bytes(&tensor, place)?;
            if tensor.dtype.is_float() {
                tensor.range = usual_range(&tensor, bytes);
            } else {
                tensor.rule = Rule::First;
            }
            found.push((place["data_offsets"][0].as_u64(), tensor));
        }
        found.sort_by_key(|found| found.0);
        Ok(found.into_iter().map(|(_, tensor)| tensor).collect())
    }

    fn bytes(&self, tensor: &TensorSpec, place: &Value) -> Result<&[u8], String> {
        let offset = |at: usize| place["data_offsets"][at].as_u64().and_then(|at| usize::try_from(at).ok());
        let range = offset(0).zip(offset(1)).and_then(|(from, to)| self.data.get(from..to));
        let bytes = range.filter(|bytes| bytes.len() == tensor.bytes());
        bytes.ok_or_else(|| format!("is cut off in {}", tensor.name))
    }

    /// Reads the values of these tensors, which may be in any order in the file. The file must have no other
    /// tensors.
    ///
    /// # Errors
    /// Returns one line that names the first tensor that is missing, superfluous or of another type or
    /// shape, or the first number that is not finite.
    pub(crate) fn values(&self, tensors: &[TensorSpec]) -> Result<Values, String> {
        let count = tensors.iter().filter(|each| each.is_averaged()).map(TensorSpec::count).sum();
        let mut values = Values { averaged: Vec::with_capacity(count), others: Vec::new() };
        for tensor in tensors {
            let Some(place) = self.header.get(&tensor.name) else {
                return Err(format!("has no tensor {}", tensor.name));
            };
            if place["dtype"] != tensor.dtype.word() || place["shape"] != json!(tensor.shape) {
                let dtype = place["dtype"].as_str().unwrap_or("no type");
                let (name, expected) = (&tensor.name, tensor.kind());
                return Err(format!("has {name} as {dtype} {}, expected {expected}", place["shape"]));
            }
            let bytes = self.bytes(tensor, place)?;
            if !tensor.is_averaged() {
                values.others.push(Bytes::copy_from_slice(bytes));
                continue;
            }
            let start = values.averaged.len();
            tensor.dtype.read(bytes, &mut values.averaged);
            if let Some(at) = values.averaged[start..].iter().position(|number| !number.is_finite()) {
                let place = place_of(tensors, start + at);
                return Err(format!("has {} as {place}", values.averaged[start + at]));
            }
        }
        let known: BTreeMap<_, _> = tensors.iter().map(|each| (&*each.name, ())).collect();
        let other = self.header.keys().find(|name| *name != "__metadata__" && !known.contains_key(&***name));
        match other {
            Some(name) => Err(format!("has a tensor {name:?} that the model does not have")),
            None => Ok(values),
        }
    }
}

/// Returns a range for a tensor with these first values. It leaves room for changes by training.
#[expect(clippy::cast_possible_truncation, reason = "a small power")]
fn usual_range(tensor: &TensorSpec, bytes: &[u8]) -> f64 {
    let mut numbers = Vec::new();
    tensor.dtype.read(bytes, &mut numbers);
    let most = numbers.iter().map(|number| f64::from(number.abs())).fold(0.0, f64::max);
    // Statistics of batches depend on the data, so their first values do not show how large they become.
    let least = match tensor.name.rsplit('.').next() {
        Some("running_var") => 65_536.0,
        Some("running_mean") => 1024.0,
        _ => USUAL_RANGE,
    };
    let mut powers = (least.log2() as i32..=RANGES.1).map(|power| 2f64.powi(power));
    powers.find(|&range| range >= 4.0 * most).unwrap_or(2f64.powi(RANGES.1))
}

fn place_of(tensors: &[TensorSpec], at: usize) -> String {
    place(tensors, at).map_or_else(|| format!("number {at}"), |(place, _)| place)
}
