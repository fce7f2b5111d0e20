//! The task `fedavg-xclp`: a network that is trained in rounds, on given labels and on propagated
//! labels. The labels are propagated over the representations of all members' rows (Scott, Yeo &
//! Lampert, *Cross-client Label Propagation*, TMLR 2023, Algorithm 2; spec, section "Task fedavg-xclp").
//!
//! The slots are those of the task `fedavg`, and four more before each round that uses a new propagation:
//! * `points-P`: the number of points of each member, and the number of given labels of each class over all
//!   members;
//! * `computed-P` and `labelled-P`, as in the task `xclp`;
//! * `counts-P`: the number of labels of each class after the propagation, including the given ones.
//!
//! A point is the representation of a row in the network with the start weights of that round.
//!
//! `Fedavg` handles the training, and an `Xclp` each propagation. Each of them sees only its own slots. A
//! member that missed a propagation trains on its given labels.

mod compare;
mod layout;
pub(crate) mod spec;

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use flyswarm_learn::learner::{PseudoLabels, Tape, class_weights, shares};
use serde_json::{Map, Value, json};
use zeroize::Zeroizing;

use super::common::holders;
use super::exchange::{Seat, Source};
use super::fedavg::spec::NETWORK;
use super::fedavg::{self, Fedavg, LabelledRows};
use super::xclp::{self, Xclp};
use super::{
    Build, BuiltIn, History, Labels, NewFile, Outcome, OwnSlots, OwnWishes, RowUse, Rows, Shared, Task,
    TaskKind, TaskOption, Work,
};
use crate::crypto::stream::derive;
use crate::data::Dataset;
use crate::protocol::context::Aggregate;
use crate::session::{Peer, Section, Session, SessionError};
use crate::tasks::Crowd;
use crate::tasks::FedavgXclpSpec;
use layout::{COMPUTED, COUNTS, LABELLED, Layout, POINTS, Place};

/// Plan of a session. It follows from the session file alone.
#[derive(Clone, Debug)]
struct Plan {
    session: Session,
    layout: Layout,
    fedavg: fedavg::Plan,
    xclp: xclp::Plan,
}

/// The task of one peer.
struct FedavgXclp {
    plan: Plan,
    me: Peer,
    fedavg: Fedavg,
    /// Positions of its rows with and without a label.
    places: [Vec<usize>; 2],
    /// True if training may end early.
    patient: bool,
    secret: Zeroizing<[u8; 32]>,
    /// This peer's task in each propagation. It is set when the points have been computed.
    propagations: Vec<OnceLock<Xclp>>,
}

impl std::fmt::Debug for FedavgXclp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FedavgXclp({}, {:?}, <redacted>)", self.me, self.plan.layout)
    }
}

impl Plan {
    fn new(session: Session, spec: &FedavgXclpSpec) -> Result<Self, String> {
        let fedavg = fedavg::Plan::new(session.clone(), spec.fedavg.clone());
        let mut fedavg = fedavg.map_err(|error| error.to_string())?;
        // Rounds before the first propagation do not count for the patience, so that training does not end
        // before it has used found labels.
        fedavg.uncounted = spec.after;
        let layout = Layout {
            first: fedavg.first(),
            rounds: spec.fedavg.rounds,
            after: spec.after,
            refresh: spec.refresh.max(1),
            last: 1 + u32::from(fedavg.predicts()),
        };
        let width = fedavg.network.representation();
        let xclp = xclp::Plan::over(session.clone(), spec.xclp.clone(), width);
        Ok(Self { session, layout, fedavg, xclp })
    }

    fn classes(&self) -> usize {
        self.session.data.classes.len()
    }

