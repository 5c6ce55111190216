//! Makes names from outside safe to print. Control sequences, and commands to CI systems such as
//! `##[error]`, are shown and never executed.

use std::fmt::Write;

/// The longest cell of a table, in characters.
const LONGEST_CELL: usize = 48;
/// The longest name that is shown in full, in characters.
const LONGEST_NAME: usize = 160;
/// The longest sentence or command, in characters.
const LONGEST_SENTENCE: usize = 1000;

/// Returns a name as one line. Control characters, line and paragraph separators, and invisible or
/// direction-changing characters are written as escapes such as `\u{1b}`. The middle of a very long
/// name is left out.
pub fn name(text: &str) -> String {
    shown(text, LONGEST_NAME)
}

/// Returns a name as [`name()`] does, but at most as long as a cell of a table.
pub fn cell(text: &str) -> String {
    shown(text, LONGEST_CELL)
}

/// Returns a sentence, a command or a path in the form that [`name()`] gives to a name, but allows
/// more characters.
pub fn sentence(text: &str) -> String {
    shown(text, LONGEST_SENTENCE)
}

fn shown(text: &str, longest: usize) -> String {
    // A text has at most as many characters as bytes.
    if text.len() <= longest {
        return spelled_out(text);
    }
    let length = text.chars().count();
    if length <= longest {
        return spelled_out(text);
    }
    let head = longest * 2 / 3;
    let tail = longest - head - 1;
    let at = |number| text.char_indices().nth(number).map_or(0, |(at, _)| at);
    format!(
        "{}…{}",
        spelled_out(&text[..at(head)]),
        spelled_out(&text[at(length - tail)..])
    )
}

/// Returns the text with an escape in place of each unsafe character.
pub fn spelled_out(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((at, character)) = rest.char_indices().find(|(_, it)| is_unsafe(*it)) {
        shown += &rest[..at];
        // Writing to a string cannot fail.
        let _ = write!(shown, "{}", character.escape_unicode());
        rest = &rest[at + character.len_utf8()..];
    }
    shown += rest;
    // GitHub, Azure and TeamCity look for `##[`, `##vso[` and `##teamcity[` anywhere in a line.
    match shown.contains("##") {
        true => shown.replace("##", "#\\u{23}"),
        false => shown,
    }
}

/// Whether a terminal would act on `character` instead of showing it.
fn is_unsafe(character: char) -> bool {
    if character.is_ascii() {
        return character.is_ascii_control();
    }
    character.is_control()
        || matches!(
            character,
            // Zero-width characters, joiners and direction marks.
            '\u{200b}'..='\u{200f}'
            // Line and paragraph separators, embeddings, and overrides.
            | '\u{2028}'..='\u{202e}'
            // Invisible operators and isolates.
            | '\u{2060}'..='\u{206f}'
            // The soft hyphen, the Arabic letter mark and the byte order mark.
            | '\u{ad}' | '\u{61c}' | '\u{feff}'
            // Interlinear annotations, and the characters that XML cannot represent.
            | '\u{fff9}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}'
            // Tags: a second, invisible alphabet.
            | '\u{e0000}'..='\u{e007f}'
        )
}

#[cfg(test)]
mod tests {
    use super::name;

    #[test]
    fn escape_sequences_are_made_harmless() {
        assert_eq!(name("a\x1b[31mred"), "a\\u{1b}[31mred");
        assert_eq!(name("one\ntwo\r"), "one\\u{a}two\\u{d}");
        assert_eq!(name("c1 \u{9b}31m"), "c1 \\u{9b}31m");
        assert_eq!(name("###[error]"), "#\\u{23}#[error]");
    }

    #[test]
    fn text_cannot_be_reversed_or_hidden() {
        assert_eq!(name("ab\u{202e}dc"), "ab\\u{202e}dc");
        assert_eq!(name("a\u{200b}b\u{feff}"), "a\\u{200b}b\\u{feff}");
    }

    #[test]
    fn other_scripts_and_markup_stay_as_they_are() {
        assert_eq!(name("größe_测试 <script>"), "größe_测试 <script>");
    }

    #[test]
    fn a_very_long_name_keeps_both_ends() {
        let shown = name(&format!("begin{}end", "x".repeat(10_000)));
        assert!(
            shown.starts_with("begin") && shown.ends_with("end"),
            "{shown}"
        );
        assert_eq!(shown.chars().count(), super::LONGEST_NAME);
    }
}
