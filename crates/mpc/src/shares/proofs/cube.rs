//! Products of vectors of polynomials in v variables, of degree 1 in each (Lund, Fortnow, Karloff & Nisan,
//! *Algebraic Methods for Interactive Proof Systems*, J. ACM 1992).
//!
//! The 2^v groups of a vector are the values of its polynomials at the points with coordinates 0 and 1. The
//! inner product of two such vectors is a polynomial of degree 2 in each variable. It is given by its 3^v
//! values at the points with coordinates 0, 1 and infinity, where a polynomial has its highest coefficient.
//! In each variable these three are a_0 b_0, a_1 b_1 and (a_1 - a_0) (b_1 - b_0), so they are sums of
//! products of words if the groups are words. The first coordinate is the highest digit of a point's number.

use super::extension::Extension;

/// Returns the number of values of a product.
#[must_use]
pub const fn values(variables: usize) -> usize {
    3usize.pow(variables as u32)
}

/// Returns the number of the point at which the product has the inner product of the two groups with
/// number `group`.
#[must_use]
pub fn corner(group: usize, variables: usize) -> usize {
    (0..variables).map(|bit| (group >> bit & 1) * values(bit)).sum()
}

/// Function that writes the difference of two vectors.
pub type Minus<T> = fn(&mut [T], &[T], &[T]);

/// Groups of a vector, each of the same number of entries, and space of the same size.
pub struct Groups<'a, T> {
    /// Entries, group after group.
    pub entries: &'a [T],
    /// Space for the differences of groups.
    pub spare: &'a mut [T],
    /// Writes the difference of two vectors.
    pub minus: Minus<T>,
}

impl<T> std::fmt::Debug for Groups<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Groups({} entries, <redacted>)", self.entries.len())
    }
}

impl<T> Groups<'_, T> {
    /// Returns one half of the groups.
    fn half(&mut self, upper: bool) -> Groups<'_, T> {
        let (lower, rest) = self.entries.split_at(self.entries.len() / 2);
        let entries = if upper { rest } else { lower };
        Groups { entries, spare: &mut *self.spare, minus: self.minus }
    }

    /// Returns the upper half minus the lower one.
    fn difference(&mut self) -> Groups<'_, T> {
        let (lower, upper) = self.entries.split_at(self.entries.len() / 2);
        let (difference, spare) = self.spare.split_at_mut(lower.len());
        (self.minus)(difference, upper, lower);
        Groups { entries: difference, spare, minus: self.minus }
    }
}

/// Adds up the values of the product of two vectors: `add` adds the inner product of two groups to a
/// value.
pub fn add_values<A, B, S>(
    sums: &mut [S],
    mut a: Groups<'_, A>,
    mut b: Groups<'_, B>,
    add: &mut impl FnMut(&mut S, &[A], &[B]),
) {
    if let [sum] = sums {
        return add(sum, a.entries, b.entries);
    }
    let (zero, rest) = sums.split_at_mut(sums.len() / 3);
    let (one, infinity) = rest.split_at_mut(rest.len() / 2);
    add_values(zero, a.half(false), b.half(false), add);
    add_values(one, a.half(true), b.half(true), add);
    add_values(infinity, a.difference(), b.difference(), add);
}

/// Adds the values of a product, from the inner products of all groups of the first vector (rows) with all
/// groups of the second one (columns).
pub fn add_matrix<R: Extension>(values: &mut [R], matrix: &[R]) {
    if let [value] = values {
        *value = value.plus(matrix[0]);
        return;
    }
    let half = matrix.len().isqrt() / 2;
    let quarter = |lower: usize, right: usize| -> Vec<R> {
        let rows = matrix.chunks_exact(2 * half).skip(lower * half).take(half);
        rows.flat_map(|row| &row[right * half..][..half]).copied().collect()
    };
    let [both_zero, both_one] = [0, 1].map(|half| quarter(half, half));
    let mut infinity = both_zero.clone();
    for (at, sum) in infinity.iter_mut().enumerate() {
        let (row, column) = (at / half * 2 * half, at % half);
        let mixed = matrix[row + half + column].plus(matrix[row + 2 * half * half + column]);
        *sum = sum.plus(both_one[at]).minus(mixed);
    }
    let third = values.len() / 3;
    for (values, matrix) in values.chunks_exact_mut(third).zip([both_zero, both_one, infinity]) {
        add_matrix(values, &matrix);
    }
}

