//! Normal and t distribution: p values and the factors of confidence intervals, with the crate `libm`.

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

/// Returns the number that `p` falls below with probability `1 - level` on either side: 1.96 for 0.95.
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

/// Continued fraction of the incomplete beta function, by Lentz.
fn fraction(a: f64, b: f64, x: f64) -> f64 {
    let least = 1e-300;
    let kept = |x: f64| if x.abs() < least { least } else { x };
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
    use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

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
        close(factor(0.95, normal_p), 1.959_963_984_540_054, 1e-14);
        close(factor(0.99, |t| student_p(t, 10.0)), 3.169_272_672_616_951, 1e-10);
        assert_eq!((normal_p(0.0), student_p(0.0, 5.0)), (1.0, 1.0));
        assert!(student_p(f64::NAN, 3.0).is_nan() && student_p(f64::INFINITY, 3.0) == 0.0);
    }
}
