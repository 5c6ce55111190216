//! Removes `#[should_panic]` from the test, because libtest sees only the wrapper, which must not
//! panic when the body does. If the macro that makes the test is above this one, libtest has
//! already read the attribute, and the wrapper must satisfy libtest as well.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{Attribute, Expr, LitStr, Meta, MetaNameValue};

use crate::paths::Paths;

/// The argument of `#[should_panic]`.
#[derive(Clone)]
pub(crate) struct ShouldPanic {
    /// A text that the panic message must contain.
    pub(crate) expected: Option<LitStr>,
    /// Whether libtest has read the attribute.
    pub(crate) by_libtest: bool,
}

impl ShouldPanic {
    /// Removes the attribute, if there is one. If there are several, the first one counts, as for
    /// libtest. The macro `test_case` writes two.
    pub(crate) fn take(
        attributes: &mut Vec<Attribute>,
        by_libtest: bool,
    ) -> syn::Result<Option<Self>> {
        let found: Vec<_> = attributes
            .extract_if(.., |attribute| attribute.path().is_ident("should_panic"))
            .collect();
        let expected = found.first().map(expected).transpose()?;
        Ok(expected.map(|expected| Self {
            expected,
            by_libtest,
        }))
    }

    /// Expands to the library's `ShouldPanic`.
    pub(crate) fn expanded(&self, paths: &Paths) -> TokenStream {
        let should_panic = paths.private("ShouldPanic");
        let expected = paths.option(self.expected.as_ref());
        let by_libtest = self.by_libtest;
        quote!(#should_panic { expected: #expected, by_libtest: #by_libtest })
    }
}

/// Returns the text that the attribute expects in the panic message; `None` if it expects any
/// panic.
fn expected(attribute: &Attribute) -> syn::Result<Option<LitStr>> {
    let expected = match &attribute.meta {
        Meta::Path(_) => return Ok(None),
        Meta::NameValue(pair) => text(&pair.value),
        Meta::List(list) => list
            .parse_args::<MetaNameValue>()
            .ok()
            .filter(|pair| pair.path.is_ident("expected"))
            .and_then(|pair| text(&pair.value)),
    };
    expected.map(Some).ok_or_else(|| {
        syn::Error::new_spanned(
            attribute,
            "unknown form: write `#[should_panic]` or `#[should_panic(expected = \"message\")]`",
        )
    })
}

/// Returns a string in quotes; `None` for any other expression.
fn text(value: &Expr) -> Option<LitStr> {
    syn::parse2(value.to_token_stream()).ok()
}
