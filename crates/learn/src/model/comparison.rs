//! Statements on how good predictions are. Every sentence is made here; command line, page, receipt and
//! Python repeat it.
//!
//! The headline is balanced accuracy, with AUC for two classes, next to the balanced accuracy of always
//! predicting the largest class. A verdict needs [`ENOUGH`] rows of each class, and an interval whose ends
//! are both better or both worse. There are two kinds of intervals. One is that of the balanced accuracy,
//! which is compared with always predicting the largest class. The other is that of the paired difference to
//! another prediction of the same rows.

use serde::{Deserialize, Serialize};

use super::figures::{ENOUGH, Figures, Gain, Majority, Share};

/// Result of comparing one prediction with another by an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The prediction is better.
    Better,
    /// The interval includes better and worse values.
    Unclear,
    /// The prediction is worse, or not better than always predicting the largest class.
    Worse,
    /// A class has too few rows.
    TooFew,
}

/// A verdict in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sentence {
    /// The verdict.
    pub verdict: Verdict,
    /// Text of the sentence.
    pub text: String,
    /// True if it warns the user of the model.
    pub warns: bool,
}

/// Three predictions of the same rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Figures of the model trained on the rows of all peers.
    pub swarm: Figures,
    /// Figures of the models trained on each peer's own rows.
    pub alone: Figures,
    /// Figures of nearest neighbours among a peer's own rows.
    pub neighbours: Figures,
    /// Balanced accuracy of `swarm` minus that of `alone`.
    pub gain_over_alone: Gain,
    /// Balanced accuracy of `swarm` minus that of `neighbours`.
    pub gain_over_neighbours: Gain,
}

/// Owner of the predicted rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// All peers.
    Pool,
    /// This peer.
    Peer,
    /// The file that a model is scored on.
    File,
}

impl Whose {
    /// Returns the name of the predictor, and the two predictions that it is compared with.
    fn words(self) -> (&'static str, [&'static str; 2]) {
        match self {
            Self::Pool => (
                "swarm",
                [
                    "what each peer learns from its own rows alone",
                    "nearest neighbours among each peer's own rows",
                ],
            ),
            Self::Peer => (
                "swarm",
                ["what this peer learns from its own rows alone", "nearest neighbours among its own rows"],
            ),
            Self::File => (
                "model",
                [
                    "a model that learns only from the other rows of the file",
                    "nearest neighbours among the other rows of the file",
                ],
            ),
        }
    }
}

/// Formats a share, such as `0.97 (0.95 to 0.98)`.
fn shown(share: Share) -> String {
    format!("{:.2} ({:.2} to {:.2})", share.value, share.low, share.high)
}

impl Figures {
    /// Returns one line, such as `balanced accuracy on held-out rows 0.72 (0.61 to 0.83), AUC 0.80 (0.71
    /// to 0.89); always "well": 0.50, 97.7 % of the rows right`. `rows` is the name of the rows in it.
    #[must_use]
    pub fn headline(&self, rows: &str) -> String {
        let Majority { class, accuracy, balanced_accuracy } = &self.majority;
        let share = format!("{:.1} % of the rows right", 100.0 * accuracy);
        if self.too_few().is_some() {
            return format!("too few events to say how good it is on {rows}; always {class:?}: {share}");
        }
        let auc = self.auc.map_or_else(String::new, |auc| format!(", AUC {}", shown(auc)));
        let balanced = shown(self.balanced_accuracy);
        format!(
            "balanced accuracy on {rows} {balanced}{auc}; always {class:?}: {balanced_accuracy:.2}, {share}"
        )
    }

    /// Compares the figures with always predicting the largest class. `subject` names the predictor.
    #[must_use]
    pub fn against_majority(&self, subject: &str) -> Sentence {
        if let Some(few) = self.too_few() {
            let text = format!(
                "Too few events to say how good the {subject} is: {} of {:?}, and {ENOUGH} are needed.",
                if few.rows == 1 { "1 row".to_owned() } else { format!("{} rows", few.rows) },
                few.class
            );
            return Sentence { verdict: Verdict::TooFew, text, warns: true };
        }
        let Majority { class, balanced_accuracy, .. } = &self.majority;
        let better = self.balanced_accuracy.low > *balanced_accuracy;
        let (verdict, than) =
            if better { (Verdict::Better, "better") } else { (Verdict::Worse, "no better") };
        let text = format!(
            "The {subject} is {than} than always {class:?}: balanced accuracy {}, always {class:?} has \
             {balanced_accuracy:.2}.",
            shown(self.balanced_accuracy)
        );
        Sentence { verdict, text, warns: !better }
    }
}

impl Figures {
    /// Compares the figures with always predicting the largest class, and returns the sentence if it
    /// warns the user of the model.
    #[must_use]
    pub fn warnings(&self, whose: Whose) -> Vec<String> {
        let said = self.against_majority(whose.words().0);
        said.warns.then_some(said.text).into_iter().collect()
    }
}

impl Comparison {
    /// Returns one line: [`Figures::headline`], and the balanced accuracy of the two other predictions.
    #[must_use]
    pub fn headline(&self, rows: &str) -> String {
        let swarm = self.swarm.headline(rows);
        if self.swarm.too_few().is_some() {
            return swarm;
        }
        let [alone, near] = [&self.alone, &self.neighbours].map(|figures| figures.balanced_accuracy.value);
        format!("{swarm}; own data only {alone:.2}, nearest neighbours {near:.2}")
    }

    /// Returns the sentences: the comparisons with always predicting the largest class, with a model of own
    /// rows alone, and with nearest neighbours among own rows.
    #[must_use]
    pub fn sentences(&self, whose: Whose) -> Vec<Sentence> {
        let (subject, [alone, nearest]) = whose.words();
        let mut said = vec![self.swarm.against_majority(subject)];
        if said[0].verdict != Verdict::TooFew {
            said.push(against(subject, alone, self.gain_over_alone, true));
            said.push(against(subject, nearest, self.gain_over_neighbours, false));
        }
        said
    }

