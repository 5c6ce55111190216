//! Parses and expands `allow("fn:pattern*", reason = "…", kind = event, up_to = "1 MiB")`.

use gpu_leak_check_options::PATTERN_WORDS;
use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::parse::ParseStream;
use syn::{LitStr, Token, parenthesized};

use crate::paths::Paths;
use crate::value::{self, Value, size};

const USAGE: &str = "`allow(\"fn:optim::Adam::*\", reason = \"kept until the process ends\")`";

pub(crate) struct Allow {
    pattern: LitStr,
    reason: LitStr,
    kind: Option<Ident>,
    up_to: Option<TokenStream>,
}

impl Allow {
    /// Parses the tokens after `name`.
    pub(crate) fn parse(name: &Ident, input: ParseStream<'_>) -> syn::Result<Self> {
        if !input.peek(syn::token::Paren) {
            return Err(syn::Error::new(
                name.span(),
                format!("`allow` needs a pattern and a reason: {USAGE}"),
            ));
        }
        let content;
        let parentheses = parenthesized!(content in input);
        let pattern = value::literal(&content, &format!("expected a pattern: {USAGE}"))?;
        check(&pattern)?;
        let (mut reason, mut kind, mut up_to) = (None, None, None);
        let mut seen = Vec::new();
        while !content.is_empty() {
            content.parse::<Token![,]>()?;
            if content.is_empty() {
                break;
            }
            let key: Ident = content.parse()?;
            value::once(&key, &mut seen)?;
            match key.to_string().as_str() {
                "reason" => {
                    content.parse::<Token![=]>()?;
                    reason = Some(value::literal::<LitStr>(&content, value::NOT_QUOTED)?);
                }
                "kind" => {
                    content.parse::<Token![=]>()?;
                    kind = Some(content.parse()?);
                }
                "up_to" => {
                    if let Value::Number(value) = size(&content)? {
                        up_to = Some(value);
                    }
                }
                _ => {
                    let what = "expected `reason = \"kept until the process ends\"`, `kind = \
                                event` or `up_to = \"1 MiB\"`";
                    return Err(syn::Error::new(key.span(), what));
                }
            }
        }
        let Some(reason) =
            reason.filter(|reason| gpu_leak_check_options::is_reason(&reason.value()))
        else {
            return Err(syn::Error::new(
                parentheses.span.join(),
                format!("missing reason: {USAGE}"),
            ));
        };
        Ok(Self {
            pattern,
            reason,
            kind,
            up_to,
        })
    }

    /// Expands to the library's `Allow`.
    pub(crate) fn expanded(&self, paths: &Paths) -> TokenStream {
        let [allow, kind] = ["Allow", "Kind"].map(|name| paths.private(name));
        let Self {
            pattern, reason, ..
        } = self;
        // An unknown kind becomes a variant that does not exist, so that the compiler reports it at
        // the user's own word.
        let of_kind = self.kind.as_ref().map(variant);
        let of_kind = paths.option(of_kind.map(|variant| quote!(#kind::#variant)));
        let up_to = paths.option(self.up_to.as_ref());
        quote!(#allow { pattern: #pattern, reason: #reason, kind: #of_kind, up_to: #up_to })
    }
}

fn check(pattern: &LitStr) -> syn::Result<()> {
    let text = pattern.value();
    match text.split_once(':') {
        Some((word, rest)) if PATTERN_WORDS.contains(&word) && !rest.trim().is_empty() => Ok(()),
        Some((word, _)) if PATTERN_WORDS.contains(&word) => Err(syn::Error::new(
            pattern.span(),
            "an empty pattern matches nothing",
        )),
        _ => Err(syn::Error::new(
            pattern.span(),
            format!(
                "a pattern must begin with one of {}:, as in {USAGE}",
                PATTERN_WORDS.join(":, ")
            ),
        )),
    }
}

/// Returns `StreamOrdered` for `stream_ordered`.
fn variant(kind: &Ident) -> Ident {
    let mut variant = String::new();
    for part in kind.to_string().split('_') {
        let mut letters = part.chars();
        variant.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        variant.push_str(letters.as_str());
    }
    Ident::new(&variant, kind.span())
}
