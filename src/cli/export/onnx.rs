//! A network as a graph of ONNX (<https://onnx.ai/onnx/repo-docs/IR.html>, IR version 8, operators of version
//! 17): scaling, layers and the class. Only the few messages of `onnx.proto` that such a graph needs are
//! written, in the wire format of Protocol Buffers.

use flyswarm_data::scaling::{Scaler, Scaling};
use flyswarm_learn::learner::{Architecture, Classifier};
use serde_json::json;

/// Types of numbers, `TensorProto.DataType`.
const FLOAT: u64 = 1;
const INT64: u64 = 7;
const DOUBLE: u64 = 11;
/// `AttributeProto.AttributeType`.
const INT: u64 = 2;
const INTS: u64 = 7;
/// What a length is at least, so that rows of zeros stay so.
const TINY: f64 = 1e-300;

/// A message: its fields one after another.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value > 0x7f {
            self.0.push(value as u8 & 0x7f | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn number(mut self, field: u64, value: u64) -> Self {
        self.varint(field << 3);
        self.varint(value);
        self
    }

    fn bytes(mut self, field: u64, bytes: &[u8]) -> Self {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
        self
    }

    fn text(self, field: u64, text: &str) -> Self {
        self.bytes(field, text.as_bytes())
    }

    fn message(self, field: u64, message: &Self) -> Self {
        self.bytes(field, &message.0)
    }
}

/// A whole number or a list of them.
enum Attribute<'a> {
    One(&'a str, u64),
    List(&'a str, &'a [u64]),
}

/// A graph that is written node after node; the last result is the next one's first input.
struct Graph {
    message: Message,
    nodes: usize,
    last: String,
}

impl Graph {
    /// Adds a constant and gives its name.
    fn constant(&mut self, name: &str, kind: u64, shape: &[usize], raw: &[u8]) -> String {
        let dims = shape.iter().fold(Message::default(), |made, &size| made.number(1, size as u64));
        let tensor = dims.number(2, kind).text(8, name).bytes(9, raw);
        self.message = std::mem::take(&mut self.message).message(5, &tensor);
        name.to_owned()
    }

    fn doubles(&mut self, name: &str, shape: &[usize], values: impl IntoIterator<Item = f64>) -> String {
        let raw: Vec<u8> = values.into_iter().flat_map(f64::to_le_bytes).collect();
        self.constant(name, DOUBLE, shape, &raw)
    }

    fn whole(&mut self, name: &str, values: &[i64]) -> String {
        let raw: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.constant(name, INT64, &[values.len()], &raw)
    }

