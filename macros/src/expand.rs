//! From an annotated function to what the compiler gets in its place.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Attribute, ItemFn, ReturnType};

use crate::args::Args;
use crate::paths::{self, Paths};
use crate::requeue::Requeued;
use crate::should_panic::ShouldPanic;
use crate::{attributes, input};

/// Expands the attribute with `args` on `item`.
///
/// With an error comes the function without its attributes of a test, so that whatever else names
/// it is not wrong as well.
pub(crate) fn attribute(args: TokenStream, item: TokenStream) -> TokenStream {
    let function = match input::function(item.clone()) {
        Ok(function) => function,
        Err(error) => return with_error(&error, item),
    };
    expand(args, function.clone()).unwrap_or_else(|error| {
        let mut function = function;
        function.attrs.retain(|attribute| {
            !attributes::is_self(attribute) && !attributes::is_of_libtest(attribute)
        });
        with_error(&error, function.into_token_stream())
    })
}

fn with_error(error: &syn::Error, item: TokenStream) -> TokenStream {
    let error = error.to_compile_error();
    quote!(#error #item)
}

fn expand(tokens: TokenStream, mut function: ItemFn) -> syn::Result<TokenStream> {
    if let Some(again) = function.attrs.iter().find(|a| attributes::is_self(a)) {
        return Err(syn::Error::new_spanned(
            again,
            "`#[gpu_leak_check]` stands twice: put all options into one",
        ));
    }
    let (mut requeued, tokens) = Requeued::take(tokens)?;
    let args = Args::parse(tokens.clone())?;
    let paths = Paths::new(args.library.as_ref());
    // If the test was made above, libtest has read what stands here and judges it.
    let is_made = requeued.has_test && !function.attrs.iter().any(attributes::is_plain_test);
    if !is_made && let Some(should_panic) = ShouldPanic::take(&mut function.attrs)? {
        requeued.should_panic = Some(should_panic);
    }
    requeued.has_test |= function.attrs.iter().any(attributes::makes_test);
    if let Some(again) = requeued.behind_others(&tokens, &function, &paths) {
        return Ok(again);
    }
    input::check(&function)?;
    input::check_test(&function, &requeued)?;
    Ok(checked_test(&args, &requeued, &paths, function))
}

/// The wrapper that libtest runs, and one item with the body and the facts about it. The second
/// stands by itself: a build without libtest deletes the first.
fn checked_test(args: &Args, requeued: &Requeued, paths: &Paths, function: ItemFn) -> TokenStream {
    let name = function.sig.ident.clone();
    let case = format_ident!(
        "__gpu_leak_check_{}",
        name.unraw(),
        span = Span::call_site()
    );
    let wrapper = wrapper(requeued, paths, &function, &case);

    let type_ = paths.private("Case");
    let register = paths.private("register");
    let new = new_case(paths, &function);
    let facts = facts(args, requeued, paths, &function);
    let value = if facts.is_empty() {
        new
    } else {
        quote!(#type_ { #(#facts,)* ..#new })
    };
    let body = body(function);
    quote! {
        #wrapper
        #[cfg(test)]
        static #case: #type_ = {
            #body
            #register!(#case);
            #value
        };
    }
}

fn wrapper(requeued: &Requeued, paths: &Paths, function: &ItemFn, case: &Ident) -> TokenStream {
    let attributes = function
        .attrs
        .iter()
        .filter(|attribute| {
            attributes::is_of_name(attribute) || attributes::is_lint_level(attribute)
        })
        .map(unexpected);
    // The user's own tokens: `test` may be the name of another macro in their module.
    let plain_test = function.attrs.iter().find(|a| attributes::is_plain_test(a));
    let test = match plain_test {
        Some(attribute) => attribute.to_token_stream(),
        // Whatever made the test did so above, and libtest has seen this function's name.
        None if requeued.has_test => quote!(#[cfg(test)]),
        None => paths::test_attribute(),
    };
    let visibility = &function.vis;
    let name = &function.sig.ident;
    let exit_code = paths.private("ExitCode");
    let run = paths.private("run");
    quote! {
        #(#attributes)*
        #test
        #visibility fn #name() -> #exit_code {
            #run(&#case)
        }
    }
}

/// What is expected of the body cannot be expected of the wrapper too.
fn unexpected(attribute: &Attribute) -> Attribute {
    let mut attribute = attribute.clone();
    if attribute.path().is_ident("expect")
        && let syn::Meta::List(list) = &mut attribute.meta
    {
        list.path = Ident::new("allow", Span::call_site()).into();
    }
    attribute
}

fn body(mut function: ItemFn) -> ItemFn {
    function.attrs.retain(|attribute| {
        !attributes::is_of_name(attribute) && !attributes::is_plain_test(attribute)
    });
    function.vis = syn::Visibility::Inherited;
    function
}

/// What is known of every test.
fn new_case(paths: &Paths, function: &ItemFn) -> TokenStream {
    let name = &function.sig.ident;
    let case = paths.private("Case");
    let path = paths.private("path");
    let printed = printed(name);
    // A report names the line of the function, as libtest does, not that of the attribute.
    let origin = paths.private("origin");
    let place = paths::line_and_column(name.span());
    // A return type that is no outcome of a test is an error at that type.
    let at = match &function.sig.output {
        ReturnType::Default => Span::call_site(),
        ReturnType::Type(_, output) => Span::call_site().located_at(output.span()),
    };
    let finish = paths.private("finish");
    let finish = quote_spanned!(at=> || #finish(#name()));
    quote!(#case::new(#path!(#printed), #origin!(#place), #finish))
}

/// A name as libtest prints it: `r#` only where it is needed.
fn printed(name: &Ident) -> String {
    let plain = name.unraw().to_string();
    match syn::parse_str::<Ident>(&plain) {
        Ok(_) => plain,
        Err(_) => name.to_string(),
    }
}

/// What is known of this test only.
fn facts(args: &Args, requeued: &Requeued, paths: &Paths, function: &ItemFn) -> Vec<TokenStream> {
    let mut facts = Vec::new();
    let options = args.facts(paths);
    if !options.is_empty() {
        let type_ = paths.private("Options");
        facts.push(quote!(options: #type_ { #(#options,)* ..#type_::DEFAULT }));
    }
    if let Some(should_panic) = &requeued.should_panic {
        let some = paths.private("Some");
        let fact = should_panic.fact(paths);
        facts.push(quote!(should_panic: #some(#fact)));
    }
    if function.attrs.iter().any(|a| a.path().is_ident("ignore")) {
        facts.push(quote!(ignored: true));
    }
    facts
}
