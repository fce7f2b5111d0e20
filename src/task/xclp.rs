//! The task `xclp`: labels for every peer's own points, propagated over the points of all (spec, section
//! "XCLP").
//!
//! Slots: the coin, which draws the roles; `rows`, how many each member has (everybody may know); `moments`
//! where the scaling needs them; `graph`, how many points each has in it, and its digest; `labelled`. The
//! vectors of the last two come from the exchanges of their views ([`crate::protocol::xclp`]). Members that
//! were not counted in `rows` have no part in them.

mod labels;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use sha2::{Digest, Sha256};

use super::exchange::{self, Content, Exchange, Job, Output, Seat, Source, Vocabulary};
use super::{BuiltIn, History, Labels, Task, Work};
use crate::crypto::stream::Stream;
use crate::data::Dataset;
use crate::data::deal::shuffle;
use crate::model::propagation::series::MAX_POINTS;
use crate::model::propagation::{Prediction, Propagation, centralised, edges, label_counts};
use crate::protocol::context::Quantity;
use crate::protocol::record::Value;
use crate::protocol::view::Reason;
use crate::protocol::xclp::roles::{FEWEST_HOLDERS, Roles};
use crate::protocol::xclp::{self, Body, Known, Outcome, Setup, Stage};
use crate::protocol::{Action, Fault, Input, Machine as _, Step, Time, wire};
use crate::session::{Peer, Session, XclpSpec};
use crate::sketch::lsh::Codes;
use crate::sketch::scaling::{self, Moments, Scaler, Scaling};
use labels::labels_text;

/// Slot of `rows`: word p is the number of rows of peer p.
const ROWS: u32 = 1;

/// Words of the digest in `graph`, after those of the peers.
const DIGEST: usize = 8;

/// The task with these parameters.
#[must_use]
pub fn built_in(spec: XclpSpec) -> BuiltIn {
    BuiltIn {
        result: "labels",
        extension: "labels.csv",
        labels: Labels::Some,
        witnesses: true,
        build: Box::new(move |session, me, rows, secret| {
            match Xclp::new(session, spec, me, rows.data, rows.labels, secret) {
                Ok(task) => Ok(Arc::new(task)),
                Err(error) => Err(error),
            }
        }),
    }
}

/// What follows from the session file alone.
#[derive(Clone, Debug)]
pub struct Plan {
    session: Session,
    spec: XclpSpec,
    scaling: Scaling,
}

/// One peer's part.
#[derive(Clone, Debug)]
pub struct Xclp {
    plan: Plan,
    me: Peer,
    data: Arc<Dataset>,
    labels: Vec<Option<u16>>,
    /// The order in which others know the rows.
    order: Vec<usize>,
}

impl Plan {
    /// The plan of a session of the task `xclp` with these parameters.
    #[must_use]
    pub fn new(session: Session, spec: XclpSpec) -> Self {
        Self { scaling: session.data.scaling.of_rows(), session, spec }
    }

    /// What is computed.
    #[must_use]
    pub fn rule(&self) -> Propagation {
        self.spec.rule()
    }

    /// The quantities of the session.
    #[must_use]
    pub fn quantities(&self) -> Vec<Quantity> {
        let quantity = Quantity::exact;
        let mut plan = vec![Quantity::coin(), quantity("rows", 4, self.session.roster.len() as u64)];
        if let Some(squares) = self.scaling.needs_moments() {
            let words = Moments::words(self.session.data.features as usize, squares) as u64;
            plan.push(quantity("moments", 8, words));
        }
        plan.push(quantity("graph", 4, (self.session.roster.len() + DIGEST) as u64));
        plan.push(quantity("labelled", 4, 2));
        plan
    }

    /// The slot of `graph`; `labelled` is the one after.
    fn graph(&self) -> u32 {
        if self.scaling.needs_moments().is_some() { 3 } else { 2 }
    }

    /// How many rows each peer was counted with in `rows` or `graph`.
    fn counted(&self, opened: &[Bytes], slot: u32) -> BTreeMap<Peer, u32> {
        let words = opened.get(slot as usize).map_or(&[][..], |bytes| bytes.as_chunks::<4>().0);
        let words = &words[..self.session.roster.len().min(words.len())];
        (0u16..).map(Peer).zip(words.iter().map(|&word| u32::from_le_bytes(word))).collect()
    }

