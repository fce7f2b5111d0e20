//! Deals the rows of one data set to peers, for simulations. Every peer gets row indices in ascending
//! order.

use flyswarm_sealed_sum::crypto::stream::Stream;

use super::split::by_class;

/// Reason why rows could not be dealt. No row was dealt.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum DealError {
    /// More peers than rows, or no peer at all.
    #[error("{rows} rows for {peers} peers, expected at least one peer, and at least one row for each")]
    TooFewRows {
        /// Rows to deal.
        rows: usize,
        /// Peers to deal to.
        peers: usize,
    },
    /// More holders of a class were requested than there are peers.
    #[error("every class is to be held by {holders} peers, expected 1 to {peers}")]
    Holders {
        /// Holders that were requested.
        holders: usize,
        /// Number of peers.
        peers: usize,
    },
    /// A class has fewer rows than holders.
    #[error("class {class} has {rows} rows, expected at least one for each of its {holders} holders")]
    SmallClass {
        /// Index of the class.
        class: usize,
        /// Number of rows of the class.
        rows: usize,
        /// Number of peers that must hold the class.
        holders: usize,
    },
}

/// Shuffles in place (Fisher and Yates, from the end down) with integers from `stream`.
///
/// # Panics
/// If there are 2^32 items or more.
pub fn shuffle<T>(items: &mut [T], stream: &mut Stream) {
    for i in (1..items.len()).rev() {
        let bound =
            u32::try_from(i + 1).unwrap_or_else(|_| panic!("{} items to shuffle, below 2^32", items.len()));
        items.swap(i, stream.below(bound) as usize);
    }
}

/// Shuffles all rows and deals them one after another, so that the sizes differ by at most one.
///
/// # Errors
/// [`DealError::TooFewRows`].
pub fn even(rows: usize, peers: usize, seed: &[u8]) -> Result<Vec<Vec<usize>>, DealError> {
    if peers == 0 || rows < peers {
        return Err(DealError::TooFewRows { rows, peers });
    }
    let mut order: Vec<usize> = (0..rows).collect();
    shuffle(&mut order, &mut Stream::new(seed, "data/deal/even", &[]));
    let mut dealt = vec![Vec::new(); peers];
    for (i, row) in order.into_iter().enumerate() {
        dealt[i % peers].push(row);
    }
    Ok(sorted(dealt))
}

/// Deals each class to few peers and in uneven parts (not identically distributed, as in the paper's
/// Remark 5).
///
/// Every class is held by exactly max(`min_holders`, peers / classes rounded up) peers, so that every peer
/// gets rows. The holders of a class are neighbours in a shuffled circle of the peers. Each holder gets
/// one row. The other rows of the class are shared in proportion to a weight of 1 to 8, drawn from the
/// seed. `labels` are class indices below `classes`.
///
/// # Errors
/// [`DealError`] if a class has fewer rows than holders or the numbers do not fit each other.
pub fn by_classes(
    labels: &[u16],
    classes: usize,
    peers: usize,
    min_holders: usize,
    seed: &[u8],
) -> Result<Vec<Vec<usize>>, DealError> {
    if peers == 0 || labels.len() < peers {
        return Err(DealError::TooFewRows { rows: labels.len(), peers });
    }
    if min_holders == 0 || min_holders > peers {
        return Err(DealError::Holders { holders: min_holders, peers });
    }
    let holders = min_holders.max(peers.div_ceil(classes.max(1)));
    let mut rows_of = by_class(labels);
    rows_of.resize(classes.max(rows_of.len()), Vec::new());
    if let Some((class, rows)) = rows_of.iter().enumerate().find(|(_, rows)| rows.len() < holders) {
        return Err(DealError::SmallClass { class, rows: rows.len(), holders });
    }

    let mut stream = Stream::new(seed, "data/deal/classes", &[]);
    let mut circle: Vec<usize> = (0..peers).collect();
    shuffle(&mut circle, &mut stream);
    let mut dealt = vec![Vec::new(); peers];
    for (class, mut rows) in rows_of.into_iter().enumerate() {
        shuffle(&mut rows, &mut stream);
        let weights: Vec<usize> = (0..holders).map(|_| 1 + stream.below(8) as usize).collect();
        let (total, spare) = (weights.iter().sum::<usize>(), rows.len() - holders);
        let (mut from, mut weight) = (0, 0);
        for (place, w) in weights.into_iter().enumerate() {
            weight += w;
            let to = place + 1 + spare * weight / total;
            dealt[circle[(class * holders + place) % peers]].extend_from_slice(&rows[from..to]);
            from = to;
        }
    }
    Ok(sorted(dealt))
}

