//! The lines in which two texts differ.

use similar::{ChangeTag, TextDiff};

/// Returns, in order, the lines that are only in `before`, each prefixed with `- `, and the lines
/// that are only in `after`, each prefixed with `+ `.
pub(super) fn lines(before: &str, after: &str) -> String {
    let (before, after): (Vec<_>, Vec<_>) = (before.lines().collect(), after.lines().collect());
    let diff = TextDiff::from_slices(&before, &after);
    let all = diff.iter_all_changes();
    let changes = all.filter(|change| change.tag() != ChangeTag::Equal);
    let lines = changes.map(|change| format!("{} {}\n", change.tag(), change.value()));
    lines.collect()
}

/// Compares two texts with the same number of lines. For each line that differs, returns its
/// number, its text in `before` and its text in `after`.
pub(super) fn replaced<'a>(before: &'a str, after: &'a str) -> Vec<(usize, &'a str, &'a str)> {
    let pairs = before.lines().zip(after.lines());
    let numbered = (1..).zip(pairs);
    let different = numbered.filter(|(_, (before, after))| before != after);
    different
        .map(|(line, (before, after))| (line, before, after))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{lines, replaced};

    #[test]
    fn a_replaced_line_has_its_number() {
        let found = replaced("a\nb = 1\nc\n", "a\nb = 2\nc\n");
        assert_eq!(found, [(2, "b = 1", "b = 2")]);
    }

    #[test]
    fn only_changed_lines_are_shown() {
        let before = "a\nb = 1\nc\n";
        assert_eq!(lines(before, before), "");
        assert_eq!(lines(before, "a\nb = 2\nc\nd\n"), "- b = 1\n+ b = 2\n+ d\n");
        assert_eq!(lines("", "a\n"), "+ a\n");
    }
}
