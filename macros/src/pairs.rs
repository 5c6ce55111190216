//! Rejects options that contradict each other.

use proc_macro2::{Ident, Span};

use crate::args::Args;
use crate::value::Value;

/// Pairs of options, and why they contradict each other.
const SENSELESS: [(&str, &str, &str); 4] = [
    (
        "expect",
        "rounds",
        "`expect` states what one run leaves, and `rounds` finds what grows over several: keep one of them",
    ),
    (
        "expect",
        "confirm",
        "`expect` states what must leak, and a second run would add nothing: drop `confirm = true`",
    ),
    (
        "rounds",
        "confirm",
        "each of the `rounds` confirms the one before: drop `confirm = true`",
    ),
    (
        "parallel",
        "isolate",
        "`isolate` gives the test its own process, where there is no test to be `parallel` with: \
         keep one of them",
    ),
];

/// The options to which `layer` applies.
const BUDGETS: [&str; 3] = ["max_allocated", "max_reserved", "max_allocation_count"];

/// Returns the error for each contradicting pair of options in one attribute, at the later option.
pub(crate) fn check(args: &Args, written: &[Ident]) -> Option<syn::Error> {
    let mistakes = SENSELESS.iter().filter(|(one, other, _)| {
        let says_something = |name: &str| args.value(name).is_some_and(|value| is_on(name, value));
        says_something(one) && says_something(other)
    });
    let errors = mistakes.map(|(one, other, what)| {
        let at = written.iter().rfind(|name| name == one || name == other);
        syn::Error::new(at.map_or_else(Span::call_site, Ident::span), what)
    });
    errors.reduce(|mut all, next| {
        all.combine(next);
        all
    })
}

/// Returns the error for a test with a layer and no budget, its own or its module's.
pub(crate) fn check_layer(args: &Args) -> syn::Result<()> {
    match args.value("layer") {
        Some(Value::Text(layer)) if !BUDGETS.iter().any(|budget| args.has(budget)) => {
            let what = "`layer` names the allocator that a budget applies to, but there is no \
                        budget: add one, such as `max_allocated = \"64 MiB\"`, or drop it";
            Err(syn::Error::new(layer.span(), what))
        }
        _ => Ok(()),
    }
}

/// Whether an option's value differs from a default that is written out.
fn is_on(name: &str, value: &Value) -> bool {
    match value {
        Value::Flag(on) => *on,
        Value::Number(tokens) => name != "rounds" || tokens.to_string() != "1",
        _ => true,
    }
}
