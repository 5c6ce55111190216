//! Removes `#[should_panic]` from the test, because libtest sees only the wrapper, which must not
//! panic when the body does. If the macro that makes the test is above this one, libtest has read
//! the attribute already, and the wrapper must satisfy libtest as well.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Attribute, LitStr, Meta, MetaNameValue};

use crate::paths::Paths;
use crate::value;

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
    pub(crate) fn take(attributes: &mut Vec<Attribute>) -> syn::Result<Option<Self>> {
        let found: Vec<_> = attributes
            .extract_if(.., |attribute| attribute.path().is_ident("should_panic"))
            .collect();
        found.first().map(Self::read).transpose()
    }

    /// Like [`Self::take`], for a test in which libtest has read the attribute.
    pub(crate) fn take_after_libtest(attributes: &mut Vec<Attribute>) -> syn::Result<Option<Self>> {
        let found = Self::take(attributes)?;
        Ok(found.map(|it| Self {
            by_libtest: true,
            ..it
        }))
    }

    fn read(attribute: &Attribute) -> syn::Result<Self> {
        let expected = match &attribute.meta {
            Meta::Path(_) => return Ok(Self::of(None)),
            Meta::NameValue(pair) => value::text(&pair.value),
            Meta::List(list) => list
                .parse_args::<MetaNameValue>()
                .ok()
                .filter(|pair| pair.path.is_ident("expected"))
                .and_then(|pair| value::text(&pair.value)),
        };
        match expected {
            Some(text) => Ok(Self::of(Some(text))),
            None => Err(syn::Error::new_spanned(
                attribute,
                "unknown form: write `#[should_panic]` or `#[should_panic(expected = \"message\")]`",
            )),
        }
    }

    /// Returns an attribute with this argument that libtest has not read.
    pub(crate) fn of(expected: Option<LitStr>) -> Self {
        Self {
            expected,
            by_libtest: false,
        }
    }

    /// Expands to the library's `ShouldPanic`.
    pub(crate) fn fact(&self, paths: &Paths) -> TokenStream {
        let should_panic = paths.private("ShouldPanic");
        let expected = paths.option(self.expected.as_ref());
        let by_libtest = self.by_libtest;
        quote!(#should_panic { expected: #expected, by_libtest: #by_libtest })
    }
}
