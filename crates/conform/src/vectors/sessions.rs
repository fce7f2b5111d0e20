//! Session files and the values that follow from them: ids, committees.

use std::sync::Arc;

use flyswarm::session::{Peer, Session};
use flyswarm::tasks::FlynnSpec;
use flyswarm::tasks::built_in;
use flyswarm::tasks::flynn::Plan;
use flyswarm_sealed_sum::protocol::ballot::Ballot;
use flyswarm_sealed_sum::protocol::context::{Aggregate, Context};
use flyswarm_sealed_sum::protocol::sum_id::SumId;
use serde_json::{Value, json};

use super::tables::{self, MOST_FREQUENT, TABLE};
use super::{hex, identity};

/// Lines that make every session here unique.
const RUN: &str = "run_id = \"f0e1d2c3b4a5968778695a4b3c2d1e0c\"\ncreated = 2026-11-22T16:05:06Z\n";

/// Returns a session file of this number of peers: the head, then the roster.
pub(crate) fn toml(head: &str, peers: usize) -> String {
    let mut text = format!("{RUN}{head}");
    for i in 0..peers {
        text += &format!("[[roster]]\nname = \"peer-{i}\"\npeer_id = \"{}\"\n", identity(i).public());
    }
    text
}

pub(crate) const SMALL: &str = concat!(
    head!("flynn", 3, r#""cat", "dog""#),
    r#"scaling = "standard"
"#,
    flynn!(),
    r#"[limits]
max_views = 24
"#,
);

const FULL: &str = r#"# Every field, none at its default.
name = "Green_apples-2.b"
task = "flynn"
min_peers = 15
[data]
features = 100
classes = ["b", "a", "ß"]
scaling = { range = { lo = -0.1, hi = 255 } }
densify = true
[flynn]
m = "2.5d"
s = "0.025d"
rho = "0.001m"
gamma = -0.0
score = "balanced-log"
[privacy]
min_contributors = 4
collusion_threshold = 0.25
[timing]
start_wait_ms = 1
proposal_backoff_ms = 2
view_timeout_ms = 3000
no_quorum_timeout_ms = 4
compute_ms = 5
linger_ms = 6
regroup_interval_ms = 7
[limits]
max_views = 50
"#;

/// Session with noise in shares: every field of differential privacy.
pub(super) const PRIVATE: &str = concat!(
    head!("flynn", 3, r#""cat", "dog""#),
    r#"scaling = "unit-norm"
"#,
    flynn!(),
    r#"[privacy]
epsilon = 0.7
top = 5
mode = "central"
colluders = 2
"#,
);

/// Session with names of the features, limits of some of them, and a position in a series.
const NAMED: &str = concat!(
    head!("flynn"),
    r#"features = 3
columns = ["b", "höhe in m", "a"]
classes = ["cat", "dog"]
[series]
number = 12
parent = "00ff000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d"
[columns."höhe in m"]
min = -0.0
max = 2.5
[columns.b]
max = 1e30
"#,
    flynn!(),
);

/// Session with two settings in addition to its own.
pub(crate) const TUNE: &str = concat!(
    head!("tune", 3, r#""cat", "dog""#),
    flynn!(),
    r#"[tune]
folds = 2
[[tune.setting]]
scaling = { soft-bins = { bins = 2 } }
m = "4d"
s = 2
rho = 3
[[tune.setting]]
scaling = { range = { lo = -0.1, hi = 255 } }
densify = true
m = 20
s = 3
rho = "0.2m"
"#,
);

/// Session with held-out rows to measure the quality of the model.
pub(crate) const EVALUATE: &str = concat!(
    head!("flynn", 3, r#""cat", "dog", "ox""#),
    r#"scaling = "standard"
"#,
    flynn!(),
    r#"[evaluate]
held_out = 25
most = 6
learn_all = false
[privacy]
min_contributors = 1
"#,
);

/// Session of a task that is not in this crate.
const CUSTOM: &str = r#"name = "vectors"
task = "custom"
[data]
features = 3
[custom]
name = "fed-avg-2"
bytes = "00ff7f"
"#;

/// Returns `text` with the first `from` replaced.
fn replaced(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "{from}");
    text.replacen(from, to, 1)
}

/// Returns a session file of this number of peers; in the head, the first `from` is replaced.
pub(super) fn changed(head: &str, peers: usize, from: &str, to: &str) -> String {
    toml(&replaced(head, from, to), peers)
}

pub(crate) fn small_text(peers: usize) -> String {
    toml(SMALL, peers)
}

pub(crate) fn small(peers: usize) -> Session {
    Session::parse(&small_text(peers)).unwrap()
}

/// Returns the number of this peer's test identity.
pub(crate) fn number_of(session: &Session, peer: Peer) -> usize {
    (0..session.roster.len()).find(|&i| identity(i).public() == session.key(peer)).unwrap()
}

/// Returns the parameters of a session of the task `flynn`.
pub(crate) fn flynn_spec(session: &Session) -> FlynnSpec {
    let Some(spec) = session.task.get::<FlynnSpec>().copied() else { panic!("{:?}", session.task) };
    spec
}

/// Returns the context of `peer` in this session.
pub(crate) fn context(session: &Session, peer: Peer) -> Arc<Context> {
    let plan = Plan::new(session.clone(), flynn_spec(session)).aggregates();
    Arc::new(Context::new(session.settings(), peer, identity(number_of(session, peer)), plan))
}

fn shown(text: &str) -> Value {
    let session = Session::parse(text).unwrap();
    assert_eq!(Session::parse(&session.to_toml()).unwrap(), session);
    let fields: Vec<_> = session.fields().into_iter().map(|(name, hash)| json!([name, hex(hash)])).collect();
    // The other program defines the plan of a custom task.
    let plan = built_in(&session).map(|task| task.plan);
    let aggregate = |aggregate: Aggregate| json!([aggregate.name, aggregate.word_bytes, aggregate.words]);
    let plan = plan.map(|plan| plan.into_iter().map(aggregate).collect::<Vec<_>>());
    json!({
        "toml": text,
        "id": session.id().to_string(),
        "fields": fields,
        "roster": session.roster.iter().map(|entry| hex(entry.key.as_bytes())).collect::<Vec<_>>(),
        "committee": session.committee(),
        "quorum": session.quorum(),
        "min_peers": session.min_peers,
        "dimension": session.data.dimension(),
        // m, s, rho; null for tasks that train no model.
        "sizes": session.task.part::<flyswarm::tasks::ModelSpec>().map(|model| [model.m, model.s, model.rho]),
        "plan": plan,
    })
}

pub(crate) fn session() -> Value {
    let balanced = super::xclp::HEAD.replacen("power = 3", "power = 3\nbalance = true", 1);
    let patient =
        super::fedavg_xclp::HEAD.replacen("[fedavg]\n", "[fedavg]\nheld_out = 10\npatience = 2\n", 1);
    let paired = super::xclp::HEAD.replacen("power = 3", "power = 3\nhamming = \"phe\"", 1);
    let released = PRIVATE.replace("mode = \"central\"\ncolluders = 2\n", "");
    let ranged = super::fedavg::HEAD.replacen("rounds = 2", "rounds = 2\nrange = 256", 1);
    let classes =
        CUSTOM.replace("bytes = \"00ff7f\"\n", "").replace("[custom]", "classes = [\"b\", \"a\"]\n[custom]");
    let custom = |from: &str, to: &str| changed(CUSTOM, 3, from, to);
    let private = |from: &str, to: &str| changed(PRIVATE, 5, from, to);
    let voting = |fields: &str| SMALL.replacen("[data]", &format!("[committee]\n{fields}\n[data]"), 1);
    let named = voting(
        "faults = \"byzantine\"\nmembers = [\"peer-7\", \"peer-10\", \"peer-2\", \"peer-3\", \"peer-19\"]",
    );
    let evaluated = SMALL.to_owned() + "[evaluate]\n";
    let positive = evaluated.clone() + "positive = \"cat\"\n";
    let held_out = |from: &str, to: &str| changed(EVALUATE, 3, from, to);
    let models = super::glm::heads();
    let good: Vec<_> = [
        (SMALL, 3),
        (FULL, 20),
        (TUNE, 3),
        (NAMED, 3),
        (TABLE, 3),
        (&tables::pooled(), 3),
        (EVALUATE, 3),
        (&evaluated, 3),
        (super::xclp::HEAD, 7),
        (super::sketch::HEAD, 3),
        (super::sketch::SELECT, 5),
        (super::sketch::PRIVATE, 3),
        (super::fedavg::HEAD, 6),
        (super::fedavg::FULL, 3),
        (super::fedavg::OWN, 3),
        (&ranged, 3),
        (PRIVATE, 5),
        (&released, 3),
        (CUSTOM, 3),
        (&classes, 3),
        (&named, 20),
        (super::fedavg_xclp::HEAD, 4),
        (super::fedavg::PRIVATE, 5),
        (&balanced, 7),
        (&paired, 7),
        (&patient, 4),
        (&positive, 3),
        (&tables::grouped(), 3),
        (&tables::of_groups(), 3),
        (super::summary::HEAD, 4),
        (super::summary::PLAIN, 3),
        (super::summary::TWO, 4),
        (&models[0], 4),
        (&models[1], 4),
        (&models[2], 4),
        (super::glm::PLAIN, 3),
    ]
    .into_iter()
    .map(|(head, peers)| shown(&toml(head, peers)))
    .collect();
    let good_text = toml(SMALL, 3);
    let change = |from: &str, to: &str| replaced(&good_text, from, to);
    let table = |from: &str, to: &str| changed(TABLE, 3, from, to);
    let labels = |from: &str, to: &str| changed(super::xclp::HEAD, 7, from, to);
    let found = |from: &str, to: &str| changed(super::fedavg_xclp::HEAD, 4, from, to);
    let fedavg = |from: &str, to: &str| changed(super::fedavg::FULL, 3, from, to);
    let own = |from: &str, to: &str| changed(super::fedavg::OWN, 3, from, to);
    let noised = |from: &str, to: &str| changed(super::fedavg::PRIVATE, 5, from, to);
    let counted = |from: &str, to: &str| changed(super::summary::HEAD, 4, from, to);
    let model = |from: &str, to: &str| changed(&models[1], 4, from, to);
    let twice = identity(0).public().to_string();
    let bad: Vec<_> = [
        ("unknown field", change("[data]", "colour = 1\n[data]")),
        ("missing field", change("rho = 3\n", "")),
        ("another task", change("\"flynn\"", "\"xclp\"")),
        ("tune without settings", change("\"flynn\"", "\"tune\"")),
        ("settings without tune", changed(TUNE, 3, "\"tune\"", "\"flynn\"")),
        ("one fold", changed(TUNE, 3, "folds = 2", "folds = 1")),
        ("a setting whose s is above its d", changed(TUNE, 3, "\ns = 3", "\ns = 5")),
        ("two peers", toml(SMALL, 2)),
        ("min_peers below the members of a sum", change("[data]", "min_peers = 2\n[data]")),
        ("min_peers below a majority", changed(SMALL, 6, "[data]", "min_peers = 3\n[data]")),
        ("a roster too large for labels", toml(super::xclp::HEAD, 65)),
        ("a roster too large for a summary", toml(super::summary::PLAIN, 65)),
        ("groups of numbers", counted("by = \"arm\"", "by = \"age\"")),
        ("a cross table with the groups", counted("columns = \"stage\"", "columns = \"arm\"")),
        ("a grid of a category", counted("bmi = 0.5", "sex = 0.5")),
        ("three grouping columns", counted("by = \"arm\"", "by = [\"arm\", \"sex\", \"stage\"]")),
        ("a grouping column twice", counted("by = \"arm\"", "by = [\"arm\", \"arm\"]")),
        ("a range of a category", counted("bmi = [20.0, 35.0]", "sex = [0.0, 1.0]")),
        ("a range that ends where it begins", counted("[20.0, 35.0]", "[20.0, 20.0]")),
        ("a range of too many values", counted("[20.0, 35.0]", "[20.0, 9000.0]")),
        ("a range beyond the grid", counted("[20.0, 35.0]", "[600000.0, 600010.0]")),
        ("a rest above the threshold", counted("rest = 1", "rest = 4")),
        (
            "a summary that fills missing values",
            counted("fill = 25.0\nindicator = true", "fill_with = \"mean\""),
        ),
        ("a regression solved on shares", model("rest = 2", "rest = 2\nopen = \"estimates\"")),
        ("an intercept for each peer", model("rest = 2", "rest = 2\nsite_effects = true")),
        ("counts of a category", model("\"visits\"", "\"died\"")),
        ("an unknown family", model("poisson", "probit")),
        ("a term of the outcome", model("\"arm\", \"age\"", "\"arm\", \"visits\"")),
        ("a small threshold of a regression", model("threshold = 12", "threshold = 9")),
        ("a summary of scaled numbers", counted("scaling = \"none\"", "scaling = \"standard\"")),
        ("a computing member outside the roster", labels("\"peer-4\"", "\"nobody\"")),
        ("two computing members", labels(", \"peer-4\"", "")),
        ("codes of 96 bits", labels("bits = 64", "bits = 96")),
        (
            "a series that is over",
            labels("[data]", &format!("[series]\nnumber = 13\nparent = {:?}\n[data]", "ab".repeat(32))),
        ),
        ("more rows of an owner than points", labels("most_rows = 4", "most_rows = 10001")),
        ("too few steps for alpha", labels("steps = 40", "steps = 8")),
        (
            "neighbours and steps whose products do not fit",
            labels("k = 2\nalpha = 0.9\nsteps = 40", "k = 1000\nalpha = 0.999\nsteps = 600"),
        ),
        (
            "balanced scores that do not fit",
            labels("k = 2\nalpha = 0.9\nsteps = 40", "balance = true\nk = 1000\nalpha = 0.999\nsteps = 190"),
        ),
        ("balanced classes that are a number", labels("k = 2", "k = 2\nbalance = 1")),
        ("balanced classes of the task fedavg-xclp", found("[xclp]\n", "[xclp]\nbalance = true\n")),
        ("an unknown way to compute distances", labels("k = 2", "k = 2\nhamming = \"paillier\"")),
        ("distances by pairs of owners, many times", found("[xclp]\n", "[xclp]\nhamming = \"ot\"\n")),
        ("a name that leads out of a folder", change("\"vectors\"", "\"../../vectors\"")),
        ("a peer's name that leads out of a folder", change("\"peer-1\"", "\"/peer-1\"")),
        ("a class twice", change("\"dog\"", "\"cat\"")),
        ("fewer names than features", change("classes", "columns = [\"a\", \"b\"]\nclasses")),
        ("a column twice", change("classes", "columns = [\"a\", \"b\", \"a\"]\nclasses")),
        (
            "a column with a line break in its name",
            change("classes", "columns = [\"a\", \"b\", \"c\\n\"]\nclasses"),
        ),
        ("described columns and a number of features", table("classes", "features = 6\nclasses")),
        ("a fill and a fill_with", table("fill = \"\"", "fill = \"\"\nfill_with = \"most-frequent\"")),
        ("the mean of a category", table("fill = \"\"", "fill_with = \"mean\"")),
        ("the most frequent date", table("fill = \"2026-01-31\"", "fill_with = \"most-frequent\"")),
        ("a fill of an ignored column", table("\"ignored\"", "\"ignored\"\nfill_with = \"mean\"")),
        (
            "sums over values in a private session",
            toml(
                &(TABLE.replacen("fill = \"\"", MOST_FREQUENT, 1) + "[privacy]\nepsilon = 0.7\ntop = 5\n"),
                3,
            ),
        ),
        ("an indicator without a fill", table("fill = -0.0\n", "")),
        ("other texts missing without a fill", table("fill = \"\"\n", "")),
        (
            "other texts missing in a column of numbers",
            table("indicator = true", "indicator = true\nothers_missing = true"),
        ),
        ("a category without levels", table("levels = [\"m\", \"f\"]", "levels = []")),
        ("limits of a category", table("fill = \"\"", "max = 1")),
        ("a label that is a feature", table("label = \"kind\"", "label = \"sex\"")),
        ("an unknown score", change("gamma = 0.5", "gamma = 0.5\nscore = \"sum\"")),
        ("one soft bin", change("\"standard\"", "{ soft-bins = { bins = 1 } }")),
        ("gamma is 1", change("gamma = 0.5", "gamma = 1.0")),
        ("s above d", change("s = 2", "s = 4")),
        ("counts above 1 GiB", change("m = 16", "m = 134217729")),
        ("a name that changes the direction of writing", change("vectors", "a\u{202e}b")),
        ("a peer twice", change(&identity(1).public().to_string(), &twice)),
        (
            "a sketch with classes",
            changed(super::sketch::HEAD, 3, "features", "classes = [\"a\", \"b\"]\nfeatures"),
        ),
        ("a range that is not a power of two", changed(super::sketch::HEAD, 3, "range = 4", "range = 6")),
        (
            "a draw without published scores",
            changed(super::sketch::HEAD, 3, "open_distances = true", "open_distances = false"),
        ),
        ("more chosen than active", changed(super::sketch::HEAD, 3, "active = 3", "active = 1")),
        (
            "minhash of scaled rows",
            changed(super::sketch::HEAD, 3, "[sketch]", "[sketch]\nhash = \"minhash\""),
        ),
        ("flynn without classes", change("classes = [\"cat\", \"dog\"]\n", "")),
        ("an epsilon of seven places", private("0.7", "0.1234567")),
        ("an epsilon of 0", private("0.7", "0.0")),
        ("an epsilon without a top", private("top = 5\n", "")),
        ("a top without an epsilon", private("epsilon = 0.7\n", "")),
        ("a top above m x classes", private("top = 5", "top = 33")),
        ("colluders without the mode central", private("central", "parallel")),
        ("as many colluders as min_peers", private("colluders = 2", "colluders = 3")),
        ("a majority of the committee colludes", changed(PRIVATE, 3, "[data]", "min_peers = 3\n[data]")),
        ("a committee of three that may deviate", toml(&voting("faults = \"byzantine\""), 3)),
        ("another fault model", toml(&voting("faults = \"none\""), 5)),
        ("a committee of two", toml(&voting("members = [\"peer-1\", \"peer-2\"]"), 5)),
        ("a committee member twice", toml(&voting("members = [\"peer-1\", \"peer-2\", \"peer-1\"]"), 5)),
        (
            "a committee member outside the roster",
            toml(&voting("members = [\"peer-1\", \"peer-2\", \"x\"]"), 5),
        ),
        ("an epsilon with exact means", private("unit-norm", "center")),
        (
            "an epsilon with another task",
            changed(TUNE, 3, "[tune]", "[privacy]\nepsilon = 1\ntop = 1\n[tune]"),
        ),
        ("a draw of two", changed(super::sketch::SELECT, 5, "chosen = 3", "chosen = 2")),
        (
            "a draw of fewer than min_contributors",
            changed(super::sketch::SELECT, 5, "min_contributors = 1", "min_contributors = 4"),
        ),
        (
            "an unknown way to draw",
            changed(super::sketch::SELECT, 5, "select = \"sketch\"", "select = \"lot\""),
        ),
        (
            "a sketch of the task flynn without a draw",
            changed(super::sketch::SELECT, 5, "select = \"sketch\"\n", ""),
        ),
        (
            "drawn peers whose sketches are opened",
            changed(super::sketch::SELECT, 5, "rows = 5", "rows = 5\npairwise = true"),
        ),
        (
            "an epsilon with drawn peers",
            changed(super::sketch::SELECT, 5, "min_contributors = 1", "epsilon = 1\ntop = 1"),
        ),
        ("an image of another size", fedavg("[2, 8, 8]", "[2, 8, 9]")),
        ("a network without its image", fedavg("image = [2, 8, 8]\n", "")),
        ("a hidden layer of size 0", fedavg("hidden = [5]", "hidden = [0]")),
        ("patience without rows that are held out", fedavg("held_out = 10", "held_out = 0")),
        ("rounds with noise by rows", noised("equal", "rows")),
        ("rounds with noise and without a bound", noised("clip = 1.0\n", "")),
        ("rounds with noise and rows that are held out", noised("rounds = 3", "rounds = 3\nheld_out = 10")),
        ("rounds with noise without a delta", noised("delta = 1e-7\n", "")),
        ("a delta of thirteen places", noised("1e-7", "1.2345678901234e-3")),
        ("rounds with noise of rows", noised("epsilon", "mode = \"central\"\nepsilon")),
        ("a top of rounds", noised("epsilon", "top = 1\nepsilon")),
        ("noise that does not fit the words", noised("epsilon = 60.5", "epsilon = 0.5")),
        ("a delta of counts", private("epsilon", "delta = 1e-7\nepsilon")),
        ("noise of members of counts", private("\"central\"", "\"member\"")),
        ("a range of 3", fedavg("rounds = 3", "rounds = 3\nrange = 3.0")),
        ("tensors of a built-in network", own("\"own\"", "\"logistic\"")),
        ("a model without its first weights", own("initial = ", "# ")),
        ("a type that no tensor has", own("\"BF16\"", "\"F8\"")),
        ("a tensor twice", own("\"scale\"", "\"local\"")),
        ("an average of truth values", own("\"F64\"", "\"BOOL\"")),
        ("a tensor with a side of 0", own("[2, 3]", "[2, 0]")),
        ("a tensor with a range of 1000", own("1024", "1000")),
        ("nothing is averaged", own("\"average\" }", "\"first\" }").replacen("\"average\"", "\"first\"", 1)),
        ("rows of a model held out", own("rounds = 2", "rounds = 2\nheld_out = 10")),
        ("two convolutions", fedavg("[2, 3, 4]", "[2, 3]")),
        ("no rounds", fedavg("rounds = 3", "rounds = 0")),
        ("a rate of 0", fedavg("rate = 0.125", "rate = 0.0")),
        ("filters of a matrix", fedavg("\"cnn\"", "\"logistic\"")),
        ("a digest in capitals", fedavg("8899aabb", "8899AABB")),
        ("a digest of 31 bytes", fedavg("0011", "11")),
        (
            "a start from a file with the task fedavg-xclp",
            found("[fedavg]\n", &format!("[fedavg]\ninitial = \"{}\"\n", "ab".repeat(32))),
        ),
        ("rounds of the task sketch", fedavg("\"fedavg\"", "\"sketch\"")),
        ("propagations of the task fedavg", found("\"fedavg-xclp\"", "\"fedavg\"")),
        ("labels after all rounds", found("after = 1", "after = 4")),
        ("labels that are never found again", found("refresh = 2", "refresh = 0")),
        ("rounds with labels of a part of the members", found("rounds = 4", "rounds = 4\nmembers = 0.5")),
        ("a top of sketches", changed(super::sketch::PRIVATE, 3, "epsilon", "top = 1\nepsilon")),
        (
            "noise in shares on sketches",
            changed(super::sketch::PRIVATE, 3, "epsilon", "mode = \"central\"\nepsilon"),
        ),
        ("a custom task without a name", custom("name = \"fed-avg-2\"\n", "")),
        ("a custom task with a capital in its name", custom("fed-avg-2", "Fed-avg-2")),
        ("a custom task with too long a name", custom("fed-avg-2", &"x".repeat(65))),
        ("custom bytes that are not whole", custom("00ff7f", "00ff7")),
        ("custom bytes in capitals", custom("00ff7f", "00FF7F")),
        ("a custom section with another task", custom("\"custom\"", "\"sketch\"")),
        (
            "a custom task without its section",
            custom("[custom]\nname = \"fed-avg-2\"\nbytes = \"00ff7f\"\n", ""),
        ),
        ("an epsilon with a custom task", custom("[custom]", "[privacy]\nepsilon = 1\ntop = 1\n[custom]")),
        (
            "views enlarged at most every 25 hours",
            change("[flynn]", "[timing]\nregroup_interval_ms = 90000000\n[flynn]"),
        ),
        ("a session without a run_id", toml(SMALL, 3).replacen("run_id", "# run_id", 1)),
        ("a run_id in capitals", toml(SMALL, 3).replacen("f0e1", "F0E1", 1)),
        ("a run_id of 15 bytes", toml(SMALL, 3).replacen("f0e1", "f0", 1)),
        ("a session without a time", toml(SMALL, 3).replacen("created", "# created", 1)),
        ("a time without a zone", toml(SMALL, 3).replacen("06Z", "06", 1)),
        ("a time in another zone", toml(SMALL, 3).replacen("06Z", "06+01:00", 1)),
        ("a time with parts of a second", toml(SMALL, 3).replacen("06Z", "06.5Z", 1)),
        ("a first session with a parent", changed(NAMED, 3, "number = 12", "number = 1")),
        ("a parent that is not an id", changed(NAMED, 3, "00ff00", "00ff")),
        ("limits of a column that does not exist", changed(NAMED, 3, "[columns.b]", "[columns.c]")),
        ("limits without a minimum and a maximum", changed(NAMED, 3, "max = 1e30\n", "")),
        ("limits in the wrong order", changed(NAMED, 3, "min = -0.0", "min = 3.0")),
        ("a limit that is not a number", changed(NAMED, 3, "min = -0.0", "min = nan")),
        ("columns compared with an epsilon", private("scaling", "check_columns = true\nscaling")),
        ("columns compared with a custom task", custom("features = 3", "features = 3\ncheck_columns = true")),
        ("no rows held out", held_out("held_out = 25", "held_out = 0")),
        ("most rows held out", held_out("held_out = 25", "held_out = 51")),
        ("no rows of a peer held out", held_out("most = 6", "most = 0")),
        ("a positive class of three", held_out("most = 6", "positive = \"cat\"")),
        (
            "a positive class that does not exist",
            toml(&positive.replace("positive = \"cat\"", "positive = \"ox\""), 3),
        ),
        ("rows held out with another task", toml(&format!("{TUNE}[evaluate]\n"), 3)),
        ("rows held out with an epsilon", private("[privacy]", "[evaluate]\n[privacy]")),
        (
            "rows held out with drawn peers",
            changed(super::sketch::SELECT, 5, "[flynn]", "[evaluate]\n[flynn]"),
        ),
        ("fewer views than three liars can end", change("max_views = 24", "max_views = 23")),
        ("time-out of 0", change("[flynn]", "[timing]\nview_timeout_ms = 0\n[flynn]")),
    ]
    .into_iter()
    .chain(tables::bad_groups())
    .map(|(what, text)| {
        let error = Session::parse(&text).expect_err(what).to_string();
        json!({ "what": what, "toml": text, "class": "session", "text": error })
    })
    .collect();
    json!({ "about": "session files, their ids and committees (spec, section 4)", "good": good, "bad": bad, "table": tables::prepared(), "fills": tables::fills() })
}

/// Returns the id of a sum for the tests.
pub(crate) fn sum_id(slot: u32) -> SumId {
    SumId { ballot: Ballot { counter: 1, proposer: Peer(1) }, slot }
}
