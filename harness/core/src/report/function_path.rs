//! The paths of functions.

/// Returns `step` for `<optim::Adam<T> as optim::Optimizer>::step::<f32>`, and `{` for any closure.
///
/// Line tables give no more than this for an inlined function, and each build may inline different
/// functions.
pub fn bare_name(function: &str) -> &str {
    let named = segments(function).filter(|segment| !segment.starts_with('<'));
    let last = named.last().unwrap_or(function);
    if last.starts_with('{') {
        return "{";
    }
    if is_operator(last) {
        // Template arguments follow after a space, except after brackets.
        let arguments = match last.starts_with("operator()") {
            true => last.find('<'),
            false => last.find(" <"),
        };
        return arguments.map_or(last, |at| &last[..at]);
    }
    last.split('<').next().unwrap_or(last)
}

/// Whether this is the name of an operator of C++, such as `operator<`.
fn is_operator(name: &str) -> bool {
    let symbol = name
        .strip_prefix("operator")
        .and_then(|it| it.chars().next());
    symbol.is_some_and(|first| !first.is_alphanumeric() && first != '_')
}

/// Returns the parts of a path: `optim`, `Adam<f32>` and `step` for `optim::Adam<f32>::step`. Paths
/// in brackets are not divided.
pub(crate) fn segments(function: &str) -> impl Iterator<Item = &str> {
    let (mut depth, mut before) = (0_usize, ' ');
    let segments = function.split(move |character: char| {
        match character {
            '<' | '(' | '[' => depth += 1,
            // This `>` is part of `fn() -> T`.
            '>' if before == '-' => {}
            '>' | ')' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        before = character;
        character == ':' && depth == 0
    });
    segments.filter(|segment| !segment.is_empty())
}

#[cfg(test)]
mod tests {
    use super::bare_name;

    #[test]
    fn a_bare_name_is_the_name_in_line_tables() {
        for (function, bare) in [
            ("train::Device::zeros", "zeros"),
            (
                "zeros<alloc::vec::Vec<f32>, fn(u8) -> train::Shape>",
                "zeros",
            ),
            ("train::zeros::<f32>", "zeros"),
            ("<train::Adam<T> as train::Optimizer>::step", "step"),
            (
                "core::ops::impls::<impl core::ops::FnMut<A> for &F>::call_mut",
                "call_mut",
            ),
            ("train::epoch::{{closure}}", "{"),
            ("{async_fn#0}", "{"),
            ("cuMemAlloc_v2", "cuMemAlloc_v2"),
            ("", ""),
            ("::", "::"),
            ("lib::V::operator<", "operator<"),
            ("lib::operator<< <int>", "operator<<"),
            (
                "main::{lambda(auto:1)#1}::operator()<unsigned long>",
                "operator()",
            ),
            ("operator_apply<f32>", "operator_apply"),
            ("lib::take<lib::Item>", "take"),
        ] {
            assert_eq!(bare_name(function), bare, "{function}");
        }
    }
}