    /// Returns the aggregates of the session.
    fn aggregates(&self) -> Vec<Aggregate> {
        let (trained, classes) = (self.fedavg.aggregates(), self.classes() as u64);
        let propagated = self.xclp.aggregates();
        let aggregate = |slot: u32| match self.layout.place(slot) {
            Place::Training(slot) => trained[slot as usize].clone(),
            Place::Propagation(number, part) => {
                let name = ["points", "computed", "labelled", "counts"][part as usize];
                let of_xclp = &propagated[1 + part.min(LABELLED) as usize];
                let (words, is, reveals) = match part {
                    // The words with the labels of each class come after the words with the numbers of rows.
                    POINTS => (
                        of_xclp.words + classes,
                        "rows of each member, and given labels",
                        "how many rows each member trains on, and how many labels of each class were given",
                    ),
                    COUNTS => (
                        classes,
                        "labels of each class",
                        "how many labels of each class there are, given and found",
                    ),
                    _ => (of_xclp.words, of_xclp.is, of_xclp.reveals),
                };
                let exchange = matches!(part, COMPUTED | LABELLED);
                let name = format!("{name}-{}", number + 1);
                Aggregate { exchange, ..Aggregate::exact(&name, 4, words, is, reveals) }
            }
        };
        (0..self.layout.slots()).map(aggregate).collect()
    }

    /// Returns the part of the history that the training sees.
    fn trained(&self, history: &History) -> History {
        history.only((0..history.committed()).filter(|&slot| self.layout.is_training(slot)))
    }

    /// Returns the part of the history that a propagation sees.
    fn propagated(&self, number: u32, history: &History) -> History {
        let first = self.layout.propagation(number);
        history.only([0, first + POINTS, first + COMPUTED, first + LABELLED])
    }

    /// Returns the opened counts of each class, after `skipped` words of a slot.
    fn counts(&self, slot: u32, skipped: usize, history: &History) -> Option<Vec<u64>> {
        let words = history.vector(slot)?.as_chunks::<4>().0.iter().skip(skipped);
        Some(words.map(|&word| u32::from_le_bytes(word).into()).collect())
    }

    /// Returns the number of given labels of each class among the points of this propagation.
    fn given(&self, number: u32, history: &History) -> Option<Vec<u64>> {
        let slot = self.layout.propagation(number) + POINTS;
        self.counts(slot, self.session.roster.len(), history)
    }

    /// Returns the number of labels of each class after a propagation, given and found.
    fn all(&self, number: u32, history: &History) -> Option<Vec<u64>> {
        self.counts(self.layout.propagation(number) + COUNTS, 0, history)
    }
}

/// Entry of the task in the registry.
pub static KIND: TaskKind = TaskKind {
    partly: true,
    options: &[
        NETWORK[0],
        NETWORK[1],
        NETWORK[2],
        TaskOption::field(
            "after",
            "ROUNDS",
            "pseudo_labels.after",
            "Use only given labels in the first ROUNDS rounds [default: half of all rounds]",
        ),
        TaskOption::field(
            "refresh",
            "ROUNDS",
            "pseudo_labels.refresh",
            "Infer labels again after every ROUNDS rounds [default: 10]",
        ),
    ],
    build_own,
    fill,
    evaluation_note: |session| session.task.get().map(|spec: &FedavgXclpSpec| fedavg::note(&spec.fedavg)),
    compare: compare::worth,
    memory_refusal: super::xclp::memory::refusal,
    demo: Some(include_str!("demo.toml")),
    ..TaskKind::new(
        "fedavg-xclp",
        "a network, trained on few rows with labels and many without",
        &[Section { name: "pseudo_labels", tasks: "fedavg-xclp if there is a [pseudo_labels]" }],
        |sections, data, peers| FedavgXclpSpec::read(sections, data, peers).map(Into::into),
        Shared::Shares,
    )
};

fn fill(new: &mut NewFile) -> Result<(), SessionError> {
    new.propose("data.scaling", "standard");
    Ok(())
}

/// Makes a peer's task that keeps the weights of the last round in a file.
fn build_own(session: &Session, wishes: OwnWishes<'_>, _: &mut Rows) -> Result<Option<Build>, String> {
    wishes.refuse(session)?;
    let (Some(spec), Some(kept)) = (session.task.get::<FedavgXclpSpec>().cloned(), wishes.rounds.cloned())
    else {
        return Ok(None);
    };
    Ok(Some(Box::new(move |session, me, rows, secret| {
        let mut made = FedavgXclp::new(session, &spec, me, &rows, secret)?;
        made.fedavg.kept = Some(kept.clone());
        Ok(Arc::new(made))
    })))
}

