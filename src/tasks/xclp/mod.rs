//! The task `xclp` labels every peer's own points. Labels spread over the points of all peers (spec, sections
//! 15b, 15e).
//!
//! Slots: the coin, which draws the computing members and the planes; `rows`, the number of rows of each
//! member, and of members with labels of each class; `moments` if the scaling needs them; `computed`, the
//! computing members and each owner's commitment to its input; `labelled`, the number of rows with an answer.
//! The vectors of the last two come from exchanges (`compute`, `deliver`) of the members counted in `rows`.

pub(crate) mod accounts;
pub(crate) mod classes;
pub(crate) mod compare;
pub(crate) mod computation;
pub(crate) mod compute;
pub(crate) mod computed;
pub(crate) mod deliver;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod hamming;
#[cfg(not(feature = "internals"))]
#[allow(unreachable_pub, reason = "public with the feature `internals`")]
pub(crate) mod hamming;
pub(crate) mod held;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod internals;
mod kind;
mod labels;
pub(crate) mod memory;
pub(crate) mod pairs;
pub(crate) mod parties;
mod setup;
pub(crate) mod shares;
pub(crate) mod spec;
pub(crate) mod talk;
#[cfg(test)]
mod tests;
mod watch;

pub use kind::KIND;
pub(crate) use kind::built_in;
use setup::has_directions;
pub use setup::planes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::common::columns;
use super::exchange::{Seat, Source};
use super::{History, RowUse, Task, Work};
use crate::crypto::{mask::Wide, stream::derive};
use crate::data::Dataset;
use crate::protocol::context::Aggregate;
use crate::protocol::marks::Marks;
use crate::protocol::sum_id::SumId;
use crate::session::{Peer, Session};
use crate::tasks::Crowd;
use crate::tasks::xclp::shares::output::Sealed;
use crate::tasks::{Cheaters, XclpSpec};
use computation::{Computation, Labels};
use compute::{Compute, FirstCommitments};
use computed::{Computed, inputs_digest};
use deliver::{Deliver, Delivered, Differing, Senders};
use flyswarm_data::scaling::{self, ColumnSums, Scaler, Scaling};
use flyswarm_mpc::propagation::integer::{self, reference};
#[doc(hidden)]
pub use labels::RowLabel;
use labels::labels_text;

/// Slot of `rows`: word p is the number of rows of peer p; then owners with labels of each class.
const ROWS: u32 = 1;
/// Number of words of a peer in `computed`: its number as a computing member, its commitment.
const WORDS: usize = 9;
/// Reason why a member's rows were not used.
pub(super) const LATE: &str = "this peer came after the rows were counted or compared";
/// Warning to an owner whose labels came from only two computing members.
const UNCOMPARED: &str = "one of the three computing peers was gone when the labels were sent, so that two copies of each share \
                          could not be compared: a change by one of the other two would not be seen";
/// Smallest number of members with rows.
pub(crate) const FEWEST_OWNERS: usize = 2;
/// Largest number of points: places are words of 16 bits, and computing takes 2.2 GB ([`memory`]).
pub(crate) const MOST_POINTS: u64 = 10_000;

/// Plan of a session. It follows from the session file alone.
#[derive(Clone, Debug)]
pub struct Plan {
    session: Session,
    spec: XclpSpec,
    scaling: Scaling,
    /// Features of a point.
    features: usize,
    /// True if `rows` counts the members that have labels of each class.
    counts_classes: bool,
}

/// The task of one peer.
#[derive(Clone, Debug)]
pub struct Xclp {
    plan: Plan,
    me: Peer,
    data: Arc<Dataset>,
    labels: Arc<Vec<Option<u16>>>,
    /// All known labels, if the session gets only some of them ([`held`]); otherwise empty.
    known: Vec<Option<u16>>,
    secret: Zeroizing<[u8; 32]>,
    /// First commitment of each owner that this peer has seen.
    seen: FirstCommitments,
    /// Two computing members that sent this peer different copies of a share.
    differing: Differing,
    /// Sums whose exchange this peer has begun. None begins twice, so that no random numbers are used twice.
    begun: Arc<Mutex<BTreeSet<SumId>>>,
}

