//! The task `sketch` in a session file, and the sketches that the task `flynn` uses to draw its peers
//! (`select`).

use std::any::Any;
use std::fmt::{self, Write};

use serde::Deserialize;
use serde_json::Value;

use crate::model::selection::Selection;
use crate::session::encoding::Field;
use crate::session::fields::{self, Row, Word};
use crate::session::rules::Limit;
use crate::session::{DataSpec, Scaling, Session, SessionError};
use crate::session::{Release, Sections, Spec};
use crate::sketch::distribution::srp::MAX_ENTRIES;
use crate::sketch::distribution::{Family, MAX_COUNTERS, RANGE};
use crate::tasks::{BuiltIn, TaskKind};

/// Smallest number of peers that may be drawn. Their rows are summed, and every sum needs at least 3 members.
const FEWEST: u16 = 3;
/// Largest number of words of all peers' sketches together: 1 GiB.
const PAIRWISE_LIMIT: u64 = 1 << 28;

/// Method of the task `flynn` for drawing its training peers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Select {
    /// Draws by the distances of the peers' sketches, with the `[sketch]` of the same file.
    Sketch,
}

/// Parameters of a distribution sketch (Liu, Xu, Coleman & Shrivastava, NeurIPS 2023, Algorithms 1 and
/// 3).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SketchSpec {
    /// Hash of a row. Default SRP.
    pub hash: Family,
    /// Number of rows, the paper's R: 1 and more. Default 1,000, as in the authors' code.
    pub rows: u32,
    /// Number of counters of a row, the paper's B: 2 to 65,536, with SRP a power of two. Rows x range is at
    /// most 2^24. Default 64, as in the authors' code.
    pub range: u32,
    /// True if every peer's distance to the global sketch is opened. Default false; true in a session with
    /// `select`.
    pub open_distances: bool,
    /// True if every peer's own sketch is opened, so that all distances between peers are known. Default
    /// false.
    pub pairwise: bool,
    /// Number of peers that may be drawn, the paper's L. They are chosen among the peers with a published
    /// distance. 0, the default, means all of them.
    pub active: u16,
    /// Number of peers that are drawn from these, the paper's K. 0 means no draw. Needs `open_distances`.
    /// Default 0.
    pub chosen: u16,
    /// Temperature of the softmax of inverse distances: 0.001 to 1,000. Default 1, as in the authors' code.
    pub temperature: f64,
}

impl Default for SketchSpec {
    fn default() -> Self {
        let (open_distances, pairwise) = (false, false);
        Self {
            hash: Family::Srp,
            rows: 1000,
            range: 64,
            open_distances,
            pairwise,
            active: 0,
            chosen: 0,
            temperature: 1.0,
        }
    }
}

impl Word for Family {
    const WORDS: &'static [(&'static str, Self)] = &[("srp", Self::Srp), ("minhash", Self::Minhash)];
}

/// Fields of the section `[sketch]`.
static FIELDS: &[Row<SketchSpec>] = fields::fields! { "sketch";
    hash at hash: word(Family),
        "\"srp\", signs of random projections, or \"minhash\" of the features that are above 0.";
    rows at rows: whole(1, (MAX_COUNTERS / 2) as u64),
        "Rows, and the counters of each row (a power of two with srp); at most 16777216 counters in all.";
    range at range: whole(*RANGE.start() as u64, *RANGE.end() as u64), "";
    open_distances at open_distances: flag,
        "true if every peer's distance to the global sketch is opened.";
    pairwise at pairwise: flag,
        "true if every peer's own sketch is opened, and so all distances between peers. A sketch shows how dense its \
         peer's records are anywhere.";
    active at active: whole(0, 1024),
        "Draw of peers: `active` peers with a published distance are considered (0: all). `chosen` of these are \
         drawn (0: no draw), with a softmax of inverse distances of this temperature: 0.001 to 1000.";
    chosen at chosen: whole(0, 1024), "";
    temperature at temperature: number(0.001, 1000.0, "0.001 to 1000"), "";
};

/// Returns the limit of a field that is a number of peers: 0 to `peers`.
fn places(field: &'static str, peers: usize) -> Limit {
    Limit::new(field, 0, peers as u64)
}

impl SketchSpec {
    /// Returns the settings of the draw of peers, or `None` without a draw.
    #[must_use]
    pub fn selection(&self) -> Option<Selection> {
        let Self { active, chosen, temperature, .. } = *self;
        (chosen > 0).then_some(Selection { active, chosen, temperature })
    }

    /// Reads the section.
    pub(crate) fn read_section(
        sections: &mut Sections<'_>,
        select: Option<Select>,
    ) -> Result<Self, SessionError> {
        let mut spec = Self { open_distances: select.is_some(), ..Self::default() };
        fields::read(FIELDS, sections, &mut spec)?;
        Ok(spec)
    }

