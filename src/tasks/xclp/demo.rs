//! The demo of the task `xclp`: peers label their rows together, a few of which have a label.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::crypto::stream::{Stream, derive};
use crate::data::Dataset;
use crate::data::deal::{self, shuffle};
use crate::data::digits::digits;
use crate::model::neighbours::Neighbours;
use crate::session::{Privacy, Scaling, Session, TaskSpec};
use crate::tasks::XclpSpec;
use crate::tasks::demo::{Ended, HOLDERS, Part, Scene, Verdict, Wish, line, percent};
use crate::tasks::xclp::{RowLabel, Xclp};

/// Labels of each class that are known, over all peers.
const LABELS: usize = 5;

/// Deals the digits by class, with a few labels of each class.
pub(crate) fn scene(wish: &mut Wish) -> Result<Scene, String> {
    let data = digits();
    let dealt =
        deal::by_classes(data.labels(), data.classes().len(), wish.peers.unwrap_or(5), HOLDERS, &wish.seed);
    let known = known_labels(&data, &wish.seed);
    let spec = XclpSpec { hamming: wish.hamming.take().unwrap_or_default(), ..XclpSpec::default() };
    Ok(Scene {
        task: TaskSpec::from(spec.clone()),
        scaling: Scaling::None,
        privacy: Privacy::default(),
        parts: dealt.map_err(line)?.iter().map(|rows| partly(&data, rows, &known)).collect(),
        judge: Box::new(move |session, ended| judge(&spec, session, ended)),
    })
}

/// Some rows, with the labels that are known.
pub(crate) fn partly(data: &Dataset, rows: &[usize], known: &[bool]) -> Part {
    let labels = rows.iter().map(|&row| known[row].then(|| data.labels()[row])).collect();
    Part { rows: data.subset(rows), labels }
}

/// [`LABELS`] rows of each class, drawn from all.
pub(crate) fn known_labels(data: &Dataset, seed: &[u8]) -> Vec<bool> {
    let mut rows: Vec<usize> = (0..data.rows()).collect();
    shuffle(&mut rows, &mut Stream::new(seed, "demo/labels", &[]));
    let mut left = vec![LABELS; data.classes().len()];
    let mut known = vec![false; data.rows()];
    for row in rows {
        let left = &mut left[usize::from(data.labels()[row])];
        known[row] = *left > 0;
        *left = left.saturating_sub(1);
    }
    known
}