/// The owners of a view and the plan of its computation.
struct View {
    /// Members with rows and their numbers of rows, in the order of their places.
    owners: Vec<(Peer, usize)>,
    plan: integer::Plan,
}

impl Plan {
    /// Returns the plan of a session of the task `xclp` with these parameters.
    #[must_use]
    pub fn new(session: Session, spec: XclpSpec) -> Self {
        let (scaling, features) = (session.data.scaling.of_rows(), session.data.features as usize);
        Self { scaling, features, session, spec, counts_classes: true }
    }

    /// Returns the plan for another task that propagates labels over points that it makes, with `features`
    /// features. Slots: the coin, `rows`, `computed` and `labelled`. That task checks that each class has
    /// enough owners.
    pub(super) fn over(session: Session, spec: XclpSpec, features: usize) -> Self {
        Self { scaling: Scaling::None, features, session, spec, counts_classes: false }
    }

    /// Returns the aggregates of the session.
    #[must_use]
    pub fn aggregates(&self) -> Vec<Aggregate> {
        let aggregate = |name, words, is, reveals| Aggregate::exact(name, 4, words, is, reveals);
        let peers = self.session.roster.len() as u64;
        let rows = if self.counts_classes {
            let reveals = "how many rows each member has, and how many members have labels of each class";
            aggregate("rows", peers + self.classes() as u64, "rows of each member, labelled classes", reveals)
        } else {
            aggregate("rows", peers, "rows of each member", "how many rows each member has")
        };
        let mut plan = vec![Aggregate::coin(), rows];
        if let Some(squares) = self.scaling.needs_moments() {
            plan.push(columns::aggregate(self.features as u32, ColumnSums::needed(squares)));
        }
        let reveals = "which members computed, and for each member with rows a salted hash of its input, which does not show the input";
        plan.push(
            aggregate("computed", peers * WORDS as u64, "which members computed", reveals).with_exchange(),
        );
        let reveals = "how many rows were answered";
        plan.push(aggregate("labelled", 1, "rows with an answer", reveals).with_exchange());
        plan
    }

    /// Returns the slot of `computed`; `labelled` is the next one.
    fn computed(&self) -> u32 {
        if self.scaling.needs_moments().is_some() { 3 } else { 2 }
    }

    fn classes(&self) -> usize {
        self.session.data.classes.len()
    }

    /// Returns the number of rows of each peer, from `rows`.
    fn counted(&self, history: &History) -> BTreeMap<Peer, usize> {
        let words = history.vector(ROWS).map_or(&[][..], |bytes| bytes.as_chunks::<4>().0);
        let members = history.members(ROWS);
        let rows = words.iter().map(|&word| u32::from_le_bytes(word) as usize);
        (0u16..).map(Peer).zip(rows).filter(|(peer, _)| members.contains(peer)).collect()
    }

    /// Returns the owners and the plan of a view of `members`.
    fn view(&self, history: &History, members: &[Peer]) -> Result<View, String> {
        let counted = self.counted(history);
        let owners: Vec<(Peer, usize)> =
            counted.into_iter().filter(|(peer, rows)| *rows > 0 && members.contains(peer)).collect();
        let fewest = FEWEST_OWNERS.max(self.session.privacy.min_contributors.into());
        if owners.len() < fewest {
            return Err(format!(
                "only {} members have rows; {fewest} are needed (privacy.min_contributors, at least 2)",
                owners.len()
            ));
        }
        let points: u64 = owners.iter().map(|(_, rows)| *rows as u64).sum();
        let (least, largest) = (self.spec.fewest_rows(), owners.iter().max_by_key(|(_, rows)| *rows));
        if points > MOST_POINTS {
            return Err(format!("{points} rows together, at most {MOST_POINTS}"));
        }
        if let Some(refusal) = memory::too_many(points, self.classes(), &self.spec) {
            return Err(refusal);
        }
        if points < least && !self.spec.few_rows {
            return Err(format!(
                "{points} rows together, at least {least} are needed, 5 (k + 1), or xclp.few_rows = true"
            ));
        }
        if let Some((peer, rows)) = largest.filter(|(_, rows)| 2 * *rows as u64 > points)
            && !self.spec.large_owner
        {
            return Err(format!(
                "{} has {rows} of {points} rows, at most half are allowed unless xclp.large_owner = true",
                self.session.roster[peer.index()].name
            ));
        }
        let plan = integer::Plan::new(points as usize, self.classes(), self.spec.settings());
        let most = u64::from(self.spec.most_rows);
        if let Some((peer, rows)) = largest.filter(|(_, rows)| most > 0 && *rows as u64 > most) {
            let name = &self.session.roster[peer.index()].name;
            return Err(format!("{name} has {rows} rows, at most {most} are allowed (xclp.most_rows)"));
        }
        Ok(View { owners, plan: plan.map_err(|refusal| refusal.to_string())? })
    }

