//! Names of functions.

/// `step` of `<optim::Adam<T> as optim::Optimizer>::step::<f32>`, `{` of any closure.
///
/// Line tables call an inlined function no more than that, and what is inlined changes with
/// every build.
pub(super) fn bare_name(function: &str) -> &str {
    let (mut depth, mut before) = (0_usize, ' ');
    let segments = function.split(|character: char| {
        match character {
            '<' | '(' | '[' => depth += 1,
            // Of `fn() -> T`.
            '>' if before == '-' => {}
            '>' | ')' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        before = character;
        character == ':' && depth == 0
    });
    let named = segments.filter(|segment| !segment.is_empty() && !segment.starts_with('<'));
    let last = named.last().unwrap_or(function);
    if last.starts_with('{') {
        return "{";
    }
    last.split('<').next().unwrap_or(last)
}

#[cfg(test)]
mod tests {
    use super::bare_name;

    #[test]
    fn a_bare_name_is_what_line_tables_have() {
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
        ] {
            assert_eq!(bare_name(function), bare, "{function}");
        }
    }
}
