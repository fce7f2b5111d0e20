//! Computes exp(-x) between two integers, to any precision. The rare draw that a coarser bound does not
//! decide needs this.

use num_bigint::BigUint;

/// Returns bounds lo <= 2^`bits` exp(-`numerator` / `denominator`) <= hi that are a few units apart.
///
/// The computation uses fixed-point numbers with `guard` more bits. The terms of the series of exp(-z), z
/// below 1, are rounded down one after another. The error of each term is less than 2 units, and at most
/// `places` terms are not 0. So the error of the sum is at most E = 2 `places` + 2. The error of a product of
/// two numbers up to 1, rounded down, is at most the sum of the errors of its factors, plus 2. So the error
/// of exp(-whole) exp(-z) is at most (whole + 1) (E + 2).
pub(super) fn bounds(numerator: u128, denominator: u128, bits: u64) -> (BigUint, BigUint) {
    let whole = numerator / denominator;
    let one = BigUint::from(1u8);
    // exp(-bits) is below 2^-bits.
    let Some(whole) = u32::try_from(whole).ok().filter(|&whole| u64::from(whole) <= bits) else {
        return (BigUint::ZERO, one);
    };
    let guard = 32 + u64::from(u32::BITS - whole.leading_zeros());
    let places = bits + guard;
    let mut value = series(numerator % denominator, denominator, places);
    let mut base = series(1, 1, places);
    let mut exponent = whole;
    while exponent > 0 {
        if exponent % 2 == 1 {
            value = (value * &base) >> places;
        }
        base = (&base * &base) >> places;
        exponent /= 2;
    }
    let off = BigUint::from(u64::from(whole) + 1) * (2 * places + 4);
    let low = if value > off { &value - &off } else { BigUint::ZERO };
    (low >> guard, ((value + off) >> guard) + one)
}

/// Returns 2^`places` exp(-z), where z = `numerator` / `denominator` is at most 1.
fn series(numerator: u128, denominator: u128, places: u64) -> BigUint {
    let mut term = BigUint::from(1u8) << places;
    // Each term is smaller than the one before, so the sum of the positive terms is never below that of the
    // negative terms.
    let (mut positive, mut negative) = (term.clone(), BigUint::ZERO);
    for k in 1u128.. {
        term = term * numerator / denominator / k;
        if term == BigUint::ZERO {
            break;
        }
        if k % 2 == 1 { negative += &term } else { positive += &term }
    }
    positive - negative
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_hold_exp_between_them_and_tighten() {
        // exp(-1), exp(-1/3) and exp(-10.5) from their known decimal expansions, times 10^30.
        for (numerator, denominator, expansion) in [
            (1, 1, 367_879_441_171_442_321_595_523_770_161u128),
            (1, 3, 716_531_310_573_789_250_425_604_096_925),
            (21, 2, 27_536_449_349_747_157_857_411_097),
        ] {
            for bits in [8, 64, 90] {
                let (low, high) = bounds(numerator, denominator, bits);
                let scaled = (BigUint::from(expansion) << bits) / BigUint::from(10u8).pow(30);
                assert!(
                    low <= scaled && scaled <= high,
                    "{numerator}/{denominator} at {bits}: {low} {scaled} {high}"
                );
                assert!(&high - &low <= BigUint::from(2u8));
            }
        }
        assert_eq!(bounds(0, 1, 64).0, (BigUint::from(1u8) << 64u8) - 1u8);
        assert_eq!(bounds(u128::MAX, 1, 64), (BigUint::ZERO, BigUint::from(1u8)));
        let (mut wide, mut narrow) = (bounds(45, 1, 64), bounds(45, 1, 640));
        assert!(wide.0 == BigUint::ZERO && narrow.0 > BigUint::ZERO);
        (wide.1, narrow.1) = (wide.1 << 576u32, narrow.1);
        assert!(narrow.1 <= wide.1);
    }
}
