//! Options that make no sense together.

use proc_macro2::{Ident, Span};

use crate::args::Args;
use crate::value::Value;

/// What two options of one attribute say, and why that is nothing.
const SENSELESS: [(&str, &str, &str); 4] = [
    (
        "expect",
        "rounds",
        "`expect` says what one run leaves, `rounds` what grows over several: keep one of them",
    ),
    (
        "expect",
        "confirm",
        "`expect` knows what is to leak, and no second run says more: drop `confirm = true`",
    ),
    (
        "rounds",
        "confirm",
        "each of the `rounds` confirms the one before: drop `confirm = true`",
    ),
    (
        "parallel",
        "isolate",
        "`isolate` gives the test a process of its own, where nobody is to be `parallel` with: \
         keep one of them",
    ),
];

/// The options that `layer` is about.
const BUDGETS: [&str; 3] = ["max_allocated", "max_reserved", "max_allocation_count"];

/// The error of each senseless pair among the options written in one attribute, at the later one.
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

/// The error of a test with a layer and no budget, its own or its module's.
pub(crate) fn check_layer(args: &Args) -> syn::Result<()> {
    match args.value("layer") {
        Some(Value::Text(layer)) if !BUDGETS.iter().any(|budget| args.has(budget)) => {
            let what = "`layer` is the allocator that a budget is about, and there is none: add \
                        one, such as `max_allocated = \"64 MiB\"`, or drop it";
            Err(syn::Error::new(layer.span(), what))
        }
        _ => Ok(()),
    }
}

/// Whether an option's value is more than its default in words.
fn is_on(name: &str, value: &Value) -> bool {
    match value {
        Value::Flag(on) => *on,
        Value::Number(tokens) => name != "rounds" || tokens.to_string() != "1",
        _ => true,
    }
}