/// Returns the built-in task with these parameters.
#[must_use]
pub(crate) fn built_in(session: &Session, spec: FedavgXclpSpec) -> BuiltIn {
    // A checked session always has a plan. The engine refuses an empty plan.
    let plan = Plan::new(session.clone(), &spec).map_or(Vec::new(), |plan| plan.aggregates());
    BuiltIn {
        own: OwnSlots::of(&plan, "holders"),
        plan,
        result: "network",
        extension: "safetensors",
        labels: Labels::Some,
        witnesses: false,
        build: Box::new(move |session, me, rows, secret| {
            Ok(Arc::new(FedavgXclp::new(session, &spec, me, &rows, secret)?))
        }),
    }
}

impl FedavgXclp {
    fn new(
        session: Session,
        spec: &FedavgXclpSpec,
        me: Peer,
        rows: &Rows,
        secret: &[u8; 32],
    ) -> Result<Self, String> {
        let plan = Plan::new(session.clone(), spec)?;
        let mut fedavg = Fedavg::partly(session, spec.fedavg.clone(), me, rows).map_err(|e| e.to_string())?;
        fedavg.plan.uncounted = plan.fedavg.uncounted;
        let propagations = (0..plan.layout.propagations()).map(|_| OnceLock::new()).collect();
        let patient = spec.fedavg.patience > 0;
        let place = |known: bool| (0..).zip(&rows.labels).filter(move |(_, label)| label.is_some() == known);
        let places = [true, false].map(|known| place(known).map(|(row, _)| row).collect());
        Ok(Self { plan, me, fedavg, places, patient, secret: Zeroizing::new(*secret), propagations })
    }

    /// Returns this peer's task in a propagation. It can be made only after the round before the propagation
    /// has been committed, and before the next round is committed.
    fn propagation(&self, number: u32, history: &History) -> Result<&Xclp, String> {
        let place = self.propagations.get(number as usize).ok_or("no such propagation")?;
        if let Some(xclp) = place.get() {
            return Ok(xclp);
        }
        let trained = self.plan.trained(history);
        let slot = self.plan.layout.first + self.plan.layout.round(number);
        let failed = |error: fedavg::FedavgError| error.to_string();
        let weights = self.plan.fedavg.weights(slot, &trained).map_err(failed)?;
        let rows = self.fedavg.points(&trained).map_err(failed)?;
        let given = self.fedavg.given(&trained).map_err(failed)?;
        let (mut keys, _) = self.plan.fedavg.network.represent(&weights, rows.view(), &mut Tape::default());
        // A zero vector has no direction. It is replaced by a vector of ones, so that all such rows are near
        // each other.
        keys.rows_mut().into_iter().filter(|key| key.iter().all(|&value| value == 0.0)).for_each(
            |mut key| {
                key.fill(1.0);
            },
        );
        let (width, values) = (keys.ncols(), keys.into_iter().collect());
        let data = Dataset::new(width, values, Vec::new(), Vec::new());
        let data = Arc::new(data.map_err(|error| format!("the representation of the rows: {error}"))?);
        let secret = derive(&*self.secret, "propagation", &number.to_le_bytes());
        Ok(place.get_or_init(|| Xclp::with_plan(self.plan.xclp.clone(), self.me, (data, given), secret)))
    }

    /// Returns the labels that this peer trains on after a propagation.
    fn labels(&self, number: u32, history: &History) -> Result<PseudoLabels, String> {
        let given = self.fedavg.given(&self.plan.trained(history)).map_err(|error| error.to_string())?;
        let classes = self.plan.classes();
        let output = self.plan.xclp.output(&self.plan.propagated(number, history), given.len());
        let scores = match output {
            Some(output) => output.coarse.iter().map(|&score| score.into()).collect(),
            None => vec![0.0; given.len() * classes],
        };
        let scores = shares(&scores, classes, self.plan.given(number, history).as_deref());
        Ok(PseudoLabels::new(&given, &scores, classes))
    }

    /// Returns the labels for training in a round, or `None` if no propagation came before the round.
    fn found(&self, round: u32, history: &History) -> Result<Option<LabelledRows>, String> {
        let Some(number) = self.plan.layout.latest(round) else { return Ok(None) };
        let closed = "the counts of labels are not open";
        let given = self.plan.given(number, history).ok_or(closed)?;
        let class_weights = class_weights(&given, &self.plan.all(number, history).ok_or(closed)?);
        Ok(Some(LabelledRows { labels: self.labels(number, history)?, class_weights }))
    }

