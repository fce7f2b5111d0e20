//! Sketches: their public parameters, and the results that may leave a peer instead of its rows.
//!
//! A row goes through three steps, with the same result on every machine to the last bit.
//! [`flyswarm_data::scaling`] puts the features on one scale. [`flyhash`] projects them sparsely to m numbers
//! (optionally after a random rotation, `densify`). Then it keeps the indices of the `rho` largest numbers.
//! The computation uses only additions in a fixed order, `* /` and `sqrt`, which IEEE 754 defines exactly.
//!
//! [`distribution`] counts the values of a locality-sensitive hash of rows, so that data sets can be
//! compared. [`lsh`] gives codes of single rows.
//!
//! Source: Ram & Sinha, *Federated Nearest Neighbor Classification with a Colony of Fruit-Flies*, section 2.

use flyswarm_data::{MAX_CLASSES, MAX_FEATURES};
use pulp::Arch;

pub mod distribution;
pub mod flyhash;
mod gaussian;
pub mod lsh;

pub use flyswarm_data::scaling::ParameterError;
use flyswarm_data::scaling::Scaling;

/// Largest number of counts of a model, m x classes: 2^28, which is 1 GiB on the wire.
pub const MAX_COUNTS: usize = 1 << 28;
/// Largest number of entries of the lifting matrix, m x s: 2^30, which is 4 GiB.
pub const MAX_ENTRIES: usize = 1 << 30;

/// Returns all instruction sets of this machine, the simplest first.
#[must_use]
pub fn machines() -> Vec<Arch> {
    let mut all = vec![Arch::Scalar];
    #[cfg(target_arch = "x86_64")]
    {
        all.extend(pulp::x86::V3::try_new().map(Arch::V3));
        all.extend(pulp::x86::V4::try_new().map(Arch::V4));
    }
    #[cfg(target_arch = "aarch64")]
    all.extend(pulp::aarch64::Neon::try_new().map(Arch::Neon));
    all
}

/// Parameters of a sketch, as written in a session file. [`Parameters::check`] turns them into a
/// [`Sketch`].
#[derive(Debug, Clone, PartialEq)]
pub struct Parameters {
    /// Number of features of a row, 1 to [`MAX_FEATURES`] (the paper's d).
    pub d: usize,
    /// Number of rows of the lifting matrix; m x classes is at most [`MAX_COUNTS`]. The paper tries 2 d to
    /// 2048 d and finds that larger is better.
    pub m: usize,
    /// Number of ones in each row of the matrix, 1 to D. D is the width of a scaled row, or the next power of
    /// two with `densify`. The paper uses about 0.05 d and more; our measurements show that 0.3 d is better.
    pub s: usize,
    /// Number of winners of a row, 1 to m. The paper tries 8 to 256.
    pub rho: usize,
    /// Public seed, from the coin.
    pub seed: [u8; 32],
    /// True if rows are first rotated (random signs, Walsh-Hadamard). This is an option of the authors' code.
    pub densify: bool,
    /// Scaling of the features.
    pub scaling: Scaling,
}

/// Checked [`Parameters`].
#[derive(Debug, Clone, PartialEq)]
pub struct Sketch {
    parameters: Parameters,
    classes: usize,
}

impl Parameters {
    /// Checks every field against the others and the number of classes.
    ///
    /// # Errors
    /// [`ParameterError`] for the first field that is out of range.
    pub fn check(self, classes: usize) -> Result<Sketch, ParameterError> {
        let within = |field, value: usize, limit: usize, what: &str| {
            if (1..=limit).contains(&value) {
                return Ok(());
            }
            Err(ParameterError { field, value: value.to_string(), expected: format!("1 to {limit}{what}") })
        };
        if !(2..=MAX_CLASSES).contains(&classes) {
            let expected = format!("2 to {MAX_CLASSES}");
            return Err(ParameterError { field: "classes", value: classes.to_string(), expected });
        }
        within("d", self.d, MAX_FEATURES, "")?;
        self.scaling.check(self.d)?;
        let dimension = self.dimension();
        within("s", self.s, dimension, if self.densify { " (d padded to a power of two)" } else { " (d)" })?;
        within("m", self.m, MAX_COUNTS / classes, &format!(" with {classes} classes"))?;
        within("m", self.m, MAX_ENTRIES / self.s, &format!(" with s = {}", self.s))?;
        within("rho", self.rho, self.m, " (m)")?;
        Ok(Sketch { parameters: self, classes })
    }

    /// Returns the number of columns of the lifting matrix: the width of a scaled row, or the next power
    /// of two if densified.
    fn dimension(&self) -> usize {
        let width = self.scaling.width(self.d);
        if self.densify { width.next_power_of_two() } else { width }
    }
}

impl Sketch {
    /// Returns the parameters, unchanged.
    #[must_use]
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Returns the number of classes that the parameters were checked for.
    #[must_use]
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// Returns the number of columns of the lifting matrix.
    #[must_use]
    pub fn dimension(&self) -> usize {
        self.parameters.dimension()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters() -> Parameters {
        Parameters { d: 10, m: 40, s: 3, rho: 4, seed: [0; 32], densify: false, scaling: Scaling::None }
    }

    #[test]
    fn each_parameter_is_refused_by_name_and_limit() {
        let refusal = |change: fn(&mut Parameters), classes| {
            let mut parameters = parameters();
            change(&mut parameters);
            parameters.check(classes).map_err(|error| error.to_string())
        };
        assert!(refusal(|_| (), 2).is_ok());
        assert!(refusal(|p| (p.densify, p.s) = (true, 16), 2).is_ok());
        type Change = fn(&mut Parameters);
        let cases: [(Change, usize, &str); 8] = [
            (|_| (), 1, "classes is 1, expected 2 to 65535"),
            (|p| p.d = 0, 2, "d is 0, expected 1 to 1048576"),
            (|p| p.s = 11, 2, "s is 11, expected 1 to 10 (d)"),
            (|p| (p.densify, p.s) = (true, 17), 2, "s is 17, expected 1 to 16 (d padded to a power of two)"),
            (|p| p.s = 0, 2, "s is 0, expected 1 to 10 (d)"),
            (|p| p.m = 1 << 27, 3, "m is 134217728, expected 1 to 89478485 with 3 classes"),
            (|p| p.rho = 41, 2, "rho is 41, expected 1 to 40 (m)"),
            (
                |p| p.scaling = Scaling::Range { lo: vec![0.0], hi: vec![0.0] },
                2,
                "range is 0 to 0, expected finite bounds, the lower one first",
            ),
        ];
        for (change, classes, error) in cases {
            assert_eq!(refusal(change, classes), Err(error.to_owned()));
        }
    }
}
