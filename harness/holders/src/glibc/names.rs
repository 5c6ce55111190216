//! Classifies symbols by their names, and restores the names as they were written in the source.

use crate::NameRules;

/// The owner of a variable or function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// The program, or a library that is linked into it. The text is the symbol's name as its
    /// author wrote it.
    Program(String),
    /// Rust's own libraries or the C library.
    Runtime,
    /// This harness or CUDA, both of which store every address, or libtest, which calls the
    /// harness.
    All,
}

/// The prefixes of allocators that a program may contain. Their tables refer to every block.
const ALLOCATORS: [&str; 8] = [
    "_mi_", "mi_", "_rjem_", "je_", "jemalloc", "snmalloc", "sn_", "tcmalloc",
];

/// A crate's name in the forms that it takes at the beginning of symbols.
pub(super) struct CrateName {
    /// `9catalogue`
    counted: String,
    /// `catalogue..`
    dotted: String,
}

/// The farthest position at which the name of the crate may begin in a symbol of the current
/// mangling scheme.
const FARTHEST: usize = 64;

impl CrateName {
    pub(super) fn new(name: &str) -> Self {
        Self {
            counted: format!("{}{name}", name.len()),
            dotted: format!("{name}.."),
        }
    }

    /// Whether a symbol belongs to this crate. Examples for the crate `catalogue` are
    /// `_ZN9catalogue…`, `_ZN42_$LT$catalogue..…` and `_RNvCs1234_9catalogue…`.
    pub(super) fn is_of(&self, symbol: &[u8]) -> bool {
        let counted = self.counted.as_bytes();
        if let Some(rest) = symbol.strip_prefix(b"_ZN") {
            let length = rest.iter().take_while(|it| it.is_ascii_digit()).count();
            let inside = rest[length..].strip_prefix(b"_$LT$");
            return rest.starts_with(counted)
                || inside.is_some_and(|inside| inside.starts_with(self.dotted.as_bytes()));
        }
        let begins = symbol.starts_with(b"_R");
        let near = symbol.get(..symbol.len().min(FARTHEST)).unwrap_or_default();
        begins
            && near
                .windows(counted.len() + 1)
                .any(|part| part[0] == b'_' && &part[1..] == counted)
    }
}

/// Returns the owner of the symbol `mangled`.
pub(super) fn owner(mangled: &str, rules: NameRules) -> Owner {
    let name = format!("{:#}", rustc_demangle::demangle(mangled));
    // For a function of a trait implementation, both the type and the trait are considered.
    let (paths, count) = match name.strip_prefix('<') {
        Some(inside) => (inside, 2),
        None => (&*name, 1),
    };
    match paths.split(" as ").take(count).map(crate_kind).min() {
        Some(CrateKind::Program) => Owner::Program(shown(&name, rules)),
        Some(CrateKind::All) => Owner::All,
        Some(CrateKind::Runtime) => Owner::Runtime,
        Some(CrateKind::Unknown) | None => of_c(name, rules),
    }
}

/// The kind of crate that a path belongs to. If a name contains several paths, the kind that comes
/// first in this list decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum CrateKind {
    Program,
    All,
    Runtime,
    /// No crate: the path is a type parameter, a primitive type or a C name.
    Unknown,
}

fn crate_kind(path: &str) -> CrateKind {
    let path = path.trim_start_matches(['<', '&', '*', '[', '(']);
    let path = ["mut ", "const ", "dyn "]
        .iter()
        .find_map(|word| path.strip_prefix(word))
        .unwrap_or(path);
    let first = path.split_once("::").map(|(first, _)| first);
    let is_name = |name: &str| name.chars().all(|it| it.is_alphanumeric() || it == '_');
    match first.filter(|first| is_name(first)) {
        // The last names in this list are the crates that the harness uses to read stacks and
        // symbols.
        Some(
            "gpu_leak_check"
            | "gpu_leak_core"
            | "gpu_leak_interpose"
            | "gpu_leak_check_options"
            | "gpu_leak_hooks"
            | "gpu_leak_holders"
            | "inventory"
            | "test"
            | "addr2line"
            | "backtrace"
            | "framehop"
            | "gimli"
            | "object"
            | "rustc_demangle",
        ) => CrateKind::All,
        // This includes the crates on which Rust's own libraries are built.
        Some(
            "std" | "core" | "alloc" | "hashbrown" | "memchr" | "miniz_oxide" | "rustc_hash"
            | "serde" | "serde_core" | "serde_json",
        ) => CrateKind::Runtime,
        Some(_) => CrateKind::Program,
        None => CrateKind::Unknown,
    }
}