    /// Returns this peer's words for `points` or `counts`, the slots of a propagation without an exchange.
    fn words(&self, number: u32, part: u32, history: &History) -> Result<Bytes, String> {
        let classes = self.plan.classes();
        if part == COUNTS {
            let counts = self.labels(number, history)?.counts(classes);
            return Ok(words(counts));
        }
        let propagation = self.propagation(number, history)?;
        let rows = propagation.contribution(part + 1, history)?;
        let mut given = vec![0; classes];
        for label in propagation.labels().iter().flatten() {
            given[usize::from(*label)] += 1;
        }
        Ok([rows, words(given)].concat().into())
    }
}

fn words(counts: impl IntoIterator<Item = u64>) -> Bytes {
    // `holders::fits` has checked that the number of rows fits in a word of the sum.
    counts.into_iter().flat_map(|count| u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes()).collect()
}

impl Task for FedavgXclp {
    fn plan(&self) -> Vec<Aggregate> {
        self.plan.aggregates()
    }

    fn contribution(&self, slot: u32, history: &History) -> Result<Bytes, String> {
        match self.plan.layout.place(slot) {
            Place::Training(slot) => {
                let found = match self.plan.fedavg.round(slot) {
                    Some(round) => self.found(round, history)?,
                    None => None,
                };
                let trained = self.plan.trained(history);
                self.fedavg.vector(slot, &trained, found.as_ref()).map_err(|error| error.to_string())
            }
            Place::Propagation(number, part) => self.words(number, part, history),
        }
    }

    fn exchange(&self, slot: u32, history: &History, seat: Seat) -> Result<Source, String> {
        match self.plan.layout.place(slot) {
            Place::Propagation(number, part @ (COMPUTED | LABELLED)) => {
                let seen = self.plan.propagated(number, history);
                self.propagation(number, history)?.exchange(part + 1, &seen, seat)
            }
            _ => Ok(Source::Own),
        }
    }

    fn contribution_from_exchange(&self, slot: u32, result: &Bytes) -> Result<Bytes, String> {
        match self.plan.layout.place(slot) {
            Place::Propagation(_, part) => {
                self.plan.xclp.contribution_from_exchange(self.me, part + 1, result)
            }
            Place::Training(_) => Err("training has no exchange".into()),
        }
    }

    fn allows(&self, slot: u32, history: &History, members: &[Peer]) -> Result<(), String> {
        let trained = self.plan.trained(history);
        match self.plan.layout.place(slot) {
            Place::Training(slot) => self.fedavg.allows(slot, &trained, members),
            Place::Propagation(number, part) => {
                holders::allows(&self.plan.session, slot, &trained, members)?;
                match part {
                    COUNTS => Ok(()),
                    part => self.plan.xclp.allows(part + 1, &self.plan.propagated(number, history), members),
                }
            }
        }
    }

    fn can_continue(&self, slot: u32, history: &History, crowd: Crowd<'_>) -> Result<(), String> {
        match self.plan.layout.place(slot) {
            Place::Propagation(number, part @ (COMPUTED | LABELLED)) => {
                let seen = self.plan.propagated(number, history);
                self.plan.xclp.can_continue(part + 1, &seen, crowd)
            }
            _ => Ok(()),
        }
    }

    fn check(&self, slot: u32, history: &History) -> Result<(), String> {
        match self.plan.layout.place(slot) {
            Place::Training(slot) => self.fedavg.check(slot, &self.plan.trained(history)),
            Place::Propagation(_, COUNTS) => Ok(()),
            Place::Propagation(number, part) => {
                self.plan.xclp.check(part + 1, &self.plan.propagated(number, history))
            }
        }
    }

    fn needed_by_plan(&self, slot: u32, committed: u32) -> bool {
        let layout = self.plan.layout;
        match layout.place(slot) {
            Place::Training(slot) => self.fedavg.needed_by_plan(slot, layout.trained(committed)),
            // The shares of the output are kept until every owner has got its labels.
            Place::Propagation(_, COMPUTED) => committed <= slot + 1,
            // The labels serve all rounds until the next propagation.
            Place::Propagation(number, _) => committed <= layout.end(number),
        }
    }

