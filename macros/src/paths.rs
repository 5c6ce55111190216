//! All paths in the expansion. They are absolute, so that an expansion never refers to items of the
//! user's module with the same names.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::Path;
use syn::spanned::Spanned;

/// Builds paths to the library's items, under whatever name the user's crate knows the library.
pub(crate) struct Paths {
    library: TokenStream,
    /// The span of every path, so that rustc reports only one error if the library is not found.
    span: Span,
}

impl Paths {
    /// Creates the paths. `library` is the value of the `crate = …` option.
    pub(crate) fn new(library: Option<&Path>) -> Self {
        Self {
            library: library.map_or_else(|| quote!(::gpu_leak_check), Path::to_token_stream),
            span: library.map_or_else(Span::call_site, Spanned::span),
        }
    }

    /// Returns the path of the attribute itself.
    pub(crate) fn attribute(&self) -> TokenStream {
        let library = &self.library;
        quote!(#library::gpu_leak_check)
    }

    /// Returns the path of a name that the library provides for expansions.
    pub(crate) fn private(&self, name: &str) -> TokenStream {
        let library = &self.library;
        let name = Ident::new(name, self.span);
        quote_spanned!(self.span=> #library::__private::#name)
    }

    /// Returns an expression for `Some` with this value, or for `None`.
    pub(crate) fn option(&self, value: Option<impl ToTokens>) -> TokenStream {
        match value {
            Some(value) => {
                let some = self.private("Some");
                quote!(#some(#value))
            }
            None => self.private("None"),
        }
    }
}

/// Returns libtest's attribute, even if the user's module imports another one with `use
/// some_runtime::test`.
pub(crate) fn test_attribute() -> TokenStream {
    quote!(#[::core::prelude::v1::test])
}

/// Returns expressions for the line and the column of `place`. The compiler uses the location of
/// the outermost macro call, and a span in the user's source is outside all macros.
pub(crate) fn line_and_column(place: Span) -> TokenStream {
    quote_spanned!(place=> ::core::line!(), ::core::column!())
}
