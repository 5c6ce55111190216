//! What a test inherits from its module: the module's arguments, in a hidden argument of its own.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote};
use syn::parse::{ParseStream, Parser};
use syn::{Attribute, Meta, Token, parenthesized};

const NAME: &str = "__inherited";

/// The hidden argument, with its comma.
pub(crate) fn argument(args: &TokenStream) -> TokenStream {
    let name = Ident::new(NAME, Span::call_site());
    quote!(#name(#args),)
}

/// Whether the hidden argument is the next one.
pub(crate) fn stands_at(input: ParseStream<'_>) -> bool {
    input.fork().parse::<Ident>().is_ok_and(|name| name == NAME)
}

/// Reads the hidden argument: what is in it.
pub(crate) fn read(input: ParseStream<'_>) -> syn::Result<TokenStream> {
    input.parse::<Ident>()?;
    let args;
    parenthesized!(args in input);
    args.parse()
}

/// Whether nothing but the hidden argument stands here: the item has no attribute of its own.
pub(crate) fn is_all(args: &TokenStream) -> bool {
    let parser = |input: ParseStream<'_>| {
        if !stands_at(input) {
            // What follows is not ours to judge.
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

/// The arguments of an attribute.
pub(crate) fn arguments(attribute: &Attribute) -> TokenStream {
    match &attribute.meta {
        Meta::List(list) => list.tokens.clone(),
        Meta::Path(_) => TokenStream::new(),
        // A wrong form, which is reported where it is read.
        Meta::NameValue(pair) => pair.value.to_token_stream(),
    }
}

/// The error of two attributes on an item where none is its module's.
pub(crate) fn twice(again: &Attribute) -> syn::Error {
    syn::Error::new_spanned(
        again,
        "`#[gpu_leak_check]` stands twice: put all options into one",
    )
}

/// Puts what is inherited in front of an item's own arguments.
pub(crate) fn join(inherited: TokenStream, own: TokenStream) -> syn::Result<TokenStream> {
    let arguments = |input: ParseStream<'_>| {
        let arguments = read(input)?;
        input.parse::<Option<Token![,]>>()?;
        Ok(arguments)
    };
    let inherited = argument(&arguments.parse2(inherited)?);
    Ok(quote!(#inherited #own))
}