    /// Returns the three members that computed, from the vector of `computed`.
    fn trio(&self, history: &History) -> Result<[Peer; 3], String> {
        let words = history.vector(self.computed()).map_or(&[][..], |bytes| bytes.as_chunks::<4>().0);
        let numbers = words.iter().step_by(WORDS).map(|&word| u32::from_le_bytes(word));
        let said: Vec<(Peer, u32)> = (0u16..).map(Peer).zip(numbers).filter(|(_, n)| *n > 0).collect();
        let of = |number: u32| said.iter().find(|(_, n)| *n == number).map(|(peer, _)| *peer);
        match [of(1), of(2), of(3)] {
            [Some(one), Some(two), Some(three)] if said.len() == 3 => Ok([one, two, three]),
            _ => Err("the number of peers that computed is not three".into()),
        }
    }

    /// Returns the reason why an owner has no output.
    fn differing(&self, pair: [Peer; 2]) -> String {
        let [one, two] = pair.map(|peer| self.session.name(peer));
        format!(
            "{one} and {two} sent different copies of one share of this peer's labels: one of the two does not \
             follow the protocol, and neither copy was used"
        )
    }

    fn senders(&self, history: &History, members: &[Peer]) -> Result<Senders, String> {
        deliver::senders(&self.trio(history)?, members)
            .ok_or_else(|| "fewer than two of the three computing peers are left".to_owned())
    }

    fn scaler(&self, moments: Option<&[u8]>) -> Result<Scaler, String> {
        Scaler::opened(&self.scaling, self.features, moments).map_err(|error| error.to_string())
    }

    /// Returns the result of the second exchange for a peer with `rows` rows, if it has finished.
    fn delivered(&self, history: &History, rows: usize) -> Option<Delivered> {
        let bytes = history.exchanged(self.computed() + 1)?;
        let delivered = Delivered::from_bytes(bytes, self.classes())?;
        Some(delivered).filter(|delivered| match delivered {
            Delivered::Output(output, _) => output.labels.len() == rows,
            Delivered::Differing(_) => true,
        })
    }

    /// Returns the output for a peer with `rows` rows, if this peer got one.
    pub(super) fn output(&self, history: &History, rows: usize) -> Option<reference::Output> {
        self.delivered(history, rows)?.output()
    }

    /// Returns this peer's words: in `computed` number and commitment, in `labelled` the rows with an answer.
    pub(super) fn contribution_from_exchange(
        &self,
        me: Peer,
        slot: u32,
        result: &Bytes,
    ) -> Result<Bytes, String> {
        if slot > self.computed() {
            let output = Delivered::from_bytes(result, self.classes()).and_then(Delivered::output);
            let rows = output.map_or(0, |output| output.labels.len());
            return Ok(u32::try_from(rows).unwrap_or(u32::MAX).to_le_bytes().to_vec().into());
        }
        let mut words = vec![0; 4 * WORDS * self.session.roster.len()];
        if !result.is_empty() {
            let computed = Computed::from_bytes(result).ok_or("the exchange's result is damaged")?;
            let own = &mut words[4 * WORDS * me.index()..][..4 * WORDS];
            own[0] = computed.party.map_or(0, |(number, _)| number + 1);
            own[4..].copy_from_slice(&computed.commitment);
        }
        Ok(words.into())
    }

