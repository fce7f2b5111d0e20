use std::fs;
use std::path::Path;

use clap::Parser;
use flyswarm_data::digits::digits;

use super::Benchmark;
use crate::Failure;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    benchmark: Benchmark,
}

/// Runs a command line with folders below `folder`.
fn run_line(folder: &Path, line: &str) -> Result<String, Failure> {
    let Line { mut benchmark } = Line::try_parse_from(line.split_whitespace()).unwrap();
    benchmark.out = folder.join(benchmark.out);
    benchmark.folder = benchmark.folder.map(|sets| folder.join(sets));
    benchmark.run()
}

const LINE: &str = "benchmark sets --out results --rows 60 --outer 2 --inner 2 --budget 4 --max-m 512";

/// Makes a folder `sets` with the first digits, and with the same digits plus a feature of millions, a
/// constant feature and duplicated rows.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("sets")).unwrap();
    let data = digits();
    let mut texts = [String::new(), String::new()];
    for i in 0..60 {
        let row: String = data.row(i).iter().map(|x| format!("{x},")).collect();
        texts[0] += &format!("{row}{}\n", data.labels()[i]);
        texts[1] += &format!("{row}2e6,7,{}\n", data.labels()[i]).repeat(2);
    }
    for (name, text) in ["first.csv", "second.csv"].into_iter().zip(texts) {
        fs::write(folder.path().join("sets").join(name), text).unwrap();
    }
    fs::write(folder.path().join("sets/notes.txt"), "no set").unwrap();
    folder
}

#[test]
fn every_set_of_a_folder_becomes_a_line_and_a_file() {
    let folder = folder();
    let text = run_line(folder.path(), LINE).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[3].starts_with("first") && lines[4].starts_with("second"), "{text}");
    // Every method has a figure, even with a very large feature.
    assert!(!lines[3].contains(" - ") && !lines[4].contains(" - "), "{text}");
    assert!(text.contains("OPTIMISTIC") && text.contains("W/T/L"), "{text}");
    assert!(text.lines().any(|line| line.starts_with("FlyNN ") && line.contains("SBFC")), "{text}");

    // A second run uses the stored results.
    let file = folder.path().join("results/first.json");
    let stored = fs::read_to_string(&file).unwrap();
    let mut value: serde_json::Value = serde_json::from_str(&stored).unwrap();
    value["figures"]["balanced"]["sbfc"]["nested"] = 0.123_45.into();
    fs::write(&file, value.to_string()).unwrap();
    fs::remove_file(folder.path().join("results/second.json")).unwrap();
    let again = run_line(folder.path(), LINE).unwrap();
    assert!(again.contains("0.1235"), "{again}");
    assert_eq!(again.lines().nth(4), text.lines().nth(4), "a second evaluation gives the same result");
    let json: serde_json::Value =
        serde_json::from_str(&run_line(folder.path(), &format!("{LINE} --json")).unwrap()).unwrap();
    assert_eq!(
        (json["sets"].as_array().map(Vec::len), json["comparisons"].as_array().map(Vec::len)),
        (Some(2), Some(24))
    );
}

#[test]
fn a_header_is_a_header_and_no_row() {
    let folder = folder();
    let path = folder.path().join("sets/first.csv");
    let header: String = (0..64).map(|i| format!("p{i},")).collect();
    let line = format!("{LINE} --only first --json");
    let rows = |folder: &std::path::Path| {
        let json: serde_json::Value = serde_json::from_str(&run_line(folder, &line).unwrap()).unwrap();
        json["sets"][0]["figures"].clone()
    };
    let bare = rows(folder.path());
    fs::remove_dir_all(folder.path().join("results")).unwrap();
    fs::write(&path, format!("{header}digit\n{}", fs::read_to_string(&path).unwrap())).unwrap();
    assert!(!bare.is_null());
    assert_eq!(rows(folder.path()), bare);
}

#[test]
fn what_cannot_be_evaluated_is_refused_in_one_line_and_nothing_is_written_for_it() {
    let folder = folder();
    let refused = |line: &str, part: &str| {
        let error = run_line(folder.path(), line).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(part) && !text.contains('\n'), "{line}: {text}");
    };
    refused("benchmark none --out results", "none: ");
    refused("benchmark results --out results", "results: ");
    fs::create_dir(folder.path().join("empty")).unwrap();
    refused("benchmark empty --out results", "empty: no data set to evaluate");
    fs::write(folder.path().join("sets/first.csv"), "1,2,a\n3,NaN,b\n").unwrap();
    refused(LINE, "first.csv, line 2, column 2: found \"NaN\"");
    fs::write(folder.path().join("sets/first.csv"), "1,2,a\n3,4,a\n").unwrap();
    refused(LINE, "first.csv: one class only");
    assert!(fs::read_dir(folder.path().join("results")).unwrap().next().is_none());
    fs::write(folder.path().join("results/first.json"), "{}").unwrap();
    refused(LINE, "first.json: not a result of this command");
}

#[test]
fn results_of_other_options_are_not_overwritten() {
    let folder = folder();
    fs::remove_file(folder.path().join("sets/second.csv")).unwrap();
    run_line(folder.path(), LINE).unwrap();
    let before = fs::read(folder.path().join("results/first.json")).unwrap();
    let error = run_line(folder.path(), &LINE.replace("--rows 60", "--rows 50")).unwrap_err().to_string();
    assert!(error.contains("first.json: was made with other options (Plan { rows: 60"), "{error}");
    assert_eq!(fs::read(folder.path().join("results/first.json")).unwrap(), before);
}

#[test]
fn made_up_sets_are_grouped_by_their_shape() {
    let folder = tempfile::tempdir().unwrap();
    let line = "benchmark --synthetic 2 --out results --only real-1000-50 --rows 80 --outer 2 --inner 2 --budget 3 --max-m 512";
    let text = run_line(folder.path(), line).unwrap();
    let row = text.lines().find(|line| line.starts_with("real-1000-50")).unwrap();
    assert_eq!(row.split_whitespace().nth(1), Some("2"), "{text}");
    assert!(folder.path().join("results/real-1000-50-1.json").is_file());
}
