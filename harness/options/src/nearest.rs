//! Suggests the intended word for a misspelt one.

/// Returns the word among `known` that `written` is most likely a misspelling of.
///
/// ```
/// use gpu_leak_check_options::nearest;
/// assert_eq!(nearest("tolerence", ["tolerance", "rounds"]), Some("tolerance"));
/// assert_eq!(nearest("speed", ["tolerance", "rounds"]), None);
/// ```
pub fn nearest<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let known = known.into_iter();
    let nearest = known.map(|known| (distance(written, known), known)).min();
    let near = nearest.filter(|(distance, known)| *distance <= known.len() / 3);
    near.map(|(_, known)| known)
}

/// Returns the edit distance between two words: how many letters have to be inserted, removed or
/// replaced to turn one into the other.
fn distance(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in to.bytes().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}