    /// Who does what in a view of `members` that sums this slot.
    fn roles(
        &self,
        slot: u32,
        values: &[Value],
        opened: &[Bytes],
        members: &[Peer],
    ) -> Result<Roles, String> {
        let (Some(seed), Some(counted)) =
            (opened.first(), values.get(ROWS as usize).map(|value| &value.members))
        else {
            return Err("the coin and the rows are not open".into());
        };
        let rows = self.counted(opened, ROWS);
        if slot <= self.graph() {
            return Roles::draw(seed, counted, members, &rows);
        }
        let made = values.get(self.graph() as usize).ok_or("the graph is not made")?;
        Roles::draw(seed, counted, &made.members, &rows)?.later(seed, counted, members, &rows)
    }

    /// The graph that was decided, as a peer knows it whom the exchange of its view gave `before`.
    fn known(&self, values: &[Value], opened: &[Bytes], before: Option<&Outcome>) -> Result<Known, String> {
        let slot = self.graph();
        let (Some(value), Some(words)) = (values.get(slot as usize), opened.get(slot as usize)) else {
            return Err("the graph is not made".into());
        };
        let digest = words.last_chunk::<{ 4 * DIGEST }>().ok_or("the graph has no digest")?;
        let knowers = self.roles(slot, values, opened, &value.members)?.propagators;
        Ok(Known {
            ballot: value.sum.ballot,
            digest: *digest,
            knowers,
            before: before.cloned().unwrap_or_default(),
        })
    }

    fn scaler(&self, moments: Option<&[u8]>) -> Result<Scaler, String> {
        let features = self.session.data.features as usize;
        Scaler::opened(&self.scaling, features, moments).map_err(|error| error.to_string())
    }
}

impl Xclp {
    /// A peer with these rows, which may be none, and their labels, `None` where unknown. `secret` orders the
    /// rows.
    pub fn new(
        session: Session,
        spec: XclpSpec,
        me: Peer,
        data: Arc<Dataset>,
        labels: Vec<Option<u16>>,
        secret: &[u8; 32],
    ) -> Result<Self, String> {
        let features = session.data.features as usize;
        if data.features() != features {
            return Err(format!("rows have {} features, the session says {features}", data.features()));
        }
        if labels.len() != data.rows() {
            return Err(format!("{} labels for {} rows", labels.len(), data.rows()));
        }
        if data.rows() > MAX_POINTS {
            return Err(format!("{} rows, of all peers together there may be {MAX_POINTS}", data.rows()));
        }
        let mut order: Vec<usize> = (0..data.rows()).collect();
        shuffle(&mut order, &mut Stream::new(secret, "order of rows", &session.id().0));
        Ok(Self { plan: Plan::new(session, spec), me, data, labels, order })
    }

    /// The session's classes.
    #[must_use]
    pub fn classes(&self) -> &[String] {
        &self.plan.session.data.classes
    }

    /// The labels that it knows, in the order of the file.
    #[must_use]
    pub fn labels(&self) -> &[Option<u16>] {
        &self.labels
    }

    /// The same peer without labels: what it counts as where it is lost after the graph is made.
    #[must_use]
    pub fn unlabelled(&self) -> Self {
        Self { labels: vec![None; self.labels.len()], ..self.clone() }
    }

    /// What is said of each row, in the order of the file.
    #[must_use]
    pub fn said(&self, outcome: &Outcome) -> Vec<Prediction> {
        let mut said = vec![Prediction { label: None, confidence: 0.0 }; self.order.len()];
        for (&row, found) in self.order.iter().zip(self.plan.rule().say(&outcome.scores, &outcome.counts)) {
            said[row] = found;
        }
        said
    }