    /// If the session has a `patience`, also keeps the vector of the round whose weights are the best so far.
    /// After an early end, keeps no labels.
    fn still_needed(&self, slot: u32, history: &History) -> bool {
        let retained = self.needed_by_plan(slot, history.committed());
        if !self.patient {
            return retained;
        }
        let (fedavg, trained) = (&self.plan.fedavg, self.plan.trained(history));
        match self.plan.layout.place(slot) {
            Place::Training(slot) => retained || fedavg.may_be_result(slot, &trained),
            Place::Propagation(..) => retained && !fedavg.ends(&trained),
        }
    }

    fn ends(&self, history: &History) -> bool {
        self.patient && self.plan.fedavg.ends(&self.plan.trained(history))
    }

    fn metrics(&self, slot: u32, history: &History) -> Map<String, Value> {
        match self.plan.layout.place(slot) {
            Place::Training(slot) => self.fedavg.metrics(slot, &self.plan.trained(history)),
            Place::Propagation(number, COUNTS) => {
                let sum = |counts: Option<Vec<u64>>| counts.map_or(0, |counts| counts.iter().sum::<u64>());
                let given = sum(self.plan.given(number, history));
                let all = sum(self.plan.all(number, history));
                let figures = [("labels_given", given), ("labels_found", all.saturating_sub(given))];
                figures.into_iter().map(|(name, count)| (name.to_owned(), json!(count))).collect()
            }
            Place::Propagation(..) => Map::new(),
        }
    }

    /// A round uses found labels only from the latest propagation. So a peer without given labels trains in a
    /// round only if it got labels from that propagation.
    fn row_use(&self, slot: u32, history: &History) -> RowUse {
        let trained = self.plan.trained(history);
        let layout = self.plan.layout;
        let delivered = |number| {
            let first = layout.propagation(number);
            [POINTS, COMPUTED, LABELLED].iter().all(|part| history.members(first + part).contains(&self.me))
        };
        match layout.place(slot) {
            Place::Training(slot) => {
                let round = self.plan.fedavg.round(slot);
                let found = round.and_then(|round| layout.latest(round)).is_some_and(delivered);
                self.fedavg.rows_in(slot, &trained, found || self.fedavg.has_labels())
            }
            Place::Propagation(_, POINTS) => RowUse::Included,
            Place::Propagation(number, COMPUTED | LABELLED) => {
                match history.members(layout.propagation(number) + POINTS).contains(&self.me)
                    && history.members(layout.propagation(number) + COMPUTED).contains(&self.me)
                {
                    true => RowUse::Included,
                    false => RowUse::LeftOut(xclp::LATE),
                }
            }
            Place::Propagation(number, _) if delivered(number) || self.fedavg.has_labels() => {
                RowUse::Included
            }
            Place::Propagation(..) => RowUse::LeftOut(fedavg::UNLABELLED),
        }
    }

    /// Returns all training rows if this peer has trained. They include the rows without a given label.
    fn learnt_rows(&self, history: &History) -> Option<Vec<usize>> {
        let training = self.plan.trained(history);
        let rounds = (0..history.committed()).filter(|&slot| match self.plan.layout.place(slot) {
            Place::Training(slot) => {
                self.plan.fedavg.round(slot).is_some() && !self.plan.fedavg.closes(slot, &training)
            }
            Place::Propagation(..) => false,
        });
        let trains = |slot: u32| {
            history.members(slot).contains(&self.me) && self.row_use(slot, history) == RowUse::Included
        };
        if !rounds.into_iter().any(trains) {
            return Some(Vec::new());
        }
        let [known, unknown] = &self.places;
        let trained = self.fedavg.trained_on(&training)?;
        Some(trained.into_iter().filter_map(|row| known.get(row)).chain(unknown).copied().collect())
    }

    fn outcome(&self, history: &History, unix: u64) -> Result<Outcome, String> {
        self.fedavg.outcome(&self.plan.trained(history), unix)
    }

    fn work(&self, slot: u32, history: &History) -> Work {
        match self.plan.layout.place(slot) {
            Place::Training(slot) => self.fedavg.work(slot, &self.plan.trained(history)),
            Place::Propagation(_, POINTS) => self.fedavg.passes(1.0),
            Place::Propagation(..) => Work::default(),
        }
    }
}

#[cfg(test)]
mod tests;