    /// Adds a node whose result has this name.
    fn named(&mut self, operator: &str, inputs: &[&str], output: &str, attributes: &[Attribute<'_>]) {
        let node = inputs.iter().fold(Message::default(), |node, input| node.text(1, input));
        let node = node.text(2, output).text(3, &format!("{operator}_{}", self.nodes)).text(4, operator);
        let node = attributes.iter().fold(node, |node, attribute| {
            let made = Message::default();
            let made = match attribute {
                Attribute::One(name, value) => made.text(1, name).number(3, *value).number(20, INT),
                Attribute::List(name, values) => {
                    let made = values.iter().fold(made.text(1, name), |made, &value| made.number(8, value));
                    made.number(20, INTS)
                }
            };
            node.message(5, &made)
        });
        self.message = std::mem::take(&mut self.message).message(1, &node);
        self.nodes += 1;
        output.clone_into(&mut self.last);
    }

    /// Adds a node over the last result and `more`.
    fn then(&mut self, operator: &str, more: &[&str], attributes: &[Attribute<'_>]) {
        let first = self.last.clone();
        let inputs: Vec<&str> = std::iter::once(&*first).chain(more.iter().copied()).collect();
        let output = format!("{}_{}", operator.to_lowercase(), self.nodes);
        self.named(operator, &inputs, &output, attributes);
    }

    /// Divides each row by its length.
    fn unit(&mut self) {
        let rows = self.last.clone();
        let (axis, tiny) = (self.whole("axis", &[1]), self.doubles("tiny", &[1], [TINY]));
        self.then("Mul", &[&rows], &[]);
        self.then("ReduceSum", &[&axis], &[Attribute::One("keepdims", 1)]);
        self.then("Sqrt", &[], &[]);
        self.then("Max", &[&tiny], &[]);
        let length = self.last.clone();
        self.last = rows;
        self.then("Div", &[&length], &[]);
    }

    /// Rows as the network takes them, in binary64 as the program scales, then binary32.
    fn scale(&mut self, scaler: &Scaler) {
        let d = scaler.features();
        if *scaler.scaling() == Scaling::None {
            return;
        }
        self.then("Cast", &[], &[Attribute::One("to", DOUBLE)]);
        if !scaler.means().is_empty() {
            let means = self.doubles("means", &[1, d], scaler.means().iter().copied());
            self.then("Sub", &[&means], &[]);
        }
        if !scaler.deviations().is_empty() {
            // Divided by infinity a constant feature becomes 0.
            let spread = |&each: &f64| if each == 0.0 { f64::INFINITY } else { each };
            let deviations = self.doubles("deviations", &[1, d], scaler.deviations().iter().map(spread));
            self.then("Div", &[&deviations], &[]);
        }
        match scaler.scaling() {
            Scaling::None => {}
            Scaling::UnitNorm | Scaling::Center | Scaling::Standard => self.unit(),
            Scaling::Range { lo, hi } => {
                let width = lo.iter().zip(hi).map(|(&lo, &hi)| f64::from(hi) - f64::from(lo));
                let width = self.doubles("width", &[1, hi.len()], width);
                let low = self.doubles("low", &[1, lo.len()], lo.iter().map(|&lo| f64::from(lo)));
                let (zero, one) = (self.doubles("zero", &[], [0.0]), self.doubles("one", &[], [1.0]));
                self.then("Sub", &[&low], &[]);
                self.then("Div", &[&width], &[]);
                self.then("Clip", &[&zero, &one], &[]);
            }
            Scaling::SoftBins(bins) => self.bins(d, usize::from(*bins)),
        }
        self.then("Cast", &[], &[Attribute::One("to", FLOAT)]);
    }

    /// u = 1/2 + z / (2 sqrt(z^2 + 2)) spread over bins, as the program does.
    fn bins(&mut self, features: usize, bins: usize) {
        let z = self.last.clone();
        let constants =
            [("two", 2.0), ("half", 0.5), ("one", 1.0), ("zero", 0.0), ("last", bins as f64 - 1.0)];
        let [two, half, one, zero, last] = constants.map(|(name, value)| self.doubles(name, &[1], [value]));
        let centres = self.doubles("centres", &[1, 1, bins], (0..bins).map(|bin| bin as f64));
        let apart = self.whole("apart", &[-1, features as i64, 1]);
        let joined = self.whole("joined", &[-1, (features * bins) as i64]);
        self.then("Mul", &[&z], &[]);
        self.then("Add", &[&two], &[]);
        self.then("Sqrt", &[], &[]);
        self.then("Mul", &[&two], &[]);
        let below = self.last.clone();
        self.last = z;
        for (operator, other) in [("Div", &below), ("Add", &half), ("Mul", &last), ("Reshape", &apart)] {
            self.then(operator, &[other], &[]);
        }
        self.then("Sub", &[&centres], &[]);
        self.then("Abs", &[], &[]);
        let far = self.last.clone();
        self.last = one;
        for (operator, other) in [("Sub", &far), ("Max", &zero), ("Reshape", &joined)] {
            self.then(operator, &[other], &[]);
        }
    }

    /// The layers: a convolution's image is channels, height and width.
    fn layers(&mut self, network: &Classifier) {
        let tensors = network.network().tensors();
        for tensor in &tensors {
            let weights = &network.weights()[tensor.start..tensor.start + tensor.len()];
            let raw: Vec<u8> = weights.iter().flat_map(|weight| weight.to_le_bytes()).collect();
            self.constant(&tensor.name, FLOAT, &tensor.shape, &raw);
        }
        if let Architecture::Convolutional { image: [channels, height, width], .. } =
            *network.network().architecture()
        {
            let shape = [-1, channels.into(), height.into(), width.into()];
            let shape = self.whole("image", &shape);
            self.then("Reshape", &[&shape], &[]);
        }
        let last = tensors.len() / 2;
        let mut flat = !matches!(network.network().architecture(), Architecture::Convolutional { .. });
        for (number, pair) in (1..).zip(tensors.as_chunks::<2>().0) {
            let [matrix, bias] = [&*pair[0].name, &*pair[1].name];
            if pair[0].shape.len() == 4 {
                let around = [Attribute::List("kernel_shape", &[3, 3]), Attribute::List("pads", &[1; 4])];
                self.then("Conv", &[matrix, bias], &around);
                self.then("Relu", &[], &[]);
                let pool = [Attribute::List("kernel_shape", &[2, 2]), Attribute::List("strides", &[2, 2])];
                self.then("MaxPool", &[], &pool);
                continue;
            }
            if !std::mem::replace(&mut flat, true) {
                self.then("Flatten", &[], &[Attribute::One("axis", 1)]);
            }
            self.then("Gemm", &[matrix, bias], &[Attribute::One("transB", 1)]);
            if number < last {
                self.then("Relu", &[], &[]);
            }
        }
    }
}

/// An input or output: rows x `columns`, or without columns a number a row.
fn value(name: &str, kind: u64, columns: Option<usize>) -> Message {
    let mut shape = Message::default().message(1, &Message::default().text(2, "rows"));
    if let Some(columns) = columns {
        shape = shape.message(1, &Message::default().number(1, columns as u64));
    }
    let tensor = Message::default().number(1, kind).message(2, &shape);
    Message::default().text(1, name).message(2, &Message::default().message(1, &tensor))
}

/// What the graph takes, in a sentence.
pub(super) fn expects(network: &Classifier) -> String {
    let features = network.scaler().features();
    let columns = match network.preparation() {
        Some(_) => {
            ", the numbers that the described columns become (metadata: columns); the graph does not \
                    prepare a table"
        }
        None => ", unscaled: scaling is part of the graph",
    };
    format!("input \"rows\": float32, rows x {features}{columns}")
}

/// The bytes of the file.
pub(super) fn encode(network: &Classifier) -> Vec<u8> {
    let mut graph = Graph { message: Message::default(), nodes: 0, last: "rows".into() };
    graph.scale(network.scaler());
    graph.layers(network);
    let scores = graph.last.clone();
    graph.named("Softmax", &[&scores], "probabilities", &[Attribute::One("axis", 1)]);
    let argmax = [Attribute::One("axis", 1), Attribute::One("keepdims", 0)];
    graph.named("ArgMax", &[&scores], "class", &argmax);
    let (features, classes) = (network.scaler().features(), network.classes().len());
    let graph = graph
        .message
        .text(2, "network")
        .message(11, &value("rows", FLOAT, Some(features)))
        .message(12, &value("probabilities", FLOAT, Some(classes)))
        .message(12, &value("class", INT64, None));
    let metadata = [
        ("classes", json!(network.classes()).to_string()),
        ("columns", json!(network.columns()).to_string()),
        ("digest", hex::encode(network.digest())),
        ("session", network.session().0.to_owned()),
        ("session_id", hex::encode(network.session().1)),
    ];
    let model = Message::default()
        .number(1, 8)
        .text(2, "flyswarm")
        .text(3, env!("CARGO_PKG_VERSION"))
        .text(6, &expects(network))
        .message(7, &graph)
        .message(8, &Message::default().text(1, "").number(2, 17));
    let entry = |model: Message, (name, text): &(&str, String)| {
        model.message(14, &Message::default().text(1, name).text(2, text))
    };
    metadata.iter().fold(model, entry).0
}

#[cfg(test)]
mod tests;
