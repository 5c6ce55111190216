//! Every path that leaves this crate. All are absolute: whatever a user's module calls its own
//! items, an expansion means ours.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::Path;
use syn::spanned::Spanned;

/// Paths into the library, by whatever name the user's crate reaches it.
pub(crate) struct Paths<'a> {
    /// The option `crate = …`.
    library: Option<&'a Path>,
}

impl<'a> Paths<'a> {
    pub(crate) fn new(library: Option<&'a Path>) -> Self {
        Self { library }
    }

    /// The attribute itself.
    pub(crate) fn attribute(&self) -> TokenStream {
        let library = self.library(Span::call_site());
        quote!(#library::gpu_leak_check)
    }

    /// A name that the library keeps for expansions.
    ///
    /// All of them share one span: if the library is not found, rustc says so once.
    pub(crate) fn private(&self, name: &str) -> TokenStream {
        Self::join(
            self.library.map_or_else(Span::call_site, Spanned::span),
            self.library(Span::call_site()),
            name,
        )
    }

    /// The same at another place in the source, for what asks where it stands.
    pub(crate) fn private_at(&self, place: Span, name: &str) -> TokenStream {
        let mut library = TokenStream::new();
        for mut token in self.library(place) {
            // What a token means stays what it was.
            token.set_span(place.resolved_at(token.span()));
            library.extend([token]);
        }
        Self::join(place, library, name)
    }

    fn join(span: Span, library: TokenStream, name: &str) -> TokenStream {
        let name = Ident::new(name, span);
        quote_spanned!(span=> #library::__private::#name)
    }

    fn library(&self, span: Span) -> TokenStream {
        match self.library {
            Some(path) => path.to_token_stream(),
            None => quote_spanned!(span=> ::gpu_leak_check),
        }
    }
}

/// libtest's attribute, out of reach of `use some_runtime::test`.
pub(crate) fn test_attribute() -> TokenStream {
    quote!(#[::core::prelude::v1::test])
}