/// Compares every peer's labels with the truth, with those of the pooled rows, and with each peer alone.
fn judge(spec: &XclpSpec, session: &Session, ended: &[Ended]) -> Result<Verdict, String> {
    let coin = ended.first().and_then(|ended| ended.coin).ok_or("the coin was not opened")?;
    let planes = *derive(&coin, "planes", &session.id().0);
    let pooled = |tasks: &[&Xclp]| Xclp::pooled(tasks, &planes, None);
    // In the order of the session's peers.
    let mut owners: Vec<&Ended> = ended.iter().collect();
    owners.sort_by_key(|ended| ended.peer);
    let task = |own: &&Ended| {
        let (rows, labels) = (Arc::new(own.part.rows.clone()), own.part.labels.clone());
        Xclp::new(session.clone(), spec.clone(), own.peer, rows, labels, &own.secret)
    };
    let tasks: Vec<Xclp> = owners.iter().map(task).collect::<Result<_, _>>()?;
    let (centralised, edges) = pooled(&tasks.iter().collect::<Vec<_>>())?;
    let labels = |said: &[RowLabel]| said.iter().map(|said| said.label).collect::<Vec<_>>();
    let (mut equal, mut lines) = (true, Vec::new());
    let (mut all, mut central, mut alone) = (Count::default(), Count::default(), Count::default());
    for ((own, task), said) in owners.iter().zip(&tasks).zip(&centralised) {
        let found = read(own, &session.data.classes)?;
        equal &= found == labels(said);
        let by_itself = pooled(&[task])?.0;
        let counts = [
            count(own, &found),
            count(own, &labels(said)),
            count(own, &labels(by_itself.first().map_or(&[], Vec::as_slice))),
        ];
        all.add(counts[0]);
        central.add(counts[1]);
        alone.add(counts[2]);
        lines.push((own.peer, counts[0].share(), counts[2].share()));
    }
    let known = |own: &Ended| own.part.labels.iter().flatten().count();
    let (mut peers, mut cells) = (Vec::new(), Vec::new());
    for own in ended {
        let Some((_, accuracy, alone)) = lines.iter().find(|(peer, ..)| *peer == own.peer) else { continue };
        peers.push(json!({"labels": known(own), "accuracy": accuracy, "alone": alone}));
        cells.push(vec![known(own).to_string(), percent(*accuracy), percent(*alone)]);
    }
    let nearest = nearest(session, ended)?.share();
    let points: usize = ended.iter().map(|own| own.part.rows.rows()).sum();
    let labelled: usize = ended.iter().map(known).sum();
    let roles = ended.first().map_or(Value::Null, |ended| ended.receipt["roles"].clone());
    let computing: Vec<_> =
        roles["computing"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let note = |(name, part): (&str, f64)| format!("  {name:<42} {:>6}", percent(part));
    let mut notes = vec![format!("Of the {points} rows {labelled} have a label; accuracy on the others:")];
    notes.extend(
        [
            ("together (XCLP)", all.share()),
            ("centralised on the pooled rows", central.share()),
            ("label propagation at each peer alone", alone.share()),
            ("1NN to all labels, pooled", nearest),
        ]
        .map(note),
    );
    notes.push(format!(
        "\n{edges} edges, which nobody saw; {} computed on shares of them.",
        computing.join(", ")
    ));
    Ok(Verdict {
        equal,
        says: match equal {
            true => "Every label is the one that the pooled rows give.".into(),
            false => "the peers' labels are not all those of the pooled rows".into(),
        },
        members: None,
        fields: json!({
            "accuracy": all.share(),
            "centralised": {"accuracy": central.share()},
            "labels_equal_centralised": equal,
            "alone": {"accuracy": alone.share()},
            "nearest": {"accuracy": nearest},
            "points": points,
            "labels": labelled,
            "edges": edges,
            "roles": roles,
        }),
        peers,
        heads: &["labels", "accuracy", "alone"],
        cells,
        notes,
    })
}

/// One nearest neighbour among the rows with labels of all peers.
fn nearest(session: &Session, ended: &[Ended]) -> Result<Count, String> {
    let (mut values, mut labels) = (Vec::new(), Vec::new());
    for part in ended.iter().map(|own| &own.part) {
        for (row, label) in part.labels.iter().enumerate() {
            if let Some(label) = label {
                values.extend(part.rows.row(row));
                labels.push(*label);
            }
        }
    }
    let features = session.data.features as usize;
    let labelled = Dataset::new(features, values, labels, session.data.classes.clone()).map_err(line)?;
    let neighbours = Neighbours::new(&labelled).ok_or("no labels")?;
    let mut sum = Count::default();
    for own in ended {
        let found: Vec<_> = neighbours.predict(1, &own.part.rows).into_iter().map(Some).collect();
        sum.add(count(own, &found));
    }
    Ok(sum)
}

/// The labels that a peer has written.
fn read(own: &Ended, classes: &[String]) -> Result<Vec<Option<u16>>, String> {
    let mut reader = csv::Reader::from_path(&own.file).map_err(line)?;
    let label = |record: csv::Result<csv::StringRecord>| {
        let record = record.map_err(line)?;
        let class = classes.iter().position(|class| Some(class.as_str()) == record.get(0));
        Ok(class.and_then(|class| u16::try_from(class).ok()))
    };
    reader.records().map(label).collect()
}

/// Of the rows whose label was not known.
fn count(own: &Ended, found: &[Option<u16>]) -> Count {
    let rows = own.part.rows.labels().iter().zip(&own.part.labels).zip(found);
    let unknown: Vec<_> = rows.filter(|((_, known), _)| known.is_none()).collect();
    let right = unknown.iter().filter(|((truth, _), found)| **found == Some(**truth)).count();
    Count { right, all: unknown.len() }
}

#[derive(Clone, Copy, Default)]
struct Count {
    right: usize,
    all: usize,
}

impl Count {
    fn add(&mut self, other: Self) {
        self.right += other.right;
        self.all += other.all;
    }

    fn share(self) -> f64 {
        self.right as f64 / self.all.max(1) as f64
    }
}