    /// Returns the sentences that warn the user of the model.
    #[must_use]
    pub fn warnings(&self, whose: Whose) -> Vec<String> {
        self.sentences(whose).into_iter().filter(|said| said.warns).map(|said| said.text).collect()
    }
}

fn against(subject: &str, other: &str, Gain { value, low, high }: Gain, matters: bool) -> Sentence {
    let (verdict, than) = if low > 0.0 {
        (Verdict::Better, "better than")
    } else if high < 0.0 {
        (Verdict::Worse, "worse than")
    } else {
        (Verdict::Unclear, "not clearly different from")
    };
    let [value, low, high] = [value, low, high].map(|points| format!("{:+.1}", 100.0 * points));
    let text = format!(
        "The {subject} is {than} {other}: {value} points of balanced accuracy (95\u{a0}%: {low} to {high})."
    );
    Sentence { verdict, text, warns: matters && verdict == Verdict::Worse }
}

#[cfg(test)]
mod tests {
    use super::super::figures::Sums;
    use super::*;

    /// Returns figures of rows of the classes `event` and `none`. `right` has the number of correct
    /// predictions of each class.
    fn figures(rows: [usize; 2], right: [usize; 2]) -> Figures {
        let truth = [vec![0; rows[0]], vec![1; rows[1]]].concat();
        let told = |class: u16, rows: usize, right: usize| {
            (0..rows).map(move |row| if row < right { class } else { 1 - class })
        };
        let told: Vec<u16> = told(0, rows[0], right[0]).chain(told(1, rows[1], right[1])).collect();
        let classes = ["event", "none"].map(String::from);
        Figures::new(&classes, &Sums::of_classes(2, &truth, &told), None).unwrap()
    }

    fn comparison(swarm: Figures, gain: Gain) -> Comparison {
        let (alone, neighbours) = (swarm.clone(), swarm.clone());
        Comparison { swarm, alone, neighbours, gain_over_alone: gain, gain_over_neighbours: gain }
    }

    fn gain(low: f64, high: f64) -> Gain {
        Gain { value: (low + high) / 2.0, low, high }
    }

    /// 11 events in 700 rows once gave "+48.6 points" in green, although always "none" is correct in 98.4
    /// %.
    #[test]
    fn eleven_events_in_seven_hundred_rows_get_no_verdict() {
        let found = comparison(figures([11, 689], [8, 626]), gain(0.4, 0.57));
        let said = found.sentences(Whose::Pool);
        let text = "Too few events to say how good the swarm is: 11 rows of \"event\", and 20 are needed.";
        assert_eq!(said, [Sentence { verdict: Verdict::TooFew, text: text.into(), warns: true }]);
        let line = "too few events to say how good it is on held-out rows; always \"none\": 98.4 % of the rows right";
        assert_eq!(found.headline("held-out rows"), line);
        assert_eq!(found.warnings(Whose::Pool), [text]);
    }

    #[test]
    fn nineteen_events_are_too_few_and_twenty_are_not() {
        let verdict = |events| figures([events, 600], [events, 600]).against_majority("model").verdict;
        assert_eq!((verdict(19), verdict(20)), (Verdict::TooFew, Verdict::Better));
    }

    #[test]
    fn no_better_than_the_majority_is_a_warning() {
        let equal = figures([40, 600], [0, 600]).against_majority("model");
        assert_eq!((equal.verdict, equal.warns), (Verdict::Worse, true));
        assert!(
            equal.text.starts_with("The model is no better than always \"none\": balanced accuracy 0.50")
        );
        // The lower end of the interval must be above 0.5. The figure itself does not decide.
        let mut found = figures([40, 600], [30, 500]);
        found.balanced_accuracy.low = 0.5;
        assert!(found.against_majority("model").warns);
        found.balanced_accuracy.low = 0.501;
        let better = found.against_majority("model");
        assert_eq!((better.verdict, better.warns), (Verdict::Better, false));
    }

    #[test]
    fn an_interval_that_touches_nought_is_no_verdict() {
        let verdicts = |low, high| {
            let found = comparison(figures([40, 600], [40, 600]), gain(low, high));
            let said = found.sentences(Whose::Pool);
            (said[1].verdict, said[2].verdict, found.warnings(Whose::Pool).len())
        };
        assert_eq!(verdicts(0.0, 0.2), (Verdict::Unclear, Verdict::Unclear, 0));
        assert_eq!(verdicts(-0.2, 0.0), (Verdict::Unclear, Verdict::Unclear, 0));
        assert_eq!(verdicts(0.001, 0.2), (Verdict::Better, Verdict::Better, 0));
        // Only a result that is worse than a peer's own rows alone is a warning.
        assert_eq!(verdicts(-0.2, -0.001), (Verdict::Worse, Verdict::Worse, 1));
    }

    #[test]
    fn the_headline_has_balanced_accuracy_and_what_the_majority_gives() {
        let found = comparison(figures([40, 60], [30, 54]), gain(0.0, 0.1));
        let line = "balanced accuracy on held-out rows 0.82 (0.75 to 0.90); always \"none\": 0.50, 60.0 % of the rows \
                    right; own data only 0.82, nearest neighbours 0.82";
        assert_eq!(found.headline("held-out rows"), line);
        let mut one = found.swarm;
        one.auc = Some(Share { value: 0.9, low: 0.85, high: 0.95 });
        assert!(one.headline("x.csv").contains(" 0.90), AUC 0.90 (0.85 to 0.95); always"), "{one}");
    }
}
