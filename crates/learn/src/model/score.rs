//! Measures predictions: accuracy, balanced accuracy, confusion table.

use std::fmt;

/// Counts of (true class, predicted class).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confusion {
    classes: Vec<String>,
    /// Table, row-major, true class x predicted class.
    counts: Vec<u64>,
}

impl Confusion {
    /// Compares predictions with the true classes. Both are indices into `classes`.
    ///
    /// # Panics
    /// If the lengths differ or an index is not below the number of classes.
    #[must_use]
    pub fn new(classes: &[String], truth: &[u16], predicted: &[u16]) -> Self {
        assert_eq!(truth.len(), predicted.len(), "one prediction for each label");
        let n = classes.len();
        let mut counts = vec![0; n * n];
        for (&t, &p) in truth.iter().zip(predicted) {
            assert!(usize::from(t) < n && usize::from(p) < n, "classes {t} and {p} of {n}");
            counts[usize::from(t) * n + usize::from(p)] += 1;
        }
        Self { classes: classes.to_vec(), counts }
    }

    /// Returns the number of rows compared.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the predictions of each true class: `[true][predicted]`.
    pub fn table(&self) -> impl Iterator<Item = &[u64]> {
        self.counts.chunks_exact(self.classes.len().max(1))
    }

    /// Returns the share of correct predictions, 0 to 1; 0 without rows.
    #[must_use]
    pub fn accuracy(&self) -> f64 {
        let right: u64 = self.table().enumerate().map(|(class, row)| row[class]).sum();
        right as f64 / self.rows().max(1) as f64
    }

    /// Returns the mean recall over the classes that occur; 0 without rows.
    #[must_use]
    pub fn balanced_accuracy(&self) -> f64 {
        let (mut sum, mut present) = (0.0, 0u32);
        for (class, row) in self.table().enumerate() {
            let rows: u64 = row.iter().sum();
            if rows > 0 {
                sum += row[class] as f64 / rows as f64;
                present += 1;
            }
        }
        sum / f64::from(present.max(1))
    }
}

/// Prints the table with class names: a line for each true class, a column for each predicted class.
impl fmt::Display for Confusion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |text: &str| text.chars().count();
        let corner = "true \\ predicted";
        let first = self.classes.iter().map(|name| width(name)).max().unwrap_or(0).max(width(corner));
        let digits = self.counts.iter().max().map_or(1, |max| max.to_string().len());
        let widths: Vec<usize> = self.classes.iter().map(|name| width(name).max(digits)).collect();
        write!(f, "{corner:first$}")?;
        for (name, &w) in self.classes.iter().zip(&widths) {
            write!(f, "  {name:>w$}")?;
        }
        for (name, row) in self.classes.iter().zip(self.table()) {
            write!(f, "\n{name:first$}")?;
            for (count, &w) in row.iter().zip(&widths) {
                write!(f, "  {count:>w$}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn balanced_accuracy_weighs_classes_equally_and_skips_absent_ones() {
        let classes = ["cat", "dog", "ox"].map(String::from);
        let confusion = Confusion::new(&classes, &[0, 0, 0, 0, 1], &[0, 0, 0, 1, 1]);
        assert_eq!((confusion.accuracy(), confusion.balanced_accuracy()), (0.8, 0.875));
        let table = "\
true \\ predicted  cat  dog  ox
cat                 3    1   0
dog                 0    1   0
ox                  0    0   0";
        assert_eq!(confusion.to_string(), table);
    }
}