/// Returns the owner of a name without a path.
fn of_c(name: String, rules: NameRules) -> Owner {
    if (rules.is_vendor_function)(&name) || ALLOCATORS.iter().any(|it| name.starts_with(it)) {
        Owner::All
    } else if name.is_empty() || name.starts_with(['_', '.', '<']) {
        // Such names belong to the compiler or the C library.
        Owner::Runtime
    } else {
        Owner::Program(name)
    }
}

/// Returns `train::CACHE` for `train::CACHE::{{constant}}::{{closure}}::__RUST_STD_INTERNAL_VAL`
/// and for `<train::CACHE as core::ops::deref::Deref>::deref::__stability::LAZY`.
fn shown(name: &str, rules: NameRules) -> String {
    let inside = ["::{{constant}}", "::{constant#", "::{K#"]
        .iter()
        .find_map(|mark| name.split_once(mark))
        .map(|(outside, _)| outside);
    let lazy = name
        .strip_prefix('<')
        .filter(|_| name.ends_with("::__stability::LAZY"))
        .and_then(|name| name.split_once(" as "))
        .map(|(outside, _)| outside);
    (rules.as_written)(inside.or(lazy).unwrap_or(name))
}

#[cfg(test)]
mod tests {
    use super::super::tests::RULES;
    use super::Owner;

    fn owner(mangled: &str) -> Owner {
        super::owner(mangled, RULES)
    }

    fn program(name: &str) -> Owner {
        Owner::Program(name.to_owned())
    }

    #[test]
    fn a_static_has_its_name_in_the_source() {
        for (mangled, name) in [
            ("_ZN5optim5STATE17h0123456789abcdefE", "optim::STATE"),
            ("_RNvCs1234_5optim5STATE", "optim::STATE"),
            (
                "_RNvNCNKNvCsbS6ix5ipKI1_5train5CACHE0023___RUST_STD_INTERNAL_VAL",
                "train::CACHE",
            ),
            (
                "_ZN55_$LT$train..POOL$u20$as$u20$core..ops..deref..Deref$GT$5deref11__stability4LAZY17h0123456789abcdefE",
                "train::POOL",
            ),
            (
                "_ZN5train22__gpu_leak_check_frees5frees4SEEN17h0123456789abcdefE",
                "train::frees::SEEN",
            ),
            ("sqlite3_state", "sqlite3_state"),
        ] {
            assert_eq!(owner(mangled), program(name), "{mangled}");
        }
    }

    #[test]
    fn a_symbol_names_its_crate() {
        let optim = super::CrateName::new("optim");
        for (symbol, expected) in [
            ("_ZN5optim4step17h0123456789abcdefE", true),
            (
                "_ZN36_$LT$optim..Adam$u20$as$u20$core..Drop$GT$4drop17hE",
                true,
            ),
            ("_RNvNtCsbS6ix5ipKI1_5optim4adam4step", true),
            ("_ZN5train5optim4step17h0123456789abcdefE", false),
            ("_RNvCsbS6ix5ipKI1_5train4step", false),
            ("optim_step", false),
        ] {
            assert_eq!(optim.is_of(symbol.as_bytes()), expected, "{symbol}");
        }
    }

    #[test]
    fn holders_of_every_address_are_distinguished_from_holders_of_some() {
        for (mangled, expected) in [
            (
                "_ZN14gpu_leak_check6ledger4LIVE17h0123456789abcdefE",
                Owner::All,
            ),
            (
                "_ZN13gpu_leak_core6ledger6script5KNOWN17h0123456789abcdefE",
                Owner::All,
            ),
            ("cudaMalloc", Owner::All),
            ("_mi_heap_main", Owner::All),
            (
                "_ZN73_$LT$$u5b$A$u5d$$u20$as$u20$core..slice..cmp..SlicePartialEq$LT$B$GT$$GT$5equal17h0123456789abcdefE",
                Owner::Runtime,
            ),
            ("_ZN3std9panicking4HOOK17h0123456789abcdefE", Owner::Runtime),
            ("__dso_handle", Owner::Runtime),
        ] {
            assert_eq!(owner(mangled), expected, "{mangled}");
        }
    }
}
