//! Writes a network as an ONNX graph (<https://onnx.ai/onnx/repo-docs/IR.html>, IR version 8, operators of
//! version 17) with scaling, layers and the class. This module has only the messages of `onnx.proto` that
//! such a graph needs.

use flyswarm_data::scaling::{Scaler, Scaling};
use flyswarm_learn::learner::{Architecture, Classifier};
use prost::Message as _;
use serde_json::json;

/// Values of `TensorProto.DataType`.
const FLOAT: i32 = 1;
const INT64: i32 = 7;
const DOUBLE: i32 = 11;
/// Values of `AttributeProto.AttributeType`.
const INT: i32 = 2;
const INTS: i32 = 7;
/// A row is divided by at least this length, so that a row of zeros stays a row of zeros.
const TINY: f64 = 1e-300;

/// Messages of `onnx.proto` with the fields that are used here.
macro_rules! messages {
    ($($name:ident { $(#[$shape:meta] $field:ident: $kind:ty,)* })*) => {
        $(#[derive(Clone, PartialEq, prost::Message)]
        struct $name { $(#[$shape] $field: $kind,)* })*
    };
}

messages! {
    ModelProto {
        #[prost(int64, tag = 1)] ir_version: i64, #[prost(string, tag = 2)] producer_name: String,
        #[prost(string, tag = 3)] producer_version: String, #[prost(string, tag = 6)] doc_string: String,
        #[prost(message, tag = 7)] graph: Option<GraphProto>,
        #[prost(message, repeated, tag = 8)] opset_import: Vec<OperatorSet>,
        #[prost(message, repeated, tag = 14)] metadata_props: Vec<Entry>,
    }
    OperatorSet {
        #[prost(string, optional, tag = 1)] domain: Option<String>, #[prost(int64, tag = 2)] version: i64,
    }
    Entry { #[prost(string, tag = 1)] key: String, #[prost(string, tag = 2)] value: String, }
    GraphProto {
        #[prost(message, repeated, tag = 1)] node: Vec<NodeProto>, #[prost(string, tag = 2)] name: String,
        #[prost(message, repeated, tag = 5)] initializer: Vec<TensorProto>,
        #[prost(message, repeated, tag = 11)] input: Vec<ValueInfo>,
        #[prost(message, repeated, tag = 12)] output: Vec<ValueInfo>,
    }
    NodeProto {
        #[prost(string, repeated, tag = 1)] input: Vec<String>,
        #[prost(string, repeated, tag = 2)] output: Vec<String>, #[prost(string, tag = 4)] op_type: String,
        #[prost(message, repeated, tag = 5)] attribute: Vec<Attribute>,
    }
    Attribute {
        #[prost(string, tag = 1)] name: String, #[prost(int64, optional, tag = 3)] i: Option<i64>,
        #[prost(int64, repeated, packed = false, tag = 8)] ints: Vec<i64>,
        #[prost(int32, tag = 20)] kind: i32,
    }
    TensorProto {
        #[prost(int64, repeated, packed = false, tag = 1)] dims: Vec<i64>,
        #[prost(int32, tag = 2)] data_type: i32, #[prost(string, tag = 8)] name: String,
        #[prost(bytes = "vec", tag = 9)] raw_data: Vec<u8>,
    }
    ValueInfo { #[prost(string, tag = 1)] name: String, #[prost(message, tag = 2)] kind: Option<TypeProto>, }
    TypeProto { #[prost(message, tag = 1)] tensor: Option<TensorType>, }
    TensorType { #[prost(int32, tag = 1)] elem_type: i32, #[prost(message, tag = 2)] shape: Option<Shape>, }
    Shape { #[prost(message, repeated, tag = 1)] dim: Vec<Dimension>, }
    Dimension {
        #[prost(int64, optional, tag = 1)] value: Option<i64>,
        #[prost(string, optional, tag = 2)] param: Option<String>,
    }
}

fn int(name: &str, value: i64) -> Attribute {
    Attribute { name: name.into(), i: Some(value), kind: INT, ..Attribute::default() }
}

fn ints(name: &str, values: &[i64]) -> Attribute {
    Attribute { name: name.into(), ints: values.into(), kind: INTS, ..Attribute::default() }
}

/// A graph that is built node by node. The last result is the first input of the next node.
#[derive(Default)]
struct Graph {
    message: GraphProto,
    last: String,
}

impl Graph {
    /// Adds a constant and returns its name.
    fn constant(&mut self, name: &str, data_type: i32, shape: &[usize], raw_data: Vec<u8>) -> String {
        let dims = shape.iter().map(|&size| size as i64).collect();
        self.message.initializer.push(TensorProto { dims, data_type, name: name.into(), raw_data });
        name.into()
    }

    fn doubles(&mut self, name: &str, shape: &[usize], values: impl IntoIterator<Item = f64>) -> String {
        self.constant(name, DOUBLE, shape, values.into_iter().flat_map(f64::to_le_bytes).collect())
    }

    fn whole(&mut self, name: &str, values: &[i64]) -> String {
        let raw = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.constant(name, INT64, &[values.len()], raw)
    }

    /// Adds a node whose result has this name.
    fn named(&mut self, operator: &str, inputs: &[&str], output: &str, attributes: &[Attribute]) {
        let input = inputs.iter().map(|&input| input.to_owned()).collect();
        let (output_names, attribute) = (vec![output.to_owned()], attributes.to_vec());
        let node = NodeProto { input, output: output_names, op_type: operator.to_owned(), attribute };
        self.message.node.push(node);
        output.clone_into(&mut self.last);
    }

    /// Adds a node with the inputs last result and `more`.
    fn then(&mut self, operator: &str, more: &[&str], attributes: &[Attribute]) {
        let first = self.last.clone();
        let inputs: Vec<&str> = std::iter::once(&*first).chain(more.iter().copied()).collect();
        let output = format!("{}_{}", operator.to_lowercase(), self.message.node.len());
        self.named(operator, &inputs, &output, attributes);
    }

    /// Divides each row by its length.
    fn unit(&mut self) {
        let rows = self.last.clone();
        let (axis, tiny) = (self.whole("axis", &[1]), self.doubles("tiny", &[1], [TINY]));
        self.then("Mul", &[&rows], &[]);
        self.then("ReduceSum", &[&axis], &[int("keepdims", 1)]);
        self.then("Sqrt", &[], &[]);
        self.then("Max", &[&tiny], &[]);
        let length = self.last.clone();
        self.last = rows;
        self.then("Div", &[&length], &[]);
    }

    /// Adds the scaling: as in the program, rows are scaled in binary64 and then converted to binary32 for
    /// the network.
    fn scale(&mut self, scaler: &Scaler) {
        let d = scaler.features();
        if *scaler.scaling() == Scaling::None {
            return;
        }
        self.then("Cast", &[], &[int("to", DOUBLE.into())]);
        if !scaler.means().is_empty() {
            let means = self.doubles("means", &[1, d], scaler.means().iter().copied());
            self.then("Sub", &[&means], &[]);
        }
        if !scaler.deviations().is_empty() {
            // A constant feature is divided by infinity and becomes 0.
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
        self.then("Cast", &[], &[int("to", FLOAT.into())]);
    }

    /// Spreads u = 1/2 + z / (2 sqrt(z^2 + 2)) over bins, as the program does.
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

    /// Adds the layers. The shape of a convolution's image is channels, height and width.
    fn layers(&mut self, network: &Classifier) {
        let tensors = network.network().tensors();
        for tensor in &tensors {
            let weights = &network.weights()[tensor.start..tensor.start + tensor.len()];
            let raw = weights.iter().flat_map(|weight| weight.to_le_bytes()).collect();
            self.constant(&tensor.name, FLOAT, &tensor.shape, raw);
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
                let around = [ints("kernel_shape", &[3, 3]), ints("pads", &[1; 4])];
                self.then("Conv", &[matrix, bias], &around);
                self.then("Relu", &[], &[]);
                let pool = [ints("kernel_shape", &[2, 2]), ints("strides", &[2, 2])];
                self.then("MaxPool", &[], &pool);
                continue;
            }
            if !std::mem::replace(&mut flat, true) {
                self.then("Flatten", &[], &[int("axis", 1)]);
            }
            self.then("Gemm", &[matrix, bias], &[int("transB", 1)]);
            if number < last {
                self.then("Relu", &[], &[]);
            }
        }
    }
}

/// Describes an input or output. Its shape is rows x `columns` or, if `columns` is `None`, one number per
/// row.
fn value(name: &str, elem_type: i32, columns: Option<usize>) -> ValueInfo {
    let mut dim = vec![Dimension { value: None, param: Some("rows".into()) }];
    dim.extend(columns.map(|columns| Dimension { value: Some(columns as i64), param: None }));
    let tensor = TensorType { elem_type, shape: Some(Shape { dim }) };
    ValueInfo { name: name.into(), kind: Some(TypeProto { tensor: Some(tensor) }) }
}

/// Describes the input of the graph in a sentence.
pub(crate) fn expects(network: &Classifier) -> String {
    let features = network.scaler().features();
    let columns = match network.preparation() {
        Some(_) => {
            ", made from the table as the metadata entry `columns` describes; the graph itself prepares no table"
        }
        None => ", unscaled: scaling is part of the graph",
    };
    format!("input \"rows\": float32, rows x {features}{columns}")
}

/// Returns the bytes of the file.
pub(crate) fn encode(network: &Classifier) -> Vec<u8> {
    let mut graph = Graph { last: "rows".into(), ..Graph::default() };
    graph.scale(network.scaler());
    graph.layers(network);
    let scores = graph.last.clone();
    graph.named("Softmax", &[&scores], "probabilities", &[int("axis", 1)]);
    graph.named("ArgMax", &[&scores], "class", &[int("axis", 1), int("keepdims", 0)]);
    let (features, classes) = (network.scaler().features(), network.classes().len());
    let graph = GraphProto {
        name: "network".into(),
        input: vec![value("rows", FLOAT, Some(features))],
        output: vec![value("probabilities", FLOAT, Some(classes)), value("class", INT64, None)],
        ..graph.message
    };
    let metadata = [
        ("classes", json!(network.classes()).to_string()),
        ("columns", json!(network.columns()).to_string()),
        ("digest", hex::encode(network.digest())),
        ("session", network.session().0.to_owned()),
        ("session_id", hex::encode(network.session().1)),
    ];
    let model = ModelProto {
        ir_version: 8,
        producer_name: "flyswarm".into(),
        producer_version: env!("CARGO_PKG_VERSION").into(),
        doc_string: expects(network),
        graph: Some(graph),
        opset_import: vec![OperatorSet { domain: Some(String::new()), version: 17 }],
        metadata_props: metadata.map(|(key, value)| Entry { key: key.into(), value }).into(),
    };
    model.encode_to_vec()
}