    /// What is said of each row of some peers, ascending, when their rows are in one place: what they must
    /// arrive at together. `moments` are those that the session opened, where its scaling has any, for they
    /// may be of more rows than these; else those of these rows. The number of edges of their graph is given
    /// too.
    pub fn pooled(
        tasks: &[&Self],
        planes: &[u8; 32],
        moments: Option<&[u8]>,
    ) -> Result<(Vec<Vec<Prediction>>, usize), String> {
        let Some(first) = tasks.first() else { return Ok((Vec::new(), 0)) };
        let (plan, features) = (&first.plan, first.data.features());
        let join = |parts: &[Dataset]| {
            let values = parts.iter().flat_map(|part| part.values().iter().copied()).collect();
            Dataset::new(features, values, Vec::new(), Vec::new()).map_err(|error| error.to_string())
        };
        let all = join(&tasks.iter().map(|task| task.data.subset(&task.order)).collect::<Vec<_>>())?;
        let scaler = match (plan.scaling.needs_moments(), moments) {
            (Some(_), Some(moments)) => plan.scaler(Some(moments))?,
            _ => Scaler::fit(&plan.scaling, &all).map_err(|error| error.to_string())?,
        };
        let scaled = scaler.transform(&all);
        let labels: Vec<_> =
            tasks.iter().flat_map(|task| task.order.iter().map(|&row| task.labels[row])).collect();
        let classes = first.classes().len();
        let codes = Codes::of(&scaled, planes, plan.spec.bits as usize).ok_or("bits of a code")?;
        let scores = centralised(&codes, &labels, classes, &plan.rule());
        let counts = label_counts(&labels, classes);
        let mut rest = &scores[..];
        let of_task = |task: &&Self| {
            let (own, others) = rest.split_at(task.order.len() * classes);
            rest = others;
            let planes = *planes;
            task.said(&Outcome { scores: own.to_vec(), counts: counts.clone(), planes, ..Outcome::default() })
        };
        let said = tasks.iter().map(of_task).collect();
        Ok((said, edges(&codes, plan.spec.k as usize).len()))
    }

    fn rows(&self) -> Result<u32, String> {
        u32::try_from(self.data.rows()).map_err(|_| "too many rows".to_owned())
    }

    fn words(&self, slot: &str) -> Result<Bytes, String> {
        match slot {
            "rows" => {
                let peers = self.plan.session.roster.len();
                let rows = self.rows()?;
                let words = (0..peers).map(|peer| if peer == self.me.index() { rows } else { 0 });
                Ok(words.flat_map(u32::to_le_bytes).collect())
            }
            "moments" => {
                let squares = self.plan.scaling.needs_moments() == Some(true);
                Ok(scaling::moments(&self.data, squares).iter().flat_map(|word| word.to_le_bytes()).collect())
            }
            other => Err(format!("no vector of {other} without its exchange")),
        }
    }
}

impl Task for Xclp {
    fn plan(&self) -> Vec<Quantity> {
        self.plan.quantities()
    }

    fn contribution(&self, slot: u32, _: &History) -> Result<Bytes, String> {
        let plan = self.plan();
        self.words(&plan.get(slot as usize).ok_or("no such slot")?.name)
    }

    fn outcome(&self, history: &History, _unix: u64) -> Result<super::Outcome, String> {
        // Who came after the rows were counted had no part in the exchange, and was given no scores.
        let given = history.exchanged(self.plan.graph() + 1).and_then(|bytes| Outcome::from_bytes(bytes));
        let Some(given) = given.filter(|given| !given.counts.is_empty() || self.data.rows() == 0) else {
            return Err("the session was finished without this peer: there are no labels for its rows".into());
        };
        let said = self.said(&given);
        let text = labels_text(&said, &self.labels, self.classes());
        let unknown = said.iter().filter(|said| said.label.is_none()).count();
        let summary =
            if unknown > 0 { format!("no label reaches {unknown} of the rows") } else { String::new() };
        let digest = Sha256::digest(&text).into();
        Ok(super::Outcome::new(text.into_bytes(), digest).with_summary(summary))
    }

    fn work(&self, slot: u32, _: &History) -> Work {
        let rows = self.data.rows() as f64 * self.data.features() as f64;
        let moments = self.plan().get(slot as usize).is_some_and(|quantity| quantity.name == "moments");
        Work { lift: if moments { rows } else { 0.0 }, ..Work::default() }
    }