/// Cuts each class into shares drawn from a symmetric Dirichlet distribution. With `alpha` = 0.1, one or
/// two peers get most of a class; with 100, all peers get nearly the same. A peer may get few rows, or
/// none.
///
/// # Errors
/// [`DealError::TooFewRows`].
pub fn dirichlet(
    labels: &[u16],
    classes: usize,
    peers: usize,
    alpha: f64,
    seed: &[u8],
) -> Result<Vec<Vec<usize>>, DealError> {
    if peers == 0 || labels.len() < peers {
        return Err(DealError::TooFewRows { rows: labels.len(), peers });
    }
    let mut stream = Stream::new(seed, "data/deal/dirichlet", &[]);
    let mut rows_of = by_class(labels);
    rows_of.resize(classes.max(rows_of.len()), Vec::new());
    let mut dealt = vec![Vec::new(); peers];
    for mut rows in rows_of {
        shuffle(&mut rows, &mut stream);
        let weights: Vec<f64> = (0..peers).map(|_| gamma_variate(alpha, &mut stream)).collect();
        let total: f64 = weights.iter().sum();
        let (mut from, mut weight) = (0, 0.0);
        for (place, w) in weights.into_iter().enumerate() {
            weight += w;
            let exact = rows.len() as f64 * weight / total;
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a share of the rows"
            )]
            let to = if place + 1 == peers { rows.len() } else { (exact as usize).clamp(from, rows.len()) };
            dealt[place].extend_from_slice(&rows[from..to]);
            from = to;
        }
    }
    Ok(sorted(dealt))
}

/// Deals the same number of rows to every peer, each with its own mix of classes.
///
/// The mix is drawn from a symmetric Dirichlet distribution. Its concentration grows from the first peer
/// to the last (`alphas`), evenly in its logarithm: 0.1 gives nearly one class, 10 gives nearly equal
/// shares. A tenth of the rows is not dealt, so that the classes do not run out. If a class runs out
/// anyway, later mixes leave it out.
///
/// # Errors
/// [`DealError::TooFewRows`].
pub fn mixes(
    labels: &[u16],
    classes: usize,
    peers: usize,
    alphas: (f64, f64),
    seed: &[u8],
) -> Result<Vec<Vec<usize>>, DealError> {
    let each = labels.len() / 10 * 9 / peers.max(1);
    if each == 0 || peers == 0 {
        return Err(DealError::TooFewRows { rows: labels.len(), peers });
    }
    let mut stream = Stream::new(seed, "data/deal/mixes", &[]);
    let mut rows_of = by_class(labels);
    rows_of.resize(classes.max(rows_of.len()), Vec::new());
    rows_of.iter_mut().for_each(|rows| shuffle(rows, &mut stream));
    let mut deal = |peer: usize| {
        let along = peer as f64 / (peers - 1).max(1) as f64;
        let alpha = alphas.0 * libm::pow(alphas.1 / alphas.0, along);
        let weights: Vec<f64> = rows_of.iter().map(|_| gamma_variate(alpha, &mut stream)).collect();
        let mut own = Vec::with_capacity(each);
        for _ in 0..each {
            let left: f64 =
                weights.iter().zip(&rows_of).filter(|(_, rows)| !rows.is_empty()).map(|(w, _)| w).sum();
            let mut point = uniform(&mut stream) * left;
            // Because of rounding, the drawn point may lie above the last class.
            let mut from = None;
            for (rows, weight) in rows_of.iter_mut().zip(&weights).filter(|(rows, _)| !rows.is_empty()) {
                from = Some(rows);
                if point < *weight {
                    break;
                }
                point -= weight;
            }
            own.extend(from.and_then(Vec::pop));
        }
        own
    };
    let dealt = (0..peers).map(&mut deal).collect();
    Ok(sorted(dealt))
}

/// Returns a number uniform in (0, 1), with 32 random bits.
fn uniform(stream: &mut Stream) -> f64 {
    (f64::from(stream.next_u32()) + 0.5) / 4_294_967_296.0
}

