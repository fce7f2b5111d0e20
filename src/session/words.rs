//! Rewrites messages of the TOML reader. These messages name types of Rust; the new texts use words that
//! users know.

/// Rewrites "invalid type: string \"x\", expected u16" to `found the text "x", expected a whole number from 0
/// to 65535`. Other messages stay as they are.
pub(crate) fn plain(message: &str) -> String {
    let parts = ["invalid type: ", "invalid value: "].iter().find_map(|start| message.strip_prefix(start));
    let Some((found, expected)) = parts.and_then(|rest| rest.rsplit_once(", expected ")) else {
        return message.to_owned();
    };
    let (expected, place) = expected.split_at(expected.find(" in `").unwrap_or(expected.len()));
    format!("found {}, expected {}{place}", value(found), kind(expected))
}

fn value(found: &str) -> String {
    let number = found.strip_prefix("integer ").or(found.strip_prefix("floating point "));
    match (number, found.strip_prefix("string "), found.strip_prefix("boolean ")) {
        (Some(number), ..) => format!("the number {}", number.trim_matches('`')),
        (_, Some(text), _) => format!("the text {text}"),
        (.., Some(word)) => word.trim_matches('`').to_owned(),
        _ if found == "sequence" => "a list".to_owned(),
        _ if found == "map" => "a table".to_owned(),
        _ => found.to_owned(),
    }
}

fn kind(expected: &str) -> &str {
    match expected {
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "usize" => "a whole number, 0 or more",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "a string" | "string" => "a text",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a map" => "a table",
        _ if expected.starts_with("struct ") => "a table",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn messages_speak_of_numbers_texts_lists_and_tables() {
        for (said, meant) in [
            ("invalid type: string \"784\", expected i64", "found the text \"784\", expected a whole number"),
            (
                "invalid value: integer `70000`, expected u16 in `peers`",
                "found the number 70000, expected a whole number from 0 to 65535 in `peers`",
            ),
            (
                "invalid type: floating point `1.5`, expected u64",
                "found the number 1.5, expected a whole number, 0 or more",
            ),
            ("invalid type: sequence, expected a string", "found a list, expected a text"),
            ("invalid type: boolean `true`, expected f64", "found true, expected a number"),
            ("invalid type: map, expected a sequence", "found a table, expected a list"),
            ("invalid type: integer `5`, expected struct RawData", "found the number 5, expected a table"),
            ("unknown field `x`, expected one of `a`, `b`", "unknown field `x`, expected one of `a`, `b`"),
        ] {
            assert_eq!(plain(said), meant);
        }
    }
}