/// Returns the value at a point of the polynomial with these values.
#[must_use]
pub fn value_at<R: Extension>(values: &[R], point: &[R]) -> R {
    let mut values = values.to_vec();
    for &x in point {
        let (zero, rest) = values.split_at(values.len() / 3);
        let (one, infinity) = rest.split_at(rest.len() / 2);
        let value = |((&zero, &one), &infinity): ((&R, &R), &R)| {
            // The linear coefficient is the rest of the value at 1.
            let linear = one.minus(zero).minus(infinity);
            zero.plus(x.times(linear.plus(x.times(infinity))))
        };
        values = zero.iter().zip(one).zip(infinity).map(value).collect();
    }
    values[0]
}

/// Returns the weights of the groups. The sum of the groups with these weights is the vector at the
/// point.
#[must_use]
pub fn weights<R: Extension>(point: &[R]) -> Vec<R> {
    let one = R::exceptional(1);
    point.iter().fold(vec![one], |weights, &x| {
        weights.iter().flat_map(|weight| [weight.times(one.minus(x)), weight.times(x)]).collect()
    })
}

#[cfg(test)]
mod tests {
    use flyswarm_sealed_sum::crypto::stream::Stream;

    use super::super::extension::{Galois, Gf64, draw_all};
    use super::*;

    fn product_at_a_point<R: Extension>() {
        let mut stream = Stream::new(&[4; 32], "cube", &[]);
        for variables in 0..4 {
            let (groups, columns) = (1 << variables, 3);
            let [a, b] = [(); 2].map(|()| (0..groups * columns).map(|_| R::draw(&mut stream)).collect());
            let [mut spare_a, mut spare_b]: [Vec<R>; 2] = [(); 2].map(|()| vec![R::zero(); groups * columns]);
            let (a, b): (Vec<R>, Vec<R>) = (a, b);
            let mut sums = vec![R::zero(); values(variables)];
            let minus = |to: &mut [R], a: &[R], b: &[R]| {
                to.iter_mut().zip(a.iter().zip(b)).for_each(|(to, (a, b))| *to = a.minus(*b));
            };
            add_values(
                &mut sums,
                Groups { entries: &a, spare: &mut spare_a, minus },
                Groups { entries: &b, spare: &mut spare_b, minus },
                &mut |sum, a, b| *sum = sum.plus(R::inner(a, b)),
            );
            let rows = a.chunks(columns);
            let matrix: Vec<R> = rows.flat_map(|a| b.chunks(columns).map(move |b| R::inner(a, b))).collect();
            let mut of_matrix = vec![R::exceptional(1); values(variables)];
            add_matrix(&mut of_matrix, &matrix);
            assert!(of_matrix.iter().zip(&sums).all(|(a, b)| a.minus(R::exceptional(1)) == *b));
            for (group, (a, b)) in a.chunks(columns).zip(b.chunks(columns)).enumerate() {
                assert_eq!(sums[corner(group, variables)], R::inner(a, b));
            }
            let point: Vec<R> = draw_all(&mut stream, variables).into_iter().map(R::exceptional).collect();
            let weights = weights(&point);
            let [a, b] = [&a, &b].map(|vector| {
                let groups: Vec<&[R]> = vector.chunks(columns).collect();
                R::weighted(&groups, &weights, columns)
            });
            assert_eq!(value_at(&sums, &point), R::inner(&a, &b));
        }
    }

    #[test]
    fn the_values_of_a_product_give_it_at_every_point() {
        product_at_a_point::<Gf64>();
        product_at_a_point::<Galois<u16>>();
        product_at_a_point::<Galois<u64>>();
    }
}