    /// Checks the rules that apply to both uses of sketches.
    fn check_sizes(&self, session: &Session) -> Result<(), SessionError> {
        let (data, peers) = (&session.data, session.roster.len());
        fields::check(FIELDS, self)?;
        let counters = u64::from(self.rows) * u64::from(self.range);
        if counters > MAX_COUNTERS as u64 {
            return refuse("sketch.rows x sketch.range", &counters, format!("at most {MAX_COUNTERS}"));
        }
        if self.hash == Family::Srp {
            if !self.range.is_power_of_two() {
                return refuse("sketch.range", &self.range, "a power of two with the hash srp".into());
            }
            let entries = u64::from(self.rows) * u64::from(self.range.ilog2()) * u64::from(data.width());
            if entries > MAX_ENTRIES as u64 {
                let limit = format!("at most {MAX_ENTRIES} (1 GiB of planes)");
                return refuse("sketch.rows x log2 of sketch.range x the numbers of a row", &entries, limit);
            }
        }
        if self.hash == Family::Minhash && data.scaling != Scaling::None {
            let limit = "\"none\" with the hash minhash, which uses only which features are above 0";
            return refuse("data.scaling", &data.scaling, limit.into());
        }
        // In a private session, each sketch has two more words.
        let words = counters + if session.privacy.noise.is_some() { 2 } else { 0 };
        let pairwise = words * peers as u64;
        if self.pairwise && pairwise > PAIRWISE_LIMIT {
            let limit = format!("at most {PAIRWISE_LIMIT} with pairwise = true");
            return refuse("sketch.rows x sketch.range x the length of roster", &pairwise, limit);
        }
        places("sketch.active", peers).check::<u16>(self.active)?;
        places("sketch.chosen", peers).check::<u16>(self.chosen)?;
        if self.chosen > 0 && !self.open_distances {
            return refuse("sketch.open_distances", &false, "true if peers are chosen".into());
        }
        Ok(())
    }

    fn check_draw(&self) -> Result<(), SessionError> {
        if self.active > 0 && self.active < self.chosen {
            let limit = format!("0 or at least {} (sketch.chosen)", self.chosen);
            return refuse("sketch.active", &self.active, limit);
        }
        Ok(())
    }

    /// Checks the rules of a task that draws its peers by these sketches.
    pub(crate) fn check_select(&self, session: &Session) -> Result<(), SessionError> {
        self.check_sizes(session)?;
        if self.pairwise {
            return refuse("sketch.pairwise", &true, "false with select, which needs only distances".into());
        }
        let fewest = session.privacy.min_contributors.max(FEWEST);
        if self.chosen < fewest {
            let limit =
                format!("at least {fewest} with select ({FEWEST} for a sum, and privacy.min_contributors)");
            return refuse("sketch.chosen", &self.chosen, limit);
        }
        if session.privacy.noise.is_some() {
            let limit = "left out with privacy.epsilon: it would draw by distances of exact sketches";
            return refuse("select", &"sketch", limit.into());
        }
        self.check_draw()
    }
}

fn refuse(field: &str, value: &dyn fmt::Display, limit: String) -> Result<(), SessionError> {
    Err(SessionError::value(field, value, limit))
}

impl SketchSpec {
    /// Reads the parameters from their sections.
    pub(crate) fn read(
        sections: &mut Sections<'_>,
        _data: &DataSpec,
        _peers: usize,
    ) -> Result<Self, SessionError> {
        Self::read_section(sections, None)
    }
}

impl Spec for SketchSpec {
    fn kind(&self) -> &'static TaskKind {
        &super::KIND
    }

    fn built_in(&self, session: &Session) -> Option<BuiltIn> {
        Some(super::built_in(session, *self))
    }

    fn parts(&self) -> Vec<&dyn Any> {
        vec![self]
    }

    fn about(&self) -> &'static str {
        "the distance of each peer's rows from the rows of all peers"
    }

    fn check(&self, session: &Session) -> Result<(), SessionError> {
        let data = &session.data;
        self.check_sizes(session)?;
        if data.densify {
            return refuse("data.densify", &true, "false with the task sketch".into());
        }
        if !data.classes.is_empty() {
            let limit = "0 with the task sketch, which needs none";
            return refuse("the length of data.classes", &data.classes.len(), limit.into());
        }
        self.check_draw()
    }

    fn entries(&self) -> Vec<Field> {
        fields::entries(FIELDS, self)
    }

    fn write_toml(&self, _data: &DataSpec, out: &mut String) -> fmt::Result {
        writeln!(out, "[sketch]")?;
        fields::write(FIELDS, self, out)?;
        writeln!(out)
    }

    fn json(&self, _data: &DataSpec) -> Vec<(&'static str, Value)> {
        vec![("sketch", fields::json(FIELDS, self).into())]
    }

    fn lines(&self, _data: &DataSpec) -> Vec<(&'static str, String)> {
        let Self { hash, rows, range, open_distances, pairwise, active, chosen, temperature } = self;
        let bytes = (rows * range + 1) * 4;
        let opened = match (open_distances, pairwise) {
            (false, false) => "the global sketch alone",
            (true, false) => "also every peer's distance",
            (false, true) => "also every peer's sketch",
            (true, true) => "also every peer's distance and sketch",
        };
        let mut lines = vec![
            ("sketch", format!("{hash}, {rows} rows of {range} counters ({bytes} bytes)")),
            ("opened", opened.to_owned()),
        ];
        if *chosen > 0 {
            let of = if *active > 0 { format!("{active} drawn") } else { "all".into() };
            lines.push(("selection", format!("{chosen} of {of} peers, temperature {temperature}")));
        }
        lines
    }

    fn release(&self, _data: &DataSpec) -> Release {
        Release::Every
    }
}