    /// Checks that a new sum of `slot` may be started over `members`.
    pub(super) fn allows(&self, slot: u32, history: &History, members: &[Peer]) -> Result<(), String> {
        match slot.cmp(&self.computed()) {
            std::cmp::Ordering::Less => Ok(()),
            std::cmp::Ordering::Equal => {
                self.view(history, members)?;
                parties::trio(&self.candidates(history)?, members, &Marks::default()).map(drop)
            }
            std::cmp::Ordering::Greater => self.senders(history, members).map(drop),
        }
    }

    /// Checks the opened words of the last slot.
    pub(super) fn check(&self, slot: u32, history: &History) -> Result<(), String> {
        if slot == self.computed() {
            return self.trio(history).map(drop);
        }
        if slot != ROWS {
            return Ok(());
        }
        // Peers that were not counted cannot take part later. So if too few are counted, the session ends.
        self.view(history, history.members(ROWS))?;
        parties::trio(&self.candidates(history)?, history.members(ROWS), &Marks::default()).map(drop)
    }
}

impl Xclp {
    /// Creates a peer with these rows (there may be none) and their labels. `secret` salts its commitment.
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
            return Err(format!("rows have {} features, the session has {features}", data.features()));
        }
        if labels.len() != data.rows() {
            return Err(format!("{} labels for {} rows", labels.len(), data.rows()));
        }
        if data.rows() as u64 > MOST_POINTS {
            return Err(format!("{} rows; all peers together may have {MOST_POINTS}", data.rows()));
        }
        let most = spec.most_rows as usize;
        if most > 0 && data.rows() > most {
            return Err(format!(
                "{} rows, the session allows an owner at most {most} (xclp.most_rows)",
                data.rows()
            ));
        }
        let plan = Plan::new(session, spec);
        if plan.scaling.needs_moments().is_none() {
            has_directions(&plan.scaler(None)?.transform(&data))?;
        }
        Ok(Self::with_plan(plan, me, (data, labels), Zeroizing::new(*secret)))
    }

    /// Creates a peer with these points and their labels. Every point must have a direction.
    pub(super) fn with_plan(
        plan: Plan,
        me: Peer,
        (data, labels): (Arc<Dataset>, Vec<Option<u16>>),
        secret: Zeroizing<[u8; 32]>,
    ) -> Self {
        Self {
            plan,
            me,
            data,
            labels: Arc::new(labels),
            known: Vec::new(),
            secret,
            seen: FirstCommitments::default(),
            differing: Differing::default(),
            begun: Arc::default(),
        }
    }

    /// Returns the session's classes.
    #[must_use]
    pub fn classes(&self) -> &[String] {
        &self.plan.session.data.classes
    }

    /// Returns the labels that the peer knows, in the order of the file.
    #[must_use]
    pub fn labels(&self) -> &[Option<u16>] {
        &self.labels
    }

    fn words(&self, slot: &str) -> Result<Bytes, String> {
        match slot {
            "rows" => {
                let rows = u32::try_from(self.data.rows()).map_err(|_| "too many rows".to_owned())?;
                let words = (0..self.plan.session.roster.len())
                    .map(|peer| if peer == self.me.index() { rows } else { 0 });
                let classes =
                    self.plan.counts_classes.then(|| classes::words(&self.labels, self.plan.classes()));
                Ok(words.chain(classes.into_iter().flatten()).flat_map(u32::to_le_bytes).collect())
            }
            "moments" => {
                let squares = self.plan.scaling.needs_moments() == Some(true);
                Ok(Wide::bytes(&scaling::moments(&self.data, squares)).into())
            }
            other => Err(format!("no vector of {other} without its exchange")),
        }
    }

    /// Returns this peer's source for the first exchange.
    fn compute(&self, history: &History, seat: Seat) -> Result<Source, String> {
        // A leader that starts a sum over too few members breaks a rule that `allows` checks. This peer then
        // takes no part in the sum.
        let Ok(View { owners, plan }) = self.plan.view(history, &seat.members) else {
            return Ok(Source::Bystander);
        };
        let candidates = self.plan.candidates(history)?;
        let owner = owners.iter().any(|(peer, _)| *peer == self.me);
        if !owner && !candidates.contains(&self.me) {
            return Ok(Source::Bystander);
        }
        let fresh = self.begun.lock().unwrap_or_else(PoisonError::into_inner).insert(seat.sum);
        assert!(fresh, "BUG: the exchange of view {} begins twice", seat.sum.ballot);
        let rows = if owner { Some(self.rows(history, &seat.members)?) } else { None };
        let computation = Computation::Labels(Labels { plan, hamming: self.plan.spec.hamming, rows });
        let proves = self.plan.spec.cheaters == Cheaters::Caught;
        let setup = compute::Setup::of(seat, owners, candidates, computation, proves, &self.seen);
        Ok(Compute::new(setup).map_or(Source::Bystander, |exchange| Source::Exchange(Box::new(exchange))))
    }

    /// Returns this peer's scaled rows for a view of `members`.
    fn rows(&self, history: &History, members: &[Peer]) -> Result<compute::Rows, String> {
        let moments = self.plan.scaling.needs_moments().and(history.vector(ROWS + 1));
        let scaled = self.plan.scaler(moments.map(|bytes| &bytes[..]))?.transform(&self.data);
        has_directions(&scaled)?;
        Ok(compute::Rows {
            data: Arc::new(scaled),
            labels: Arc::clone(&self.labels),
            without: self.plan.few_owners(history, members).iter().map(|few| few.class).collect(),
            planes: planes(&self.plan.session, history).ok_or("the coin is not open")?,
            salt: derive(&*self.secret, "salt of the input", &self.plan.session.id().0),
        })
    }

    /// Returns this peer's source for the second exchange.
    fn deliver(&self, history: &History, seat: Seat) -> Result<Source, String> {
        let slot = self.plan.computed();
        let View { owners, plan } = self.plan.view(history, history.members(slot))?;
        let Ok(senders) = self.plan.senders(history, &seat.members) else { return Ok(Source::Bystander) };
        let before = history.exchanged(slot).and_then(|bytes| Computed::from_bytes(bytes));
        let said = |peer: Peer| -> Option<[u8; 32]> {
            let at = 4 * (peer.index() * WORDS + 1);
            history.vector(slot)?.get(at..)?.first_chunk().copied()
        };
        if before.as_ref().is_some_and(|before| said(self.me) != Some(before.commitment)) {
            return Err("the committee decided another commitment than this peer made".into());
        }
        let decided = inputs_digest(owners.iter().filter_map(|(peer, _)| Some((*peer, said(*peer)?))));
        if before.as_ref().is_some_and(|before| before.party.is_some() && before.inputs != decided) {
            return Err("the committee decided on commitments that the owners have not sent".into());
        }
        let sealed = if senders.contains(&Some(self.me)) {
            let shares = before.and_then(|before| before.party).map(|(_, shares)| shares);
            let sealed = shares.and_then(|shares| Sealed::from_bytes(&shares, plan.points(), plan.classes()));
            Some(sealed.ok_or("this peer computed, but its state has lost the shares")?)
        } else {
            None
        };
        let setup = deliver::Setup {
            me: self.me,
            owners,
            members: seat.members,
            senders,
            differing: Arc::clone(&self.differing),
            sealed,
            classes: self.plan.classes(),
            patience_ms: seat.patience_ms,
            longest_ms: seat.longest_ms,
        };
        if !Deliver::takes_part(&setup, self.me) {
            return Ok(Source::Bystander);
        }
        Ok(Source::Exchange(Box::new(Deliver::new(setup))))
    }

    /// Returns the result of the second exchange for this peer, if it was there to the end.
    #[must_use]
    pub fn output(&self, history: &History) -> Option<reference::Output> {
        self.plan.output(history, self.data.rows())
    }
}