/// Draws a gamma variate with scale 1 by Marsaglia and Tsang, "A Simple Method for Generating Gamma
/// Variables" (ACM TOMS 2000); for shapes below 1 by their section 6. Uses `libm`, so that the result is
/// the same on every machine.
fn gamma_variate(shape: f64, stream: &mut Stream) -> f64 {
    if shape < 1.0 {
        let power = libm::pow(uniform(stream), 1.0 / shape);
        // The result is never 0, because some peer must get the rows.
        return (gamma_variate(shape + 1.0, stream) * power).max(f64::MIN_POSITIVE);
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / libm::sqrt(9.0 * d);
    loop {
        let radius = libm::sqrt(-2.0 * libm::log(uniform(stream)));
        let x = radius * libm::cos(std::f64::consts::TAU * uniform(stream));
        let v = (1.0 + c * x) * (1.0 + c * x) * (1.0 + c * x);
        if v > 0.0 && libm::log(uniform(stream)) < 0.5 * x * x + d * (1.0 - v + libm::log(v)) {
            return d * v;
        }
    }
}

fn sorted(mut dealt: Vec<Vec<usize>>) -> Vec<Vec<usize>> {
    dealt.iter_mut().for_each(|rows| rows.sort_unstable());
    dealt
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digits::digits;

    #[test]
    fn every_row_is_dealt_once_whatever_the_way() {
        let data = digits();
        for dealt in [
            even(data.rows(), 7, b"s").unwrap(),
            by_classes(data.labels(), 10, 7, 3, b"s").unwrap(),
            by_classes(data.labels(), 10, 40, 1, b"s").unwrap(),
            dirichlet(data.labels(), 10, 7, 0.5, b"s").unwrap(),
        ] {
            assert!(dealt.iter().all(|rows| !rows.is_empty()));
            let mut all = dealt.concat();
            all.sort_unstable();
            assert_eq!(all, (0..data.rows()).collect::<Vec<_>>());
        }
    }

    #[test]
    fn even_sizes_differ_by_at_most_one() {
        let sizes: Vec<_> = even(100, 7, b"s").unwrap().iter().map(Vec::len).collect();
        assert_eq!(sizes, [15, 15, 14, 14, 14, 14, 14]);
    }

    #[test]
    fn every_class_has_its_holders_and_parts_are_uneven() {
        let data = digits();
        let dealt = by_classes(data.labels(), 10, 8, 3, b"s").unwrap();
        for class in 0..10u16 {
            let holders = dealt.iter().filter(|rows| rows.iter().any(|&i| data.labels()[i] == class)).count();
            assert_eq!(holders, 3, "class {class}");
        }
        let sizes: Vec<_> = dealt.iter().map(Vec::len).collect();
        assert!(sizes.iter().max() >= sizes.iter().min().map(|min| min * 3 / 2).as_ref(), "{sizes:?}");
        assert_eq!(dealt, by_classes(data.labels(), 10, 8, 3, b"s").unwrap());
        assert_ne!(dealt, by_classes(data.labels(), 10, 8, 3, b"t").unwrap());
    }

    #[test]
    fn a_small_alpha_gives_classes_to_few_and_a_large_one_to_all_alike() {
        let data = digits();
        // The largest share of a class, averaged over the classes.
        let largest = |alpha| {
            let dealt = dirichlet(data.labels(), 10, 5, alpha, b"s").unwrap();
            let share = |class: u16| {
                let of = |rows: &Vec<usize>| rows.iter().filter(|&&i| data.labels()[i] == class).count();
                dealt.iter().map(of).max().unwrap() as f64 / dealt.iter().map(of).sum::<usize>() as f64
            };
            (0..10).map(share).sum::<f64>() / 10.0
        };
        let (few, all) = (largest(0.1), largest(1000.0));
        assert!(few > 0.6 && all < 0.25, "{few} {all}");
    }

    #[test]
    fn mixes_are_of_one_size_and_from_nearly_one_class_to_nearly_all_alike() {
        let data = digits();
        let dealt = mixes(data.labels(), 10, 8, (0.05, 50.0), b"s").unwrap();
        assert!(dealt.iter().all(|rows| rows.len() == data.rows() / 10 * 9 / 8));
        let mut all = dealt.concat();
        all.sort_unstable();
        assert!(all.is_sorted_by(|a, b| a < b), "no row twice");
        let largest = |rows: &Vec<usize>| {
            let of = |class: u16| rows.iter().filter(|&&i| data.labels()[i] == class).count();
            (0..10).map(of).max().unwrap() as f64 / rows.len() as f64
        };
        assert!(
            largest(&dealt[0]) > 0.6 && largest(&dealt[7]) < 0.25,
            "{} {}",
            largest(&dealt[0]),
            largest(&dealt[7])
        );
        assert_eq!(mixes(&[0, 1], 2, 3, (1.0, 1.0), b"s"), Err(DealError::TooFewRows { rows: 2, peers: 3 }));
    }

    #[test]
    fn numbers_that_cannot_be_dealt_are_refused() {
        assert_eq!(even(2, 3, b"s"), Err(DealError::TooFewRows { rows: 2, peers: 3 }));
        let labels = [0, 0, 0, 1];
        assert_eq!(by_classes(&labels, 2, 3, 4, b"s"), Err(DealError::Holders { holders: 4, peers: 3 }));
        assert_eq!(
            by_classes(&labels, 2, 3, 1, b"s"),
            Err(DealError::SmallClass { class: 1, rows: 1, holders: 2 })
        );
    }
}
