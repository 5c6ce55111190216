//! Passes a module's arguments to its tests, in a hidden argument of each test's attribute.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote};
use syn::parse::{ParseStream, Parser};
use syn::{Attribute, Meta, Token, parenthesized};

const NAME: &str = "__inherited";

/// Creates the hidden argument, with its comma.
pub(crate) fn argument(args: &TokenStream) -> TokenStream {
    let name = Ident::new(NAME, Span::call_site());
    quote!(#name(#args),)
}

/// Whether the next argument is the hidden one.
pub(crate) fn stands_at(input: ParseStream<'_>) -> bool {
    input.fork().parse::<Ident>().is_ok_and(|name| name == NAME)
}

/// Parses the hidden argument and returns its content.
pub(crate) fn read(input: ParseStream<'_>) -> syn::Result<TokenStream> {
    input.parse::<Ident>()?;
    let args;
    parenthesized!(args in input);
    args.parse()
}

/// Whether only the hidden argument is present: then the item has no attribute of its own.
pub(crate) fn is_all(args: &TokenStream) -> bool {
    let parser = |input: ParseStream<'_>| {
        if !stands_at(input) {
            // The rest is not parsed here.
            input.parse::<TokenStream>()?;
            return Ok(false);
        }
        read(input)?;
        input.parse::<Option<Token![,]>>()?;
        let rest: TokenStream = input.parse()?;
        Ok(rest.is_empty())
    };
    parser.parse2(args.clone()).unwrap_or(false)
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
        "`#[gpu_leak_check]` is applied twice: put all options into one",
    )
}

/// Puts inherited arguments in front of an item's own arguments.
pub(crate) fn join(inherited: TokenStream, own: TokenStream) -> syn::Result<TokenStream> {
    let arguments = |input: ParseStream<'_>| {
        let arguments = read(input)?;
        input.parse::<Option<Token![,]>>()?;
        Ok(arguments)
    };
    let inherited = argument(&arguments.parse2(inherited)?);
    Ok(quote!(#inherited #own))
}
