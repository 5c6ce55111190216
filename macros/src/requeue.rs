//! Moves the attribute behind all other attributes. Attributes expand from first to last, and each
//! sees only the output of the earlier ones. A check must wrap the finished test, including an
//! async runtime, a fixture or a lock. So this attribute re-emits itself behind the others until
//! they are gone.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::parse::{ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{Attribute, Ident, ItemFn, LitBool, LitStr, Token, parenthesized};

use crate::attributes;
use crate::paths::Paths;
use crate::should_panic::ShouldPanic;

/// The data that one expansion passes to another in a hidden argument: from one round to the next,
/// and from a module to its tests.
#[derive(Default)]
pub(crate) struct Requeued {
    /// The arguments of the attribute on the module that contains the item.
    pub(crate) inherited: Option<TokenStream>,
    /// Whether an attribute that makes a test was seen. It may already have been expanded.
    pub(crate) has_test: bool,
    /// `#[should_panic]`, which was removed before another attribute could act on it.
    pub(crate) should_panic: Option<ShouldPanic>,
    /// The attributes behind which this one has already moved. If only these are left, they are not
    /// macros.
    behind: Vec<String>,
}

impl Requeued {
    const NAME: &str = "__requeued";

    /// Returns the data that a module with the arguments `inherited` passes to its items.
    pub(crate) fn inheriting(inherited: TokenStream) -> Self {
        Self {
            inherited: Some(inherited),
            ..Self::default()
        }
    }

    /// Removes the hidden argument written by [`Requeued::argument`] from the front of the
    /// arguments.
    pub(crate) fn take(args: TokenStream) -> syn::Result<(Self, TokenStream)> {
        (|input: ParseStream<'_>| {
            let mut requeued = Self::default();
            if input.peek(Ident) && input.fork().parse::<Ident>()? == Self::NAME {
                input.parse::<Ident>()?;
                let facts;
                parenthesized!(facts in input);
                requeued.read(&facts)?;
                input.parse::<Token![,]>()?;
            }
            Ok((requeued, input.parse()?))
        })
        .parse2(args)
    }

    /// Whether an attribute with this data and the arguments `own` comes from the module alone, so
    /// that the item has none of its own.
    pub(crate) fn is_of_module(&self, own: &TokenStream) -> bool {
        self.inherited.is_some() && own.is_empty()
    }

    /// Adds the data that another attribute on the same item has recorded.
    pub(crate) fn absorb(&mut self, other: Self) {
        self.inherited = self.inherited.take().or(other.inherited);
        self.has_test |= other.has_test;
        self.should_panic = self.should_panic.take().or(other.should_panic);
    }

    fn read(&mut self, facts: ParseStream<'_>) -> syn::Result<()> {
        while !facts.is_empty() {
            let fact: Ident = facts.parse()?;
            let value;
            parenthesized!(value in facts);
            if fact == "inherited" {
                self.inherited = Some(value.parse()?);
            } else if fact == "test" {
                self.has_test = true;
            } else if fact == "panics" {
                self.should_panic = Some(ShouldPanic {
                    expected: value.parse()?,
                    by_libtest: value.parse::<LitBool>()?.value,
                });
            } else {
                let names = Punctuated::<LitStr, Token![,]>::parse_terminated(&value)?;
                self.behind = names.iter().map(LitStr::value).collect();
            }
        }
        Ok(())
    }

    /// Creates the argument that [`Requeued::take`] removes, with its comma.
    pub(crate) fn argument(&self) -> TokenStream {
        let name = Ident::new(Self::NAME, Span::call_site());
        let inherited = self.inherited.iter();
        let test = self.has_test.then(|| quote!(test()));
        let panics = self.should_panic.as_ref().map(|should_panic| {
            let ShouldPanic {
                expected,
                by_libtest,
            } = should_panic;
            quote!(panics(#expected #by_libtest))
        });
        let behind = &self.behind;
        quote!(#name(#(inherited(#inherited))* #test #panics behind(#(#behind),*)),)
    }

    /// Re-emits the attribute behind the macros that are still on the function. Returns `None` if
    /// this is the last round.
    ///
    /// A plain `#[test]` is not such a macro. It is kept, because a build without libtest deletes
    /// the item that it is on. On a function that is not a finished test, `test` must be the name
    /// of another macro. `is_finished` says whether the function can already be a test.
    pub(crate) fn behind_others(
        &mut self,
        args: &TokenStream,
        function: &ItemFn,
        is_finished: bool,
        paths: &Paths,
    ) -> Option<TokenStream> {
        let stays = |attribute: &&Attribute| is_finished && attributes::is_plain_test(attribute);
        let others: Vec<String> = function
            .attrs
            .iter()
            .filter(|attribute| !attributes::is_inert(attribute) && !stays(attribute))
            .map(attributes::name)
            .collect();
        if others.is_empty() || others == self.behind {
            return None;
        }
        self.behind = others;

        let mut function = function.clone();
        let attributes = std::mem::take(&mut function.attrs);
        let (after, before): (Vec<_>, Vec<_>) =
            attributes.iter().partition(|attribute| stays(attribute));
        let attribute = paths.attribute();
        let marker = self.argument();
        Some(quote! {
            #(#before)*
            #[#attribute(#marker #args)]
            #(#after)*
            #function
        })
    }
}