impl Task for Xclp {
    fn plan(&self) -> Vec<Aggregate> {
        self.plan.aggregates()
    }

    fn contribution(&self, slot: u32, _: &History) -> Result<Bytes, String> {
        self.words(&super::aggregate_of(self, slot)?.name)
    }

    fn outcome(&self, history: &History, _unix: u64) -> Result<super::Outcome, String> {
        // A peer that came after the rows were counted took no part in the exchange and has no output.
        let (output, twice) = match self.plan.delivered(history, self.data.rows()) {
            Some(Delivered::Output(output, twice)) => (output, twice),
            Some(Delivered::Differing(pair)) => return Err(self.plan.differing(pair)),
            None => {
                return Err(
                    "the session was finished without this peer: there are no labels for its rows".into()
                );
            }
        };
        let said = self.said(&output);
        let compared = self.compared(&said, history)?.and_then(|found| self.told(&found));
        let (mut said, known) = self.with_known(&said);
        let few = self.few_owners(history);
        // The session cannot find labels of a class that counts as having none.
        said.iter_mut().filter(|row| few.iter().any(|few| Some(few.class) == row.label)).for_each(|row| {
            row.disputed = false;
        });
        let text = labels_text(&said, &known, self.classes());
        let unknown = said.iter().filter(|said| said.label.is_none()).count();
        let disputed = said.iter().filter(|said| said.disputed).count();
        let mut summary = Vec::new();
        if unknown > 0 {
            summary.push(format!("no label reaches {unknown} of the rows"));
        }
        if disputed > 0 {
            summary.push(format!("{disputed} of the given labels are disputed"));
        }
        let compared = compared.map(|(own, line, warnings)| (Some(own), Some(line), warnings));
        let (own, line, mut warnings) = compared.unwrap_or_default();
        summary.extend(line);
        let told = self.plan.told_of(&few);
        warnings.extend(told.iter().cloned());
        warnings.extend((!twice).then(|| UNCOMPARED.to_owned()));
        let digest = Sha256::digest(&text).into();
        let outcome = super::Outcome::new(text.into_bytes(), digest).with_summary(summary.join("; "));
        let mut details = serde_json::Map::new();
        if !told.is_empty() {
            details.insert("classes_without_labels".to_owned(), told.into());
        }
        Ok(super::Outcome { own, warnings, details, ..outcome })
    }