    fn exchange(&self, slot: u32, history: &History, seat: Seat) -> Result<Source, String> {
        let graph = self.plan.graph();
        if slot < graph {
            return Ok(Source::Own);
        }
        let (values, opened) = (history.values(), history.vectors());
        // A leader that starts a sum over too few members breaks a rule that `allows` checks; this peer then
        // has no part in it.
        let roles = self.plan.roles(slot, values, opened, &seat.members).ok();
        let counted = |roles: &Roles| roles.ring.contains(&self.me) || roles.propagators.contains(&self.me);
        let roles = roles.filter(counted);
        let stage = if slot == graph {
            Stage::Graph
        } else {
            let before = history.exchanged(graph).and_then(|bytes| Outcome::from_bytes(bytes));
            let known = self.plan.known(values, opened, before.as_ref())?;
            if roles.is_some()
                && known.knowers.contains(&self.me)
                && before.is_none_or(|before| before.edges.is_empty())
            {
                return Err("this peer knew the graph, and its state has nothing of it any more".into());
            }
            Stage::Labels(known)
        };
        let Some(roles) = roles else { return Ok(Source::Bystander) };
        let moments = self.plan.scaling.needs_moments().and(history.vector(ROWS + 1));
        let rows = if roles.rows.contains_key(&self.me) {
            let scaled =
                self.plan.scaler(moments.map(|bytes| &bytes[..]))?.transform(&self.data).subset(&self.order);
            let labels = self.order.iter().map(|&row| self.labels[row]).collect();
            Some(xclp::Rows { data: Arc::new(scaled), labels: Arc::new(labels) })
        } else {
            None
        };
        let setup = Setup {
            session: seat.session,
            sum: seat.sum,
            stage,
            me: seat.me,
            roles,
            rule: self.plan.rule(),
            bits: self.plan.spec.bits as usize,
            hamming: self.plan.spec.hamming,
            classes: self.plan.session.data.classes.len(),
            coin: history.seed().ok_or("the coin is not open")?,
            keys: seat.keys,
            rows,
            patience_ms: seat.patience_ms,
            longest_ms: seat.longest_ms,
        };
        Ok(Source::Exchange(Box::new(Adapter(xclp::Exchange::new(setup, seat.seed)))))
    }

    /// This peer's points in the graph, and the digest where it is to say it; then points, and those that
    /// have a label now: in the sum, of all peers.
    fn exchanged(&self, slot: u32, result: &Bytes) -> Result<Bytes, String> {
        let outcome = if result.is_empty() { Some(Outcome::default()) } else { Outcome::from_bytes(result) };
        let outcome = &outcome.ok_or("the exchange's result is damaged")?;
        if slot == self.plan.graph() {
            let peers = self.plan.session.roster.len();
            // Whoever had a part in it as an owner knows the planes.
            let rows = if outcome.planes == [0; 32] { 0 } else { self.rows()? };
            let words = (0..peers).map(|peer| if peer == self.me.index() { rows } else { 0 });
            return Ok(words.flat_map(u32::to_le_bytes).chain(outcome.digest).collect());
        }
        let said = self.said(outcome);
        let labelled = said.iter().filter(|said| said.label.is_some()).count();
        Ok([said.len(), labelled]
            .into_iter()
            .flat_map(|n| u32::try_from(n).unwrap_or(u32::MAX).to_le_bytes())
            .collect())
    }

    fn allows(&self, slot: u32, history: &History, members: &[Peer]) -> Result<(), String> {
        if slot >= self.plan.graph() {
            self.plan.roles(slot, history.values(), history.vectors(), members)?;
        }
        Ok(())
    }

    fn check(&self, slot: u32, history: &History) -> Result<(), String> {
        if slot == self.plan.graph() {
            let roles = self.plan.roles(slot, history.values(), history.vectors(), history.members(slot))?;
            let points = self.plan.counted(history.vectors(), slot);
            if points.iter().any(|(peer, &rows)| roles.rows.get(peer).copied().unwrap_or(0) != rows) {
                return Err("the graph has other points than were counted".into());
            }
        }
        if slot != ROWS {
            return Ok(());
        }
        let counted = self.plan.counted(history.vectors(), ROWS);
        let holders = counted.values().filter(|&&rows| rows > 0).count();
        if holders < FEWEST_HOLDERS {
            return Err(format!("only {holders} members have rows; xclp needs {FEWEST_HOLDERS}"));
        }
        let points: u64 = counted.values().map(|&rows| u64::from(rows)).sum();
        if points > MAX_POINTS as u64 {
            return Err(format!("{points} rows together, at most {MAX_POINTS}"));
        }
        // Whoever was not counted has no part: if these are too few, so is every later view.
        let counted = history.members(ROWS);
        self.plan.roles(self.plan.graph(), history.values(), history.vectors(), counted).map(drop)
    }
}

