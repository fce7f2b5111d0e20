//! Normal, t and chi-square distribution: p values and the factors of confidence intervals. All are
//! computed with the crate `libm`.

/// Returns the probability that a normal number is beyond `z` on either side.
#[must_use]
pub fn normal_p(z: f64) -> f64 {
    libm::erfc(z.abs() / std::f64::consts::SQRT_2)
}

/// Returns the probability that a number of Student's t distribution is beyond `t` on either side.
#[must_use]
pub fn student_p(t: f64, freedom: f64) -> f64 {
    if !t.is_finite() {
        return if t.is_nan() { f64::NAN } else { 0.0 };
    }
    incomplete_beta(freedom / 2.0, 0.5, freedom / (freedom + t * t), t * t / (freedom + t * t))
}

/// Returns the probability that a number of the chi-square distribution is above `x`.
#[must_use]
pub fn chi_square_p(x: f64, freedom: f64) -> f64 {
    upper_gamma(freedom / 2.0, x / 2.0)
}

/// Returns the number z with `p(z)` = 1 - `level`, for example 1.96 for 0.95 and the normal distribution.
#[must_use]
pub fn factor(level: f64, p: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (0.0f64, 1.0f64);
    while p(high) > 1.0 - level && high < 1e12 {
        high *= 2.0;
    }
    // 200 halvings reach the last bit.
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if p(middle) > 1.0 - level { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

/// Returns the regularised incomplete beta function at x; `rest` is 1 - x.
fn incomplete_beta(a: f64, b: f64, x: f64, rest: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if rest <= 0.0 {
        return 1.0;
    }
    let log = log_gamma(a + b) - log_gamma(a) - log_gamma(b) + a * libm::log(x) + b * libm::log1p(-x);
    let front = libm::exp(log);
    match x < (a + 1.0) / (a + b + 2.0) {
        true => front * fraction(a, b, x) / a,
        false => 1.0 - front * fraction(b, a, rest) / b,
    }
}

fn log_gamma(x: f64) -> f64 {
    libm::lgamma(x)
}

/// Keeps a denominator of a continued fraction away from 0.
fn kept(x: f64) -> f64 {
    if x.abs() < 1e-300 { 1e-300 } else { x }
}

/// Returns the regularised upper incomplete gamma function Q(a, x): a series below a + 1, a continued
/// fraction above it (Press et al., *Numerical Recipes*, section 6.2).
fn upper_gamma(a: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 1.0;
    }
    let scale = libm::exp(a * libm::log(x) - x - log_gamma(a));
    if x < a + 1.0 {
        let (mut term, mut sum) = (a.recip(), a.recip());
        for step in 1..10_000 {
            term *= x / (a + f64::from(step));
            sum += term;
            if term < sum * 1e-16 {
                break;
            }
        }
        return (1.0 - scale * sum).clamp(0.0, 1.0);
    }
    let mut b = x + 1.0 - a;
    let (mut c, mut d) = (1e300, 1.0 / b);
    let mut value = d;
    for step in 1..10_000 {
        let step = f64::from(step);
        b += 2.0;
        d = kept(-step * (step - a) * d + b).recip();
        c = kept(b - step * (step - a) / c);
        value *= c * d;
        if (c * d - 1.0).abs() < 1e-15 {
            break;
        }
    }
    (scale * value).clamp(0.0, 1.0)
}

/// Returns the continued fraction of the incomplete beta function, by Lentz's method.
fn fraction(a: f64, b: f64, x: f64) -> f64 {
    let (mut c, mut d) = (1.0, 1.0 / kept(1.0 - (a + b) * x / (a + 1.0)));
    let mut value = d;
    for m in 1..10_000 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        for part in [even, odd] {
            d = 1.0 / kept(1.0 + part * d);
            c = kept(1.0 + part / c);
            value *= c * d;
        }
        if (c * d - 1.0).abs() < 1e-15 {
            break;
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use statrs::distribution::{ChiSquared, ContinuousCDF, Normal, StudentsT};

    #[test]
    fn p_values_and_factors_agree_with_another_library() {
        let normal = Normal::new(0.0, 1.0).expect("a distribution");
        let close = |a: f64, b: f64, within: f64| assert!((a / b - 1.0).abs() < within, "{a} {b}");
        for z in [0.01f64, 0.5, 1.0, 1.96, 3.3, 6.0, 12.0] {
            close(normal_p(z), 2.0 * normal.cdf(-z), 1e-8);
            for freedom in [1.0, 3.0, 10.0, 77.0, 1000.0, 1e6] {
                let student = StudentsT::new(0.0, 1.0, freedom).expect("a distribution");
                close(student_p(z, freedom), 2.0 * student.cdf(-z), 1e-8);
            }
        }
        for freedom in [1.0, 2.0, 7.0, 40.0] {
            let chi = ChiSquared::new(freedom).expect("a distribution");
            for x in [0.1, 1.0, 3.8, 20.0, 90.0] {
                close(chi_square_p(x, freedom), chi.sf(x), 1e-8);
            }
        }
        assert_eq!(chi_square_p(0.0, 2.0), 1.0);
        close(factor(0.95, normal_p), 1.959_963_984_540_054, 1e-14);
        close(factor(0.99, |t| student_p(t, 10.0)), 3.169_272_672_616_951, 1e-10);
        assert_eq!((normal_p(0.0), student_p(0.0, 5.0)), (1.0, 1.0));
        assert!(student_p(f64::NAN, 3.0).is_nan() && student_p(f64::INFINITY, 3.0) == 0.0);
    }
}
