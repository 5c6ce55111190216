//! Expands the attribute on an inline module. Each test in the module gets the attribute, with the
//! module's options.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::parse::ParseStream;
use syn::punctuated::Punctuated;
use syn::{Attribute, Item, ItemMod, Meta, Token, parse_quote};

use crate::args::Args;
use crate::attributes;
use crate::input::WHOLE_SUITE;
use crate::paths::Paths;
use crate::requeue::Requeued;

/// Adds the attribute to the items of the module.
pub(crate) fn expand(all: TokenStream, mut module: ItemMod) -> syn::Result<TokenStream> {
    let (requeued, tokens) = Requeued::take(all.clone())?;
    if let Some(own) = module.attrs.iter_mut().find(|a| attributes::is_self(a)) {
        if !requeued.is_of_module(&tokens) {
            return Err(attributes::twice(own));
        }
        let (path, marker) = (own.path(), requeued.argument());
        let arguments = attributes::arguments(own);
        *own = parse_quote!(#[#path(#marker #arguments)]);
        return Ok(module.into_token_stream());
    }
    // The arguments are parsed here, so that a mistake is reported once and not at each test.
    let args = Args::parse(tokens, requeued.inherited.as_ref())?;
    let Some((_, items)) = &mut module.content else {
        return Err(syn::Error::new_spanned(
            &module,
            format!(
                "`#[gpu_leak_check]` on a module needs the module's contents: write `mod name {{ … }}` \
                 here, put the attribute on each test in the file, {WHOLE_SUITE}"
            ),
        ));
    };
    let attribute = Paths::new(args.library.as_ref()).attribute();
    let argument = Requeued::inheriting(all).argument();
    for item in items {
        let attributes = match item {
            Item::Fn(function) if function.attrs.iter().any(may_make_test) => &mut function.attrs,
            Item::Mod(module) if module.content.is_some() => &mut module.attrs,
            _ => continue,
        };
        attributes.insert(0, parse_quote!(#[#attribute(#argument)]));
    }
    Ok(module.into_token_stream())
}

/// Whether this attribute, or one in a `cfg_attr`, makes a checked test.
fn may_make_test(attribute: &Attribute) -> bool {
    if !attribute.path().is_ident("cfg_attr") {
        return attributes::makes_test(attribute) || attributes::is_self(attribute);
    }
    let conditional = |input: ParseStream<'_>| {
        // The condition is irrelevant here and need not look like an attribute.
        while !input.is_empty() && !input.peek(Token![,]) {
            input.parse::<proc_macro2::TokenTree>()?;
        }
        input.parse::<Option<Token![,]>>()?;
        Punctuated::<Meta, Token![,]>::parse_terminated(input)
    };
    let metas = attribute.parse_args_with(conditional).unwrap_or_default();
    metas
        .into_iter()
        .map(|meta| parse_quote!(#[#meta]))
        .any(|attribute: Attribute| may_make_test(&attribute))
}

/// Returns the module without the attribute, to be emitted with an error.
pub(crate) fn bare(module: &ItemMod) -> TokenStream {
    let mut module = module.clone();
    module
        .attrs
        .retain(|attribute| !attributes::is_self(attribute));
    quote!(#module)
}
