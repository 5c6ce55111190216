//! Classifies the attributes on a test by name, and reads the arguments of this one.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::{Attribute, Meta};

/// Attributes that the compiler reads itself, without expanding a macro. If one is missing here,
/// the only cost is a second round of expansion. `cfg` and `cfg_attr` are missing on purpose,
/// because their expansion is known in the next round.
const INERT: [&str; 19] = [
    "allow",
    "automatically_derived",
    "cold",
    "coverage",
    "deny",
    "deprecated",
    "doc",
    "expect",
    "forbid",
    "ignore",
    "inline",
    "must_use",
    "naked",
    "no_mangle",
    "optimize",
    "should_panic",
    "target_feature",
    "track_caller",
    "warn",
];

/// Tools whose attributes are inert.
const TOOLS: [&str; 4] = ["clippy", "diagnostic", "miri", "rustfmt"];

/// Whether this attribute is known not to be a macro.
pub(crate) fn is_inert(attribute: &Attribute) -> bool {
    let name = name(attribute);
    match name.split_once("::") {
        Some((tool, _)) => TOOLS.contains(&tool),
        None => INERT.contains(&name.as_str()),
    }
}

/// Returns an attribute's path as text.
pub(crate) fn name(attribute: &Attribute) -> String {
    let segments = attribute.path().segments.iter();
    let names: Vec<String> = segments.map(|segment| segment.ident.to_string()).collect();
    names.join("::")
}

/// Whether this is a case of rstest.
pub(crate) fn is_case(attribute: &Attribute) -> bool {
    let path = attribute.path();
    path.segments.first().is_some_and(|it| it.ident == "case")
}

/// Whether this is libtest's `#[test]`, judged by its name. A module may have imported another
/// macro as `test`.
pub(crate) fn is_plain_test(attribute: &Attribute) -> bool {
    let name = name(attribute);
    let in_prelude = |library| {
        name.strip_prefix(library)
            .and_then(|path| path.strip_prefix("::prelude::"))
            .is_some_and(|path| path.ends_with("::test"))
    };
    name == "test" || in_prelude("core") || in_prelude("std")
}

/// Whether this attribute registers a test with libtest.
///
/// If an attribute is missing here, the expansion adds a second test, which fails with a message
/// that names the remedy.
pub(crate) fn makes_test(attribute: &Attribute) -> bool {
    const NAMES: [&str; 6] = [
        "gtest",
        "quickcheck",
        "rstest",
        "test",
        "test_case",
        "test_matrix",
    ];
    let name = last(attribute);
    // `traced_test` registers no test: it needs another attribute that does.
    NAMES.contains(&name.as_str()) || name.ends_with("_test") && name != "traced_test"
}

/// Whether this is the attribute of this crate.
pub(crate) fn is_self(attribute: &Attribute) -> bool {
    last(attribute) == "gpu_leak_check"
}

/// Whether this attribute is valid only on a test.
pub(crate) fn is_of_libtest(attribute: &Attribute) -> bool {
    is_plain_test(attribute) || ["ignore", "should_panic"].contains(&name(attribute).as_str())
}

/// Whether this attribute concerns a test as an item of its module, not its code.
pub(crate) fn is_of_name(attribute: &Attribute) -> bool {
    ["deprecated", "doc", "ignore", "must_use", "should_panic"].contains(&name(attribute).as_str())
}

/// Whether this attribute sets the level of a lint.
pub(crate) fn is_lint_level(attribute: &Attribute) -> bool {
    ["allow", "deny", "expect", "forbid", "warn"].contains(&name(attribute).as_str())
}

fn last(attribute: &Attribute) -> String {
    let segment = attribute.path().segments.last();
    segment.map_or_else(String::new, |segment| segment.ident.to_string())
}

/// Returns the arguments of an attribute.
pub(crate) fn arguments(attribute: &Attribute) -> TokenStream {
    match &attribute.meta {
        Meta::List(list) => list.tokens.clone(),
        Meta::Path(_) => TokenStream::new(),
        // This form is invalid, which is reported where it is parsed.
        Meta::NameValue(pair) => pair.value.to_token_stream(),
    }
}

/// Returns the error for two attributes on an item, neither of which comes from its module.
pub(crate) fn twice(again: &Attribute) -> syn::Error {
    syn::Error::new_spanned(
        again,
        "`#[gpu_leak_check]` is applied twice: put all options into one attribute",
    )
}
