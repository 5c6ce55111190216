//! The lines in which two texts differ.

/// Returns the lines that only `before` has, after `- `, and those that only `after` has, after `+
/// `, in order.
pub(super) fn lines(before: &str, after: &str) -> String {
    let (before, after): (Vec<_>, Vec<_>) = (before.lines().collect(), after.lines().collect());
    let common = common(&before, &after);
    let mut text = String::new();
    let mut add = |sign: char, line: &str| text.push_str(&format!("{sign} {line}\n"));
    let (mut old, mut new) = (0, 0);
    while old < before.len() || new < after.len() {
        let is_common = old < before.len() && new < after.len() && before[old] == after[new];
        if is_common {
            old += 1;
            new += 1;
        } else if new == after.len()
            || (old < before.len() && common[old + 1][new] >= common[old][new + 1])
        {
            add('-', before[old]);
            old += 1;
        } else {
            add('+', after[new]);
            new += 1;
        }
    }
    text
}

/// Returns the lines of `before` that differ in `after`: the number, the old line and the new line.
/// Both texts have the same number of lines.
pub(super) fn replaced<'a>(before: &'a str, after: &'a str) -> Vec<(usize, &'a str, &'a str)> {
    let pairs = before.lines().zip(after.lines());
    let numbered = (1..).zip(pairs);
    let different = numbered.filter(|(_, (before, after))| before != after);
    different
        .map(|(line, (before, after))| (line, before, after))
        .collect()
}

/// Returns, for each pair of positions, the number of lines that the texts have in common from
/// there on.
fn common(before: &[&str], after: &[&str]) -> Vec<Vec<u32>> {
    let mut common = vec![vec![0; after.len() + 1]; before.len() + 1];
    for old in (0..before.len()).rev() {
        for new in (0..after.len()).rev() {
            common[old][new] = if before[old] == after[new] {
                common[old + 1][new + 1] + 1
            } else {
                common[old + 1][new].max(common[old][new + 1])
            };
        }
    }
    common
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
