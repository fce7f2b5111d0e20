//! Results of the cases in the JUnit format for CI systems.

use super::Outcome;

/// Writes the results as a JUnit file.
pub(super) fn text(outcomes: &[Outcome]) -> String {
    let escaped = |text: &str| {
        let text =
            text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;");
        text.chars().filter(|c| !c.is_control()).collect::<String>()
    };
    let mut text = String::new();
    for Outcome { case, wrong, seconds } in outcomes {
        let inside = match wrong {
            None => "<skipped/>".to_owned(),
            Some(wrong) if wrong.is_empty() => String::new(),
            Some(wrong) => format!("<failure message=\"{}\"/>", escaped(&wrong.join("; "))),
        };
        let (about, name) = (escaped(case.about), case.name);
        text += &format!(
            "  <testcase classname=\"{about}\" name=\"{name}\" time=\"{seconds:.3}\">{inside}</testcase>\n"
        );
    }
    let failures = outcomes.iter().filter(|outcome| outcome.failed()).count();
    let skipped = outcomes.iter().filter(|outcome| outcome.wrong.is_none()).count();
    let tests = outcomes.len();
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"flyswarm-conform\" tests=\"{tests}\" \
         failures=\"{failures}\" skipped=\"{skipped}\">\n{text}</testsuite>\n"
    )
}
