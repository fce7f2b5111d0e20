//! Counts columns of real data sets that are wrongly reported as having other units. The figures are in
//! lab/tables/quality.md, "Columns next to the pool".

use std::path::{Path, PathBuf};

use super::*;
use crate::data::{Expected, load_named};

/// Number of peers that a set is dealt to.
const PEERS: usize = 5;
/// Number of rows of the second peer that have a code in every column.
const CODES: usize = 9;

/// Deals the rows of a data set in three ways: at random, by classes (each class goes to two peers), and in
/// the order of the file. In some files the rows are sorted by class.
fn deals(data: &Dataset) -> [Option<Vec<Dataset>>; 3] {
    let dealt = |rows: Vec<Vec<usize>>| rows.iter().map(|rows| data.subset(rows)).collect();
    let in_order: Vec<_> = (0..data.rows()).collect();
    let classes = deal::by_classes(data.labels(), data.classes().len(), PEERS, 2, &[1; 32]);
    [
        deal::even(data.rows(), PEERS, &[1; 32]).ok().map(dealt),
        classes.ok().map(dealt),
        Some(dealt(in_order.chunks(data.rows().div_ceil(PEERS)).map(<[_]>::to_vec).collect())),
    ]
}

fn with_codes(data: &Dataset) -> Dataset {
    let mut values = data.values().to_vec();
    values[..CODES.min(data.rows()) * data.features()].fill(-999.0);
    Dataset::new(data.features(), values, Vec::new(), Vec::new()).unwrap()
}

/// Counts the columns that peers without codes report as having other units.
fn units(sums: ColumnSums, peers: &[Dataset], coded: bool) -> usize {
    let honest = told_each(sums, peers).into_iter().enumerate().filter(|(peer, _)| !coded || *peer != 1);
    honest.flat_map(|(_, found)| found).filter(|(_, odd)| !matches!(odd, Anomaly::Constant(..))).count()
}

#[test]
#[ignore = "reads the sets of FLYSWARM_SETS"]
fn honest_peers_of_real_sets_hear_of_few_columns_in_other_units() {
    let folder =
        std::env::var_os("FLYSWARM_SETS").expect("FLYSWARM_SETS: a folder of CSV files, the label last");
    let entries = std::fs::read_dir(Path::new(&folder)).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let sets: Vec<Dataset> =
        paths.iter().map(|path| load_named(path, &Expected::default()).unwrap().data).collect();
    assert!(!sets.is_empty(), "no set");
    println!("{} sets; columns reported as having other units, at peers without codes", sets.len());
    println!("codes at a peer  dealt          of columns  typical rows  all rows alone");
    let ways = ["at random", "by classes", "in file order"];
    for coded in [false, true] {
        for (at, way) in ways.into_iter().enumerate() {
            let (mut columns, mut told) = (0, [0; 2]);
            for data in &sets {
                let [ref a, ref b, ref c] = deals(data);
                let Some(peers) = [a, b, c][at] else { continue };
                let mut peers = peers.clone();
                if coded {
                    peers[1] = with_codes(&peers[1]);
                }
                columns += (PEERS - usize::from(coded)) * data.features();
                let sums = [ColumnSums::Compared, ColumnSums::Spreads];
                told.iter_mut().zip(sums).for_each(|(told, sums)| *told += units(sums, &peers, coded));
            }
            let codes = if coded { "yes" } else { "no" };
            println!("{codes:<15}  {way:<13}  {columns:>10}  {:>12}  {:>14}", told[0], told[1]);
            assert!(told[0] * 20 <= columns, "{way}: {told:?} of {columns}");
        }
    }
}