/// What the second exchange gave a peer, if it had a part in it.
#[must_use]
pub fn result(history: &History) -> Option<Outcome> {
    let result = history.exchanged(history.frozen().checked_sub(1)?)?;
    if result.is_empty() { Some(Outcome::default()) } else { Outcome::from_bytes(result) }
}

/// The seed of the planes, which every peer with rows knows.
#[must_use]
pub fn planes(history: &History) -> Option<[u8; 32]> {
    let results = (0..history.frozen()).filter_map(|slot| Outcome::from_bytes(history.exchanged(slot)?));
    results.map(|result| result.planes).find(|planes| *planes != [0; 32])
}

/// Carries the exchange's messages as the node does: unread.
struct Adapter(xclp::Exchange);

/// Reads a message of the exchange; its bulk bytes travel beside it.
pub(crate) fn body(content: Content) -> Result<Body, Fault> {
    const WRONG: Fault = Fault::OutOfOrder("bulk bytes of an exchange");
    match content {
        Content::Short(bytes) => match wire::decode_item(&bytes)? {
            Body::Part { .. } => Err(WRONG),
            body => Ok(body),
        },
        Content::Bulk { header, data } => match wire::decode_item(&header)? {
            Body::Part { what, length, .. } => Ok(Body::Part { what, length, data }),
            _ => Err(WRONG),
        },
    }
}

impl From<Body> for Content {
    fn from(body: Body) -> Self {
        let header = wire::canonical(&body).into();
        match body {
            Body::Part { data, .. } => Self::Bulk { header, data },
            _ => Self::Short(header),
        }
    }
}

impl Exchange for Adapter {
    fn peers(&self) -> Vec<Peer> {
        self.0.neighbours().collect()
    }

    fn roles(&self) -> exchange::Roles {
        if !self.0.begins_anew() {
            return Vec::new();
        }
        let roles = self.0.roles();
        vec![("propagators", roles.propagators.to_vec()), ("ring", roles.ring.clone())]
    }

    fn handle(&mut self, now: Time, input: Input<Vocabulary>) -> Step<Vocabulary> {
        let mut step = Step::none();
        let input = match input {
            Input::Start => Input::Start,
            Input::PeerUp(peer) => Input::PeerUp(peer),
            Input::PeerLost(peer) => Input::PeerLost(peer),
            Input::Timer(_) => Input::Timer(xclp::Timer(self.0.sum())),
            Input::Done(done) => match done.downcast_ref::<xclp::Done>() {
                Some(done) => Input::Done(done.clone()),
                None => unreachable!("BUG: the node gives back what a job made"),
            },
            Input::Message { from, message } => match body(message) {
                Ok(body) => Input::Message { from, message: xclp::Message { sum: self.0.sum(), body } },
                Err(fault) => {
                    step.blame(from, fault);
                    step.output(Output::Failed(Reason::Fault, Some(from)));
                    return step;
                }
            },
        };
        for action in self.0.handle(now, input).0 {
            step.0.push(match action {
                Action::Send { to, message } => Action::Send { to, message: message.body.into() },
                Action::SetTimer { at, .. } => Action::SetTimer { at, timer: 0 },
                Action::Compute(job) => Action::Compute(Job::new(job.operations, move || {
                    Arc::new(job.clone().run()) as exchange::Done
                })),
                Action::Persist(never) => match never {},
                Action::WriteEarly(early) => Action::WriteEarly(early),
                Action::Blame { peer, fault } => Action::Blame { peer, fault },
                Action::Output(xclp::Output::Finished(outcome)) => {
                    Action::Output(Output::Finished(outcome.to_bytes()))
                }
                Action::Output(xclp::Output::Failed(reason, peer)) => {
                    Action::Output(Output::Failed(reason, peer))
                }
            });
        }
        step
    }
}
