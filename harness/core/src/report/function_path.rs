//! The paths of functions.

/// Returns `step` for `<optim::Adam<T> as optim::Optimizer>::step::<f32>`, and `{` for any closure.
///
/// For an inlined function, line tables contain no more than this name, and each build may inline
/// different functions.
pub fn bare_name(function: &str) -> &str {
    let named = segments(function).filter(|segment| !segment.starts_with('<'));
    let last = named.last().unwrap_or(function);
    if last.starts_with('{') {
        return "{";
    }
    if is_operator(last) {
        // Template arguments follow the operator after a space, except in `operator()<T>`.
        let arguments = match last.starts_with("operator()") {
            true => last.find('<'),
            false => last.find(" <"),
        };
        return arguments.map_or(last, |at| &last[..at]);
    }
    last.split('<').next().unwrap_or(last)
}

/// Whether this is the name of a C++ operator, such as `operator<`.
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

/// Returns `<app::Pool as Drop>::drop` for `<app::Pool as core::ops::drop::Drop>::drop`.
pub(super) fn without_paths_of_traits(function: &str) -> String {
    let Some(at) = function.find(" as ").filter(|_| function.starts_with('<')) else {
        return function.to_owned();
    };
    let (implementor, rest) = function.split_at(at);
    let end = rest.rfind(">::").unwrap_or(rest.len());
    let mut short = String::new();
    for part in rest[..end].split("::") {
        let last = short.rfind(|c: char| !(c.is_alphanumeric() || c == '_'));
        short.truncate(last.map_or(0, |last| last + 1));
        short += part;
    }
    format!("{implementor}{short}{}", &rest[end..])
}

/// Returns the last two parts of a path, and only the last part of each path in brackets:
/// `Histogram::new` for `app::drops::Histogram::new`, `drops::fill` for `app::drops::fill`, and
/// `<Pool as Drop>::drop` for `<app::Pool as Drop>::drop`.
pub(crate) fn without_modules(path: &str) -> String {
    let mut short = String::new();
    // The positions at which the last two parts of the outer path begin.
    let mut parts = [0, 0];
    let mut depth = 0_usize;
    let mut rest = path;
    while let Some(next) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("::") {
            let is_word = |c: char| c.is_alphanumeric() || c == '_';
            let word = short.trim_end_matches(is_word).len();
            if depth > 0 && word < short.len() {
                short.truncate(word);
            } else {
                short += "::";
                if depth == 0 && !short.ends_with("}::") && !after.starts_with('<') {
                    parts = [parts[1], short.len()];
                }
            }
            rest = after;
            continue;
        }
        match next {
            '<' | '(' | '[' => depth += 1,
            '>' if short.ends_with('-') => {}
            '>' | ')' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        short.push(next);
        rest = &rest[next.len_utf8()..];
    }
    short.split_off(parts[0])
}

#[cfg(test)]
mod tests {
    use super::{bare_name, without_modules};

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

    #[test]
    fn the_last_two_parts_of_a_path_are_kept() {
        for (path, short) in [
            ("main", "main"),
            ("app::fill", "app::fill"),
            ("app::drops::fill", "drops::fill"),
            ("app::drops::Histogram::new", "Histogram::new"),
            ("<app::Pool as Drop>::drop", "<Pool as Drop>::drop"),
            ("app::{impl#3}::drop", "app::{impl#3}::drop"),
            ("app::cache::{impl#3}::drop", "cache::{impl#3}::drop"),
            (
                "<alloc::sync::Arc<app::Node>>::drop_slow",
                "<Arc<Node>>::drop_slow",
            ),
            (
                "app::on::<fn(app::A) -> app::B>::call",
                "on::<fn(A) -> B>::call",
            ),
            ("<<app::A as B>::C as app::D>::e", "<<A as B>::C as D>::e"),
            (
                "at::native::empty(c10::IntArrayRef, int)",
                "native::empty(IntArrayRef, int)",
            ),
            (
                "(anonymous namespace)::run()",
                "(anonymous namespace)::run()",
            ),
            (
                "std::function<void ()>::operator()() const",
                "function<void ()>::operator()() const",
            ),
        ] {
            assert_eq!(without_modules(path), short);
        }
    }
}
