//! Expands an annotated function.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Attribute, ItemFn, ReturnType, Type, parse_quote};

use crate::args::Args;
use crate::input::{self, Input};
use crate::paths::{self, Paths};
use crate::requeue::Requeued;
use crate::should_panic::ShouldPanic;
use crate::{attributes, conflicts, module};

/// Expands the attribute with `args` on `item`.
///
/// On an error, it also returns the item without its test attributes, so that code that names the
/// item does not cause more errors.
pub(crate) fn attribute(args: TokenStream, item: TokenStream) -> TokenStream {
    let function = match input::read(item.clone()) {
        Ok(Input::Function(function)) => *function,
        Ok(Input::Module(module)) => {
            return module::expand(args, module.clone())
                .unwrap_or_else(|error| with_error(&error, module::bare(&module)));
        }
        // The file is not emitted again, because it contains items that the compiler adds to a file
        // and refuses anywhere else.
        Err(error) if input::is_file(&item) => return error.to_compile_error(),
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

pub(crate) fn with_error(error: &syn::Error, item: TokenStream) -> TokenStream {
    let error = error.to_compile_error();
    quote!(#error #item)
}

fn expand(tokens: TokenStream, mut function: ItemFn) -> syn::Result<TokenStream> {
    let (mut requeued, tokens) = Requeued::take(tokens)?;
    if let Some(position) = function.attrs.iter().position(attributes::is_self) {
        let other = &function.attrs[position];
        let (passed, own) = Requeued::take(attributes::arguments(other))?;
        let is_of_module = requeued.is_of_module(&tokens);
        let other_is_of_module = passed.is_of_module(&own);
        requeued.absorb(passed);
        if other_is_of_module {
            function.attrs.remove(position);
        } else if is_of_module {
            // The function's own attribute is added again, under the name that it has in this
            // function.
            let path = other.path();
            let marker = requeued.argument();
            function.attrs[position] = parse_quote!(#[#path(#marker #own)]);
            return Ok(function.into_token_stream());
        } else {
            return Err(attributes::twice(other));
        }
    }
    let args = Args::parse(tokens.clone(), requeued.inherited.as_ref())?;
    conflicts::check_layer(|name| args.value(name))?;
    let paths = Paths::new(args.library.as_ref());
    // If an attribute above this one made the test, that test already has its `#[should_panic]`.
    let is_made = requeued.has_test && !function.attrs.iter().any(attributes::makes_test);
    // rstest applies `#[should_panic]` only to the case that follows it.
    if is_made || !function.attrs.iter().any(attributes::is_case) {
        let found = ShouldPanic::take(&mut function.attrs, is_made)?;
        requeued.should_panic = found.or(requeued.should_panic);
    }
    requeued.has_test |= function.attrs.iter().any(attributes::makes_test);
    let is_finished = input::check(&function).is_ok();
    if let Some(again) = requeued.behind_others(&tokens, &function, is_finished, &paths) {
        return Ok(again);
    }
    if requeued.is_of_module(&tokens) && !requeued.has_test {
        // The module's attribute took this function for a test that depends on a condition, but it
        // is not a test.
        return Ok(function.into_token_stream());
    }
    input::check(&function)?;
    let is_program = input::is_program(&function, &requeued);
    match is_program {
        true => input::check_program(&function, &args, &requeued)?,
        false => input::check_test(&function, &requeued)?,
    }
    Ok(checked(is_program, &args, &requeued, &paths, function))
}

/// Expands to two items: the wrapper that libtest runs, or a program's `main`, and a static that
/// contains the body and describes the test. The two are separate because a build without libtest
/// deletes the wrapper. A `main` is not registered as a test: libtest ignores it, and without
/// libtest, the program runs it.
fn checked(
    is_program: bool,
    args: &Args,
    requeued: &Requeued,
    paths: &Paths,
    function: ItemFn,
) -> TokenStream {
    let name = &function.sig.ident;
    let case = format_ident!("__gpu_leak_check_{}", name, span = Span::call_site());
    let (test, run, path, only_in_tests, register);
    if is_program {
        let program = paths.private("program");
        (run, path) = (paths.private("run_program"), quote!(#program!()));
        (test, only_in_tests, register) = Default::default();
    } else {
        let name = printed(name);
        let (of_module, submit) = (paths.private("path"), paths.private("submit"));
        (run, path) = (paths.private("run"), quote!(#of_module!(#name)));
        test = test_attribute(requeued, &function);
        only_in_tests = quote!(#[cfg(test)]);
        register = quote!(#submit!(&#case););
    }
    let wrapper = wrapper(&test, &run, paths, &function, &case);
    let type_ = paths.private("Case");
    let new = new_case(&path, paths, &function);
    let fields = fields(args, requeued, paths, &function);
    let value = if fields.is_empty() {
        new
    } else {
        quote!(#type_ { #(#fields,)* ..#new })
    };
    let body = body(function);
    quote! {
        #wrapper
        #only_in_tests
        static #case: #type_ = {
            #body
            #register
            #value
        };
    }
}

/// Returns the attribute that makes the wrapper a test.
fn test_attribute(requeued: &Requeued, function: &ItemFn) -> TokenStream {
    // These are the user's own tokens, because `test` may be another macro in the user's module.
    let plain_test = function.attrs.iter().find(|a| attributes::is_plain_test(a));
    match plain_test {
        Some(attribute) => attribute.to_token_stream(),
        // An attribute above this one has already registered a test under this function's name.
        None if requeued.has_test => quote!(#[cfg(test)]),
        None => paths::test_attribute(),
    }
}

fn wrapper(
    test: &TokenStream,
    run: &TokenStream,
    paths: &Paths,
    function: &ItemFn,
    case: &Ident,
) -> TokenStream {
    let attributes = function
        .attrs
        .iter()
        .filter(|attribute| {
            attributes::is_of_name(attribute) || attributes::is_lint_level(attribute)
        })
        .map(unexpected);
    let visibility = &function.vis;
    let name = &function.sig.ident;
    let exit_code = paths.private("ExitCode");
    quote! {
        #(#attributes)*
        #test
        #visibility fn #name() -> #exit_code {
            #run(&#case)
        }
    }
}

/// Converts an `expect` attribute of the body for the wrapper, which does not fulfil the
/// expectation.
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

/// Expands to the `Case` of a test without options.
fn new_case(path: &TokenStream, paths: &Paths, function: &ItemFn) -> TokenStream {
    let name = &function.sig.ident;
    let case = paths.private("Case");
    // A report gives the line of the function, as libtest does, not the line of the attribute.
    let origin = paths.private("origin");
    let place = paths::line_and_column(name.span());
    // If the return type cannot be a test's outcome, this span makes the compiler report the error
    // at that type.
    let at = match &function.sig.output {
        ReturnType::Default => Span::call_site(),
        ReturnType::Type(_, output) => Span::call_site().located_at(output.span()),
    };
    let finish = paths.private("finish");
    let finish = match &function.sig.output {
        // A call with a value that never exists would be reported as unreachable.
        ReturnType::Type(_, output) if matches!(**output, Type::Never(_)) => quote!(|| #name()),
        _ => quote_spanned!(at=> || #finish(#name())),
    };
    quote!(#case::new(#path, #origin!(#place), #finish))
}

/// Returns a name as libtest prints it, with `r#` only if it is needed.
fn printed(name: &Ident) -> String {
    let plain = name.unraw().to_string();
    match syn::parse_str::<Ident>(&plain) {
        // `gen` is a keyword since the edition 2024, and syn does not know the edition.
        Ok(_) if plain != "gen" => plain,
        _ => name.to_string(),
    }
}

/// Expands to the fields of `Case` that this test sets.
fn fields(args: &Args, requeued: &Requeued, paths: &Paths, function: &ItemFn) -> Vec<TokenStream> {
    let mut fields = Vec::new();
    let options = args.fields(paths);
    if !options.is_empty() {
        let type_ = paths.private("Options");
        fields.push(quote!(options: #type_ { #(#options,)* ..#type_::DEFAULT }));
    }
    if let Some(should_panic) = &requeued.should_panic {
        let expected = paths.option(Some(should_panic.expanded(paths)));
        fields.push(quote!(should_panic: #expected));
    }
    if function.attrs.iter().any(|a| a.path().is_ident("ignore")) {
        fields.push(quote!(ignored: true));
    }
    fields
}
