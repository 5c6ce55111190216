//! Rejects options that contradict each other.

use proc_macro2::{Ident, Span};

use crate::value::{self, Value};

macro_rules! names {
    ($($(#[$doc:meta])* $option:ident: $limit:ident,)*) => { [$(stringify!($option)),*] };
}

/// Returns the error for each contradicting pair of options in one attribute, at the later option.
/// `value` returns the value of an option that is set.
pub(crate) fn check<'a>(
    value: impl Fn(&str) -> Option<&'a Value>,
    written: &[Ident],
) -> Option<syn::Error> {
    let is_on = |name: &str| value(name).is_some_and(|value| is_on(name, value, false));
    let errors = gpu_leak_check_options::conflicts(is_on).map(|conflict| {
        let is_in_it = |name: &&Ident| conflict.options.iter().any(|option| *name == option);
        let at = written.iter().rfind(is_in_it);
        syn::Error::new(at.map_or_else(Span::call_site, Ident::span), conflict.why)
    });
    errors.reduce(|mut all, next| {
        all.combine(next);
        all
    })
}

/// Returns an error if a test has a layer but no budget, counting the options of its module.
pub(crate) fn check_layer<'a>(value: impl Fn(&str) -> Option<&'a Value>) -> syn::Result<()> {
    // These are the options to which `layer` applies.
    let budgets = gpu_leak_check_options::budgets!(names);
    match value("layer") {
        Some(Value::Text(layer)) if budgets.iter().all(|budget| value(budget).is_none()) => {
            let what = "`layer` selects the allocator that a budget applies to, but there is no \
                        budget: add one, such as `max_allocated = \"64 MiB\"`, or remove `layer`";
            Err(syn::Error::new(layer.span(), what))
        }
        _ => Ok(()),
    }
}

/// Whether two options contradict each other, or may do so.
pub(crate) fn may_contradict(one: &(&str, Value), other: &(&str, Value)) -> bool {
    let is_on = |option: &str| {
        let mut both = [one, other].into_iter();
        both.any(|(name, value)| *name == option && is_on(name, value, true))
    };
    gpu_leak_check_options::conflicts(is_on).next().is_some()
}

/// Whether an option is set to something other than its default. The result is `unknown` for an
/// expression, whose value is known only when the test runs.
fn is_on(name: &str, value: &Value, unknown: bool) -> bool {
    match value {
        Value::Flag(on) => *on,
        Value::Number(tokens) if name == "rounds" => {
            value::written_out(tokens).map_or(unknown, |rounds| rounds > 1)
        }
        Value::Number(tokens) => value::written_out(tokens).map_or(unknown, |number| number > 0),
        _ => true,
    }
}
