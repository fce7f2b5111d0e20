//! Checks of the network file whose weights a session starts from (spec, section "Task fedavg",
//! *Network*).

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use flyswarm_data::prepare::{ColumnSpec, Kind, TableSchema};
use flyswarm_learn::learner::{Architecture, Classifier};

use super::own;
use super::tensors::{self, Values};

use crate::session::Session;
use crate::tasks::FedavgSpec;

/// Longest file that is read, in bytes.
const MAX_FILE: u64 = 1 << 30;
/// Error text if the first weights are missing.
pub(super) const MISSING: &str = "fedavg.initial: the session starts from a network file, and none was given";

/// Reads the weights of the network that the session starts from, if the session names a network. The network
/// file must be in the folder of the session file.
///
/// # Errors
/// Returns one line for the user.
pub(super) fn beside(
    file: &Path,
    session: &Session,
    spec: &FedavgSpec,
) -> Result<Option<Arc<Values>>, String> {
    let Some(wanted) = &spec.initial else { return Ok(None) };
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let named = |ending: &std::ffi::OsStr| ending == "safetensors" || ending == "round";
        if !path.extension().is_some_and(named) {
            continue;
        }
        let mut file = Vec::new();
        let read = std::fs::File::open(&path).and_then(|open| open.take(MAX_FILE).read_to_end(&mut file));
        if read.is_ok() && own::digest(&file) == *wanted {
            let values = read_file(session, spec, &file).map(Some);
            return values.map_err(|text| format!("{}: {text}", path.display()));
        }
    }
    Err(format!(
        "{}: the session starts from a network (fedavg.initial); put its file, NAME.safetensors, next to \
         the session file: no file in {} has the digest {}",
        file.display(),
        folder.display(),
        hex::encode(wanted)
    ))
}

/// Checks a file that the session may start from, and returns its weights.
///
/// # Errors
/// Returns one line, without the name of the file.
pub(crate) fn read_file(session: &Session, spec: &FedavgSpec, file: &[u8]) -> Result<Arc<Values>, String> {
    if !spec.is_own() {
        let network = Classifier::decode(file).map_err(|error| error.to_string())?;
        return weights(session, spec, &network);
    }
    let (found, wanted) = (own::digest(file), spec.initial.unwrap_or_default());
    if found != wanted {
        let (found, wanted) = (hex::encode(found), hex::encode(wanted));
        return Err(format!("fedavg.initial is {wanted}, the file has {found}"));
    }
    Ok(Arc::new(tensors::open(file)?.values(&spec.tensors)?))
}

/// Checks a network that the session may start from, and returns its weights.
///
/// # Errors
/// Returns one line that names the first field of the session file that differs from the network.
pub(crate) fn weights(
    session: &Session,
    spec: &FedavgSpec,
    network: &Classifier,
) -> Result<Arc<Values>, String> {
    let Some(digest) = spec.initial else {
        return Err("the session file has no fedavg.initial: its first weights are drawn".into());
    };
    let differs = |field: &str, ours: &str, theirs: &str| {
        Err(format!("{field} is {ours}, the network file has {theirs}"))
    };
    if network.digest() != digest {
        return differs("fedavg.initial", &hex::encode(digest), &hex::encode(network.digest()));
    }
    let shapes = parts(&spec.network).into_iter().zip(parts(network.network().architecture()));
    for ((field, ours), (_, theirs)) in shapes {
        if ours != theirs {
            return differs(field, &ours, &theirs);
        }
    }
    let (data, scaler) = (&session.data, network.scaler());
    if data.features as usize != scaler.features() {
        return differs("data.features", &data.features.to_string(), &scaler.features().to_string());
    }
    if data.scaling.of_rows() != *scaler.scaling() {
        let (ours, theirs) = (&data.scaling, scaler.scaling());
        return differs("data.scaling", &format!("{ours:?}"), &format!("{theirs:?}"));
    }
    for (field, ours, theirs) in [
        ("data.classes", &data.classes, network.classes()),
        ("data.columns", &data.columns, network.columns()),
    ] {
        let different = ours.iter().zip(theirs).find(|(ours, theirs)| ours != theirs);
        if let Some((ours, theirs)) = different {
            return differs(field, &format!("{ours:?}"), &format!("{theirs:?} in that place"));
        }
        if ours.len() != theirs.len() {
            let (ours, theirs) = (format!("{} names", ours.len()), theirs.len().to_string());
            return differs(field, &ours, &theirs);
        }
    }
    let (ours, theirs) = (data.preparation.as_deref(), network.preparation());
    if ours.is_some() != theirs.is_some() {
        let said = |table: Option<&TableSchema>| if table.is_some() { "given" } else { "absent" };
        return differs("[table]", said(ours), said(theirs));
    }
    // The descriptions of the columns are compared too, because columns of the same name may become different
    // numbers. For example, the levels of an ordinal may have another order.
    let described = |table: Option<&TableSchema>| table.map_or(Vec::new(), |table| table.columns.clone());
    let used = |columns: Vec<ColumnSpec>| columns.into_iter().filter(|column| column.kind != Kind::Ignored);
    for (ours, theirs) in used(described(ours)).zip(used(described(theirs))) {
        if ours.kind != theirs.kind {
            let field = format!("table.column {:?}", ours.name);
            return differs(&field, &format!("{:?}", ours.kind), &format!("{:?}", theirs.kind));
        }
    }
    Ok(Arc::new(Values { averaged: network.weights().to_vec(), others: Vec::new() }))
}

/// Returns the fields of the session file that describe this network, with their values.
fn parts(architecture: &Architecture) -> [(&'static str, String); 4] {
    let (image, filters, hidden) = match architecture {
        Architecture::Logistic | Architecture::Own => (None, None, Vec::new()),
        Architecture::Perceptron { hidden } => (None, None, hidden.clone()),
        Architecture::Convolutional { image, filters, hidden } => (Some(image), Some(filters), vec![*hidden]),
    };
    [
        ("fedavg.network", architecture.name().to_owned()),
        ("fedavg.image", format!("{:?}", image.map_or(&[][..], |image| image))),
        ("fedavg.filters", format!("{:?}", filters.map_or(&[][..], |filters| filters))),
        ("fedavg.hidden", format!("{hidden:?}")),
    ]
}
