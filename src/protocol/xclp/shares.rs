//! Labels as two shares, and scores from two (spec, section "Propagation").
//!
//! An owner sends the first propagator its label rows plus R and the second the seed of R. Propagation is
//! linear, so that the difference of what the two arrive at is the propagated labels. Both add the same mask
//! mod 2^128 before they send an owner its rows: without it the propagated R would show the owner its
//! surroundings in the graph.

use crate::crypto::stream::{Stream, derive};
use crate::model::propagation::series::{LARGEST, ONE, number};
use crate::protocol::ballot::Ballot;
use crate::session::Peer;

/// R: rows x classes numbers of 80 bits around 0, from 16 bytes each.
#[must_use]
pub fn mask(seed: &[u8; 32], entries: usize) -> Vec<i128> {
    uniform(&mut Stream::new(seed, "labels", &[]), entries)
        .into_iter()
        .map(|x| (x & (LARGEST - 1)) - LARGEST / 2)
        .collect()
}

/// The label rows plus R. A row without a label is 0.
#[must_use]
pub fn masked(labels: &[Option<u16>], classes: usize, seed: &[u8; 32]) -> Vec<i128> {
    let mut out = mask(seed, labels.len() * classes);
    for (row, label) in out.chunks_mut(classes).zip(labels) {
        if let Some(entry) = label.and_then(|label| row.get_mut(usize::from(label))) {
            *entry += ONE;
        }
    }
    out
}

/// The message of a propagator to an owner: its rows of the scores, then the sums of the columns of all
/// shares, each plus a mask that both propagators draw from the key that they share.
#[must_use]
pub fn result(pair: &[u8; 32], ballot: Ballot, owner: Peer, scores: &[i128], sums: &[i128]) -> Vec<i128> {
    let mut params = ballot.to_bytes().to_vec();
    params.extend(owner.0.to_le_bytes());
    let key = derive(pair, "scores", &params);
    let masks = uniform(&mut Stream::new(&*key, "mask", &[]), scores.len() + sums.len());
    scores.iter().chain(sums).zip(masks).map(|(x, mask)| x.wrapping_add(mask)).collect()
}

/// The owner's scores (rows x classes) and how many labels of each class there are, from both results.
///
/// # Errors
/// When the column sums are no counts of at most `points`.
pub fn opened(
    one: &[i128],
    two: &[i128],
    classes: usize,
    points: usize,
) -> Result<(Vec<f64>, Vec<u64>), String> {
    let difference: Vec<i128> = one.iter().zip(two).map(|(a, b)| a.wrapping_sub(*b)).collect();
    let (scores, sums) = difference.split_at(difference.len().saturating_sub(classes));
    let count = |&sum: &i128| match u64::try_from(sum / ONE) {
        Ok(count) if sum % ONE == 0 && count <= points as u64 => Ok(count),
        _ => Err("the propagators' column sums are no counts of labels".to_owned()),
    };
    Ok((scores.iter().map(|&z| number(z)).collect(), sums.iter().map(count).collect::<Result<_, _>>()?))
}

fn uniform(stream: &mut Stream, entries: usize) -> Vec<i128> {
    let mut bytes = vec![0; 16 * entries];
    stream.fill(&mut bytes);
    from_bytes(&bytes)
}

/// Numbers of 16 bytes, little-endian, two's complement.
#[must_use]
pub fn from_bytes(bytes: &[u8]) -> Vec<i128> {
    bytes.as_chunks().0.iter().map(|&word| i128::from_le_bytes(word)).collect()
}

/// The bytes of numbers.
#[must_use]
pub fn to_bytes(numbers: &[i128]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_difference_of_the_shares_is_the_labels_and_their_counts() {
        let labels = [Some(1), None, Some(0), Some(1)];
        let (one, two) = (masked(&labels, 3, &[9; 32]), mask(&[9; 32], 12));
        assert!(one.iter().chain(&two).all(|x| x.abs() < LARGEST));
        assert!(two.iter().any(|x| x.abs() > LARGEST / 8), "masks of 80 bits");
        let sums =
            |share: &[i128]| (0..3).map(|c| share.iter().skip(c).step_by(3).sum()).collect::<Vec<i128>>();
        let ballot = Ballot { counter: 1, proposer: Peer(0) };
        let send = |share: &[i128]| result(&[5; 32], ballot, Peer(2), share, &sums(share));
        let (scores, counts) = opened(&send(&one), &send(&two), 3, 4).unwrap();
        assert_eq!(scores, [0., 1., 0., 0., 0., 0., 1., 0., 0., 0., 1., 0.]);
        assert_eq!(counts, [1, 2, 0]);
        assert!(opened(&send(&one), &send(&one)[1..], 3, 4).is_err());
    }

    #[test]
    fn numbers_travel_as_little_endian_bytes() {
        let numbers = [-1, 5, i128::MIN];
        assert_eq!(from_bytes(&to_bytes(&numbers)), numbers);
    }
}