    /// Returns whether a slot uses this peer's rows. `computed` uses them if `rows` counted them.
    fn row_use(&self, slot: u32, history: &History) -> RowUse {
        let computed = self.plan.computed();
        let compared = [ROWS, computed].iter().all(|&at| history.members(at).contains(&self.me));
        if slot < computed || compared { RowUse::Included } else { RowUse::LeftOut(LATE) }
    }

    fn work(&self, slot: u32, _: &History) -> Work {
        let rows = self.data.rows() as f64 * self.data.features() as f64;
        let moments = self.plan().get(slot as usize).is_some_and(|aggregate| aggregate.name == "moments");
        Work { lift: if moments { rows } else { 0.0 }, ..Work::default() }
    }

    fn exchange(&self, slot: u32, history: &History, seat: Seat) -> Result<Source, String> {
        match slot.cmp(&self.plan.computed()) {
            std::cmp::Ordering::Less => Ok(Source::Own),
            std::cmp::Ordering::Equal => self.compute(history, seat),
            std::cmp::Ordering::Greater => self.deliver(history, seat),
        }
    }

    fn contribution_from_exchange(&self, slot: u32, result: &Bytes) -> Result<Bytes, String> {
        self.plan.contribution_from_exchange(self.me, slot, result)
    }

    fn allows(&self, slot: u32, history: &History, members: &[Peer]) -> Result<(), String> {
        self.plan.allows(slot, history, members)
    }

    fn can_continue(&self, slot: u32, history: &History, crowd: Crowd<'_>) -> Result<(), String> {
        self.plan.can_continue(slot, history, crowd)
    }

    fn check(&self, slot: u32, history: &History) -> Result<(), String> {
        self.plan.check(slot, history)
    }

    /// Returns whether the slot is needed. Shares are kept until every owner has its output.
    fn needed_by_plan(&self, slot: u32, committed: u32) -> bool {
        slot != self.plan.computed() || committed <= slot + 1
    }
}
