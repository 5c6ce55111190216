//! Parses the attribute's arguments. There is one table of names and one check for repeated
//! arguments. Each mistake gets its own error.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::quote;
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{Path, Token};

use crate::allow::Allow;
use crate::conflicts;
use crate::paths::Paths;
use crate::requeue::Requeued;
use crate::value::{self, Value};

/// The attribute's arguments.
#[derive(Default)]
pub(crate) struct Args {
    /// `crate = path`: the path of the library.
    pub(crate) library: Option<Path>,
    /// The options, as written.
    pub(crate) options: Vec<(&'static str, Value)>,
    /// The `allow` entries, each as the fields of `Allow`.
    pub(crate) allow: Vec<Allow>,
}

/// A row of the table of options.
struct OptionRow {
    /// The name of the option, which is also the name of the field of `Options`.
    name: &'static str,
    /// An example of its syntax.
    example: &'static str,
    /// Whether the name may be used without a value.
    alone: bool,
    /// Parses the tokens after the name.
    value: fn(ParseStream<'_>) -> syn::Result<Value>,
}

macro_rules! may_stand_alone {
    (switch) => {
        true
    };
    ($kind:ident) => {
        false
    };
}

macro_rules! rows {
    ($($group:ident {
        $($(#[$doc:meta])* $name:ident: $kind:ident = $example:literal,)*
    })*) => {
        const OPTIONS: &[OptionRow] = &[$($(OptionRow {
            name: stringify!($name),
            example: $example,
            alone: may_stand_alone!($kind),
            value: value::$kind,
        },)*)*];
    };
}
gpu_leak_check_options::options!(rows);

const LIBRARY: &str = "crate";
const ALLOW: &str = "allow";

impl Args {
    /// Parses an attribute's own arguments and adds the inherited ones. The error contains every
    /// mistake in its own arguments.
    pub(crate) fn parse(own: TokenStream, inherited: Option<&TokenStream>) -> syn::Result<Self> {
        let mut args = Self::parse_own(own)?;
        if let Some(inherited) = inherited {
            let (outer, own) = Requeued::take(inherited.clone())?;
            args.fill_from(Self::parse(own, outer.inherited.as_ref())?);
        }
        Ok(args)
    }

    fn parse_own(tokens: TokenStream) -> syn::Result<Self> {
        (|input: ParseStream<'_>| {
            let mut args = Self::default();
            let mut seen = Vec::new();
            let mut mistakes: Option<syn::Error> = None;
            while !input.is_empty() {
                if let Err(mistake) = args.read_one(input, &mut seen) {
                    skip_to_comma(input)?;
                    match &mut mistakes {
                        Some(earlier) => earlier.combine(mistake),
                        None => mistakes = Some(mistake),
                    }
                }
                if !input.is_empty() {
                    input.parse::<Token![,]>()?;
                }
            }
            if let Some(mistakes) =
                mistakes.or_else(|| conflicts::check(|name| args.value(name), &seen))
            {
                return Err(mistakes);
            }
            Ok(args)
        })
        .parse2(tokens)
    }

    /// Adds the inherited arguments that are not set here and do not contradict arguments set here.
    fn fill_from(&mut self, inherited: Self) {
        self.library = self.library.take().or(inherited.library);
        self.allow.extend(inherited.allow);
        for inherited in inherited.options {
            let mut own = self.options.iter();
            if !own.any(|own| own.0 == inherited.0 || conflicts::may_contradict(own, &inherited)) {
                self.options.push(inherited);
            }
        }
    }

    /// Returns the value of this option, if it is set.
    pub(crate) fn value(&self, option: &str) -> Option<&Value> {
        let mut options = self.options.iter();
        options.find_map(|(name, value)| (*name == option).then_some(value))
    }

    fn read_one(&mut self, input: ParseStream<'_>, seen: &mut Vec<Ident>) -> syn::Result<()> {
        let Ok(name) = Ident::parse_any(input) else {
            return Err(input.error(
                "expected an option, which begins with its name, for example `tolerance = \"1 MiB\"`, \
                 `rounds = 3` or `parallel`",
            ));
        };
        if name == ALLOW {
            self.allow.push(Allow::parse(&name, input)?);
            return check_end(&name, input);
        }
        value::once(&name, seen)?;
        if name == LIBRARY {
            self.library = Some(value::library(input)?);
        } else if let Some(option) = OPTIONS.iter().find(|option| name == option.name) {
            if value::is_alone(input) && !option.alone {
                return Err(syn::Error::new(
                    name.span(),
                    format!("`{name}` needs a value: `{}`", option.example),
                ));
            }
            self.options.push((option.name, (option.value)(input)?));
        } else {
            return Err(unknown(&name));
        }
        check_end(&name, input)
    }

    /// Expands to the fields of the library's `Options` that the attribute sets.
    pub(crate) fn fields(&self, paths: &Paths) -> Vec<TokenStream> {
        self.options
            .iter()
            .map(|(name, value)| {
                let name = Ident::new(name, Span::call_site());
                let value = paths.option(Some(value.expanded(paths)));
                quote!(#name: #value)
            })
            .chain(self.allowed(paths))
            .collect()
    }

    fn allowed(&self, paths: &Paths) -> Option<TokenStream> {
        let entries: Vec<_> = self.allow.iter().map(|it| it.expanded(paths)).collect();
        (!entries.is_empty()).then(|| quote!(allow: &[#(#entries),*]))
    }
}

/// Checks that nothing but a comma follows an argument.
fn check_end(name: &Ident, input: ParseStream<'_>) -> syn::Result<()> {
    if value::is_alone(input) {
        return Ok(());
    }
    Err(input.error(format!("expected a comma after `{name}`")))
}

fn unknown(name: &Ident) -> syn::Error {
    let written = name.unraw().to_string();
    let names = || {
        OPTIONS
            .iter()
            .map(|option| option.name)
            .chain([ALLOW, LIBRARY])
    };
    let nearest = gpu_leak_check_options::nearest(&written, names())
        .map_or_else(String::new, |known| format!(", did you mean `{known}`?"));
    let known = names().collect::<Vec<_>>().join("`, `");
    syn::Error::new(
        name.span(),
        format!("unknown option `{written}`{nearest} (the options are `{known}`)"),
    )
}

/// Skips an invalid argument, so that the ones after it are still parsed.
fn skip_to_comma(input: ParseStream<'_>) -> syn::Result<()> {
    while !input.is_empty() && !input.peek(Token![,]) {
        input.parse::<TokenTree>()?;
    }
    Ok(())
}
