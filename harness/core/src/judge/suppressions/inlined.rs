//! Matches inlined functions, for which line tables contain only the bare name and the file.
//!
//! In an unoptimised build, `optim::Adam::step` has its full name in a backtrace. In an optimised
//! build with `debug = "line-tables-only"`, the inlined function appears as `step` in
//! `src/optim.rs`. An entry written for one build must also match in the other.

use wildmatch::WildMatch;

use crate::report::Frame;

/// Whether `pattern`, written for a function with its path, matches this frame: the last segment of
/// the pattern matches the bare name, and one of its other segments is the file's module.
pub(super) fn is_of(pattern: &str, frame: &Frame) -> bool {
    let (Some(function), Some(file)) = (&frame.function, &frame.file) else {
        return false;
    };
    let Some((path, last)) = pattern.rsplit_once("::") else {
        return false;
    };
    let is_bare = !function.contains("::") && !function.starts_with('{');
    let module = module(file);
    let is_module = |word: &str| !word.is_empty() && WildMatch::new(word).matches(&module);
    is_bare && WildMatch::new(last).matches(function) && path.split("::").any(is_module)
}

/// Returns `optim` for `src/optim.rs` and `src/optim/mod.rs`, and the crate's name for a crate's
/// root.
fn module(file: &str) -> String {
    let mut parts = file.rsplit(['/', '\\']);
    let stem = parts.next().and_then(|name| name.strip_suffix(".rs"));
    let is_root = |name: &&str| matches!(*name, "mod" | "lib" | "main");
    let module = match stem.filter(|name| !is_root(name)) {
        Some(stem) => stem,
        None => parts
            .find(|directory| *directory != "src")
            .unwrap_or_default(),
    };
    module.replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::is_of;
    use crate::report::Frame;

    fn inlined(function: &str, file: &str) -> Frame {
        Frame {
            function: Some(function.into()),
            file: Some(file.into()),
            ..Frame::default()
        }
    }

    #[test]
    fn an_inlined_function_is_known_by_its_name_and_its_file() {
        let step = inlined("step", "src/optim.rs");
        for pattern in [
            "train::optim::Adam::step",
            "*::optim::*::step",
            "*::optim::st*",
            "*::step",
        ] {
            assert!(is_of(pattern, &step), "{pattern}");
        }
        for pattern in [
            "train::nn::Linear::step",
            "train::optim::Adam::zero",
            "step",
        ] {
            assert!(!is_of(pattern, &step), "{pattern}");
        }
        assert!(is_of(
            "train::optim::step",
            &inlined("step", "src/optim/mod.rs")
        ));
        assert!(is_of(
            "my_crate::step",
            &inlined("step", "my-crate/src/lib.rs")
        ));
    }

    #[test]
    fn a_function_with_its_path_is_known_by_that_alone() {
        let whole = inlined("train::nn::step", "src/optim.rs");
        assert!(!is_of("train::optim::step", &whole));
        assert!(!is_of(
            "train::optim::*",
            &inlined("{closure#0}", "src/optim.rs")
        ));
    }
}
