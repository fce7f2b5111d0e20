//! Described columns: the rows that a table becomes, and the values that all peers use for missing ones.

use serde_json::{Value, json};

use super::hex;
use super::sessions::{PRIVATE, changed, toml};
use flyswarm::data::{Expected, Loaded, load_named};
use flyswarm::session::Session;
use flyswarm::tasks::built_in;
use flyswarm_sealed_sum::crypto::mask::Wide;

/// Session with described columns, and rows of a file as it is.
pub(super) const TABLE: &str = concat!(
    head!("flynn"),
    r#"classes = ["cat", "dog"]
[table]
decimal_comma = true
missing = ["NA", "?"]
label = "kind"
"#,
    column!("höhe", "number", "fill = -0.0", "indicator = true", "min = -1", "max = 2.5", "clip = true"),
    column!("sex", "category", r#"levels = ["m", "f"]"#, r#"fill = """#, "others_missing = true"),
    column!("seen", "date", r#"order = "day-month-year""#, r#"fill = "2026-01-31""#, r#"max = "2030-01-01""#),
    column!("id", "ignored"),
    column!("stage", "ordinal", r#"levels = ["II", "I"]"#, r#"fill = "I""#),
    flynn!(),
);

/// Rows for `TABLE`, with another delimiter, another order, an additional column, quotes, missing and
/// clipped values, and a text that is not a level.
const ROWS: &str = "kind;sex;stage;note;seen;höhe
cat;f;I;\"a;b\";1.2.1970;1,25
dog;?;;\"two
lines\";NA;
cat;m;II;;31.12.1969;1.234,5
dog;other;I;;1.1.2000;0
";

/// Line for a fill by the levels of all peers.
pub(super) const MOST_FREQUENT: &str = "fill_with = \"most-frequent\"";

/// Returns `TABLE` with all missing values filled from the values of all peers.
pub(super) fn pooled() -> String {
    let mean = "fill_with = \"mean\"";
    let fills = [("-0.0", mean), ("\"\"", MOST_FREQUENT), ("\"2026-01-31\"", mean), ("\"I\"", MOST_FREQUENT)];
    fills
        .iter()
        .fold(TABLE.to_owned(), |text, (fill, with)| text.replacen(&format!("fill = {fill}"), with, 1))
}

/// Returns `TABLE` with a group column.
pub(super) fn grouped() -> String {
    TABLE.replacen("label = ", "group = \"patient\"\nlabel = ", 1)
}

/// Returns a private session with the group as its unit: a whole group may be replaced.
pub(super) fn of_groups() -> String {
    grouped() + "[privacy]\nepsilon = 2\ntop = 5\nunit = \"group\"\ngroup_rows = 4\n"
}

/// Returns session files with groups that must be refused.
pub(super) fn bad_groups() -> Vec<(&'static str, String)> {
    let changed = |text: &str, from: &str, to: &str| changed(text, 5, from, to);
    let table = |name: &str| changed(TABLE, "label = ", &format!("group = \"{name}\"\nlabel = "));
    let groups = |from: &str, to: &str| changed(&of_groups(), from, to);
    let unit = "unit = \"group\"\ngroup_rows = 2\nepsilon";
    vec![
        ("a group column that is the label", table("kind")),
        ("a group column that is a feature", table("seen")),
        ("a group column without a name", table("")),
        ("groups in a session whose rows have no groups", changed(PRIVATE, "epsilon", unit)),
        ("groups of members", changed(super::fedavg::PRIVATE, "epsilon", unit)),
        ("another unit of privacy", groups("unit = \"group\"", "unit = \"site\"")),
        ("groups without a bound", groups("group_rows = 4\n", "")),
        ("a bound on group rows without groups as the unit", groups("unit = \"group\"\n", "")),
        ("groups of no row", groups("group_rows = 4", "group_rows = 0")),
        ("groups of too many rows", groups("group_rows = 4", "group_rows = 1001")),
        ("groups without a budget", groups("epsilon = 2\ntop = 5\n", "")),
    ]
}

/// Rows of three peers for `pooled`.
const PARTS: [&str; 3] = [
    "kind;sex;stage;seen;höhe\ncat;f;I;1.2.1970;1,25\ndog;?;;NA;\n",
    "kind;sex;stage;seen;höhe\ncat;m;II;31.12.1969;1.234,5\ncat;f;;;-0,1\n",
    "kind;sex;stage;seen;höhe\ndog;m;II;2.1.1970;?\ncat;other;I;2.1.1970;0,5\n",
];

/// Returns each peer's sums for the fills, and the filled rows.
pub(super) fn fills() -> Value {
    let text = toml(&pooled(), 3);
    let session = Session::parse(&text).unwrap();
    let before = session.data.preparation.as_deref().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows.csv");
    let parts = PARTS.map(|part| {
        std::fs::write(&file, part).unwrap();
        let classes = Some(&*session.data.classes);
        load_named(&file, &Expected { preparation: Some(before), classes, ..Expected::default() }).unwrap()
    });
    let words = |part: &Loaded| before.pooled_values(&part.data, &part.gaps);
    let bytes = |words: Vec<Wide>| hex(Wide::bytes(&words));
    let peers = parts.iter().zip(PARTS).map(|(part, csv)| {
        let held = before.pooled_held(&part.data, &part.gaps).into_iter();
        let held: Vec<u8> = held.flat_map(|held| u32::from(held).to_le_bytes()).collect();
        json!({"csv": csv, "values": hex(held), "fills": bytes(words(part))})
    });
    let peers: Vec<Value> = peers.collect();
    let total = parts
        .iter()
        .map(words)
        .reduce(|sum, own| sum.iter().zip(own).map(|(sum, own)| sum.wrapping_add(own)).collect());
    let after = before.resolved(&total.unwrap()).unwrap();
    let filled = parts.map(|part| after.filled(&part.data, &part.gaps).unwrap());
    let rows: Vec<_> = filled.iter().flat_map(|data| (0..data.rows()).map(|row| data.row(row))).collect();
    let plan = built_in(&session).unwrap().plan;
    json!({
        "toml": text,
        "plan": plan.iter().map(|each| json!([each.name, each.word_bytes, each.words])).collect::<Vec<_>>(),
        "peers": peers,
        "encoding": hex(after.encode()),
        "rows": rows,
    })
}

/// Returns the rows that a table becomes.
pub(super) fn prepared() -> Value {
    let session = Session::parse(&toml(TABLE, 3)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows.csv");
    std::fs::write(&file, ROWS).unwrap();
    let expected = Expected {
        preparation: session.data.preparation.as_deref(),
        classes: Some(&session.data.classes),
        ..Expected::default()
    };
    let rows = load_named(&file, &expected).unwrap();
    let values: Vec<&[f32]> = (0..rows.data.rows()).map(|row| rows.data.row(row)).collect();
    json!({
        "toml": toml(TABLE, 3),
        "csv": ROWS,
        "encoding": hex(session.data.preparation.as_deref().unwrap().encode()),
        "names": rows.columns,
        "rows": values,
        "labels": rows.data.labels(),
    })
}
