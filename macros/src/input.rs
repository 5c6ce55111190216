//! Determines which items can be checked.

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;
use syn::{File, GenericParam, Item, ItemFn, ItemMod, ReturnType, Safety, TraitItemFn, Type};

use crate::args::Args;
use crate::requeue::Requeued;

pub(crate) enum Input {
    /// A test, or a program's `main`.
    Function(Box<ItemFn>),
    /// A module with tests.
    Module(ItemMod),
}

/// The end of a message, which says how to check tests that the attribute cannot reach.
pub(crate) const WHOLE_SUITE: &str = "or, to check every test in the suite, set `every_test = true` \
    under `[check]` in gpu-leak-check.toml and run `cargo gpu-leak test`";

/// Whether this is a whole file, because the attribute was written as `#![gpu_leak_check]`.
pub(crate) fn is_file(item: &TokenStream) -> bool {
    let is_item = syn::parse2::<Item>(item.clone()).is_ok();
    !is_item && syn::parse2::<File>(item.clone()).is_ok_and(|file| file.items.len() > 1)
}

/// Parses the item as a function with a body, or as a module.
pub(crate) fn read(item: TokenStream) -> syn::Result<Input> {
    if is_file(&item) {
        let what = format!(
            "`#[gpu_leak_check]` cannot be put on a whole file: put it on each test or on \
             `mod name {{ … }}`, {WHOLE_SUITE}"
        );
        return Err(syn::Error::new(Span::call_site(), what));
    }
    let kind = match syn::parse2(item.clone())? {
        Item::Fn(function) => return Ok(Input::Function(Box::new(function))),
        Item::Mod(module) => return Ok(Input::Module(module)),
        Item::Impl(_) => {
            "an impl block: move the test out of the block and put the attribute on the test"
        }
        Item::Struct(_) | Item::Enum(_) | Item::Union(_) | Item::Type(_) => "a type",
        Item::Trait(_) => "a trait",
        Item::Verbatim(_) if syn::parse2::<TraitItemFn>(item.clone()).is_ok() => {
            "a function without a body"
        }
        _ => "this item",
    };
    Err(syn::Error::new_spanned(
        item,
        format!("`#[gpu_leak_check]` must be on a test function, not on {kind}"),
    ))
}

/// Checks that the function can be called as it is. Anything that the attribute of a runtime or of
/// a fixture removes must be gone.
pub(crate) fn check(function: &ItemFn) -> syn::Result<()> {
    fn tokens(part: &impl ToTokens) -> TokenStream {
        part.to_token_stream()
    }

    let signature = &function.sig;
    let safety = &signature.safety;
    let mut parameters = signature.generics.params.iter();
    let problems = [
        (
            signature.receiver().map(tokens),
            "a method cannot be a test: move it out of its impl block and remove `self`",
        ),
        (
            signature.constness.as_ref().map(tokens),
            "a `const fn` cannot be a checked test: remove `const`",
        ),
        (
            matches!(safety, Safety::Unsafe(_)).then(|| tokens(safety)),
            "an `unsafe fn` cannot be a test: remove `unsafe` here and write an unsafe block \
             inside",
        ),
        (
            signature.abi.as_ref().map(tokens),
            "a test must use the Rust ABI: remove `extern`",
        ),
        (
            parameters
                .find(|it| !matches!(it, GenericParam::Lifetime(_)))
                .map(tokens),
            "a test cannot be generic: call the generic function from a test for each type",
        ),
        (
            signature.asyncness.as_ref().map(tokens),
            "an async test needs a runtime: add the runtime's attribute, such as `#[tokio::test]`",
        ),
        (
            (!signature.inputs.is_empty()).then(|| tokens(&signature.inputs)),
            "a test can take arguments only if an attribute such as `#[rstest]` supplies them: add \
             that attribute",
        ),
    ];
    let mut problems = problems.into_iter();
    match problems.find_map(|(tokens, why)| Some((tokens?, why))) {
        Some((tokens, why)) => Err(syn::Error::new_spanned(tokens, why)),
        None => Ok(()),
    }
}

/// Checks that a function is valid as a test.
pub(crate) fn check_test(function: &ItemFn, requeued: &Requeued) -> syn::Result<()> {
    let signature = &function.sig;
    let returns_unit = match &signature.output {
        ReturnType::Default => true,
        ReturnType::Type(_, output) => {
            matches!(&**output, Type::Tuple(tuple) if tuple.elems.is_empty())
        }
    };
    if requeued.should_panic.is_some() && !returns_unit {
        return Err(syn::Error::new_spanned(
            &signature.output,
            "a test with `#[should_panic]` must return `()`",
        ));
    }
    Ok(())
}

/// Whether this is a program's `main` and not a test with that name.
pub(crate) fn is_program(function: &ItemFn, requeued: &Requeued) -> bool {
    !requeued.has_test && function.sig.ident == "main"
}

/// Checks that a function is valid as a program's `main`.
pub(crate) fn check_program(
    function: &ItemFn,
    args: &Args,
    requeued: &Requeued,
) -> syn::Result<()> {
    let of_tests = ["isolate", "parallel"];
    let name = of_tests
        .into_iter()
        .find(|option| args.value(option).is_some());
    if let Some(name) = name {
        return Err(syn::Error::new(
            function.sig.ident.span(),
            format!(
                "`{name}` has no effect on `main`: the program already runs in its own process"
            ),
        ));
    }
    if requeued.should_panic.is_some() {
        return Err(syn::Error::new(
            function.sig.ident.span(),
            "`#[should_panic]` applies to tests, not to `main`",
        ));
    }
    Ok(())
}
