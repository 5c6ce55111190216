//! The arguments of the attribute: one table of names, one check for repetition, an error at the
//! place of each mistake.

use gpu_leak_check_units as units;
use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{Expr, ExprLit, Lit, LitBool, LitStr, Path, Token, parenthesized};

use crate::allow::Allow;
use crate::inherit;
use crate::pairs;
use crate::paths::Paths;

/// What the attribute says.
#[derive(Default)]
pub(crate) struct Args {
    /// `crate = path`: where the library is.
    pub(crate) library: Option<Path>,
    /// The options, as written.
    pub(crate) options: Vec<(&'static str, Value)>,
    /// What may stay, each as the fields of `Allow`.
    pub(crate) allow: Vec<Allow>,
}

/// The value of one option.
pub(crate) enum Value {
    /// An expression: bytes, or a number of things.
    Number(TokenStream),
    /// Text in quotes.
    Text(LitStr),
    /// `true` or `false`.
    Flag(bool),
    /// A variant of `OnLeak`.
    OnLeak(&'static str),
    /// A time to wait.
    Milliseconds(u64),
    /// `expect(count = 2, bytes = "1 MiB")`: the fields of `Expect`.
    Expect(Vec<(&'static str, TokenStream)>),
    /// `unchecked_if(condition, "reason")`.
    UncheckedIf {
        /// Asked before the body.
        condition: Box<Expr>,
        /// Told in the run's summary.
        reason: LitStr,
    },
}

/// One option.
struct Known {
    /// Its name: that of the field of `Options`.
    name: &'static str,
    /// How it is written.
    usage: &'static str,
    /// Whether the name alone says something.
    alone: bool,
    /// Reads what stands behind the name.
    value: fn(ParseStream<'_>) -> syn::Result<Value>,
}

const KNOWN: [Known; 15] = [
    Known {
        name: "tolerance",
        usage: "tolerance = \"1 MiB\"",
        alone: false,
        value: bytes,
    },
    Known {
        name: "reserved_tolerance",
        usage: "reserved_tolerance = \"2 MiB\"",
        alone: false,
        value: bytes,
    },
    Known {
        name: "max_allocated",
        usage: "max_allocated = \"64 MiB\"",
        alone: false,
        value: bytes,
    },
    Known {
        name: "max_reserved",
        usage: "max_reserved = \"128 MiB\"",
        alone: false,
        value: bytes,
    },
    Known {
        name: "max_allocation_count",
        usage: "max_allocation_count = 100",
        alone: false,
        value: number,
    },
    Known {
        name: "layer",
        usage: "layer = \"allocator:NAME\"",
        alone: false,
        value: layer,
    },
    Known {
        name: "rounds",
        usage: "rounds = 5",
        alone: false,
        value: rounds,
    },
    Known {
        name: "expect",
        usage: "expect(count = 2, bytes = \"1 MiB\")",
        alone: false,
        value: expect,
    },
    Known {
        name: "confirm",
        usage: "confirm = false",
        alone: false,
        value: flag,
    },
    Known {
        name: "on_leak",
        usage: "on_leak = \"warn\"",
        alone: false,
        value: on_leak,
    },
    Known {
        name: "settle",
        usage: "settle = \"250ms\"",
        alone: false,
        value: settle,
    },
    Known {
        name: "unchecked_if",
        usage: "unchecked_if(condition, \"reason\")",
        alone: false,
        value: unchecked_if,
    },
    Known {
        name: "parallel",
        usage: "parallel",
        alone: true,
        value: switch,
    },
    Known {
        name: "isolate",
        usage: "isolate",
        alone: true,
        value: switch,
    },
    Known {
        name: "warmup",
        usage: "warmup = 1",
        alone: false,
        value: number,
    },
];

const LIBRARY: &str = "crate";
const ALLOW: &str = "allow";

impl Args {
    /// Reads all arguments; the error holds every mistake among them.
    pub(crate) fn parse(tokens: TokenStream) -> syn::Result<Self> {
        (|input: ParseStream<'_>| {
            let mut args = Self::default();
            let mut inherited = None;
            let mut seen = Vec::new();
            let mut mistakes: Option<syn::Error> = None;
            while !input.is_empty() {
                if inherit::stands_at(input) {
                    inherited = Some(Self::parse(inherit::read(input)?)?);
                } else if let Err(mistake) = args.read_one(input, &mut seen) {
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
            if let Some(mistakes) = mistakes.or_else(|| pairs::check(&args, &seen)) {
                return Err(mistakes);
            }
            if let Some(inherited) = inherited {
                args.fill_from(inherited);
            }
            Ok(args)
        })
        .parse2(tokens)
    }

    /// Takes over what is not said here.
    fn fill_from(&mut self, inherited: Self) {
        self.library = self.library.take().or(inherited.library);
        self.allow.extend(inherited.allow);
        for (name, value) in inherited.options {
            if !self.has(name) {
                self.options.push((name, value));
            }
        }
    }

    /// Whether this option is among them.
    pub(crate) fn has(&self, option: &str) -> bool {
        self.value(option).is_some()
    }

    /// What is said of this option.
    pub(crate) fn value(&self, option: &str) -> Option<&Value> {
        let mut options = self.options.iter();
        options.find_map(|(name, value)| (*name == option).then_some(value))
    }

    fn read_one(&mut self, input: ParseStream<'_>, seen: &mut Vec<Ident>) -> syn::Result<()> {
        let name = Ident::parse_any(input)?;
        if name == ALLOW {
            self.allow.push(Allow::parse(&name, input)?);
            return behind(&name, input);
        }
        if seen.contains(&name) {
            return Err(syn::Error::new(
                name.span(),
                format!("`{name}` stands twice: keep one"),
            ));
        }
        seen.push(name.clone());
        if name == LIBRARY {
            self.library = Some(library(input)?);
        } else if let Some(known) = KNOWN.iter().find(|known| name == known.name) {
            if is_alone(input) && !known.alone {
                return Err(syn::Error::new(
                    name.span(),
                    format!("`{name}` needs a value: `{}`", known.usage),
                ));
            }
            self.options.push((known.name, (known.value)(input)?));
        } else {
            return Err(unknown(&name));
        }
        behind(&name, input)
    }

    /// The fields of the library's `Options` that the attribute sets.
    pub(crate) fn facts(&self, paths: &Paths) -> Vec<TokenStream> {
        let some = paths.private("Some");
        self.options
            .iter()
            .map(|(name, value)| {
                let name = Ident::new(name, Span::call_site());
                let value = value.fact(paths);
                quote!(#name: #some(#value))
            })
            .chain(self.allowed(paths))
            .collect()
    }

    fn allowed(&self, paths: &Paths) -> Option<TokenStream> {
        let entries: Vec<_> = self.allow.iter().map(|allow| allow.fact(paths)).collect();
        (!entries.is_empty()).then(|| quote!(allow: &[#(#entries),*]))
    }
}

impl Value {
    fn fact(&self, paths: &Paths) -> TokenStream {
        match self {
            Self::Number(number) => number.clone(),
            Self::Text(text) => text.to_token_stream(),
            Self::Flag(flag) => flag.to_token_stream(),
            Self::OnLeak(variant) => {
                let on_leak = paths.private("OnLeak");
                let variant = Ident::new(variant, Span::call_site());
                quote!(#on_leak::#variant)
            }
            Self::Milliseconds(milliseconds) => {
                let duration = paths.private("Duration");
                quote!(#duration::from_millis(#milliseconds))
            }
            Self::Expect(fields) => {
                let expect = paths.private("Expect");
                let some = paths.private("Some");
                let none = paths.private("None");
                let fields = ["count", "bytes"].map(|name| {
                    let given = fields.iter().find(|(given, _)| *given == name);
                    let name = Ident::new(name, Span::call_site());
                    match given {
                        Some((_, value)) => quote!(#name: #some(#value)),
                        None => quote!(#name: #none),
                    }
                });
                quote!(#expect { #(#fields),* })
            }
            Self::UncheckedIf { condition, reason } => {
                let unchecked_if = paths.private("UncheckedIf");
                quote!(#unchecked_if { condition: || #condition, reason: #reason })
            }
        }
    }
}

pub(crate) fn bytes(input: ParseStream<'_>) -> syn::Result<Value> {
    let value = assigned(input)?;
    let Expr::Lit(ExprLit { lit, .. }) = &value else {
        return Ok(Value::Number(value.into_token_stream()));
    };
    let mistake = match lit {
        Lit::Str(text) => match units::bytes(&text.value()) {
            Ok(bytes) => return Ok(Value::Number(bytes.into_token_stream())),
            Err(mistake) => mistake,
        },
        Lit::Int(_) => return Ok(Value::Number(value.into_token_stream())),
        _ => "a size is a whole number of bytes, or in quotes with a unit: \"1.5 MiB\"".to_owned(),
    };
    Err(syn::Error::new(lit.span(), mistake))
}

fn flag(input: ParseStream<'_>) -> syn::Result<Value> {
    match assigned(input)? {
        Expr::Lit(ExprLit {
            lit: Lit::Bool(LitBool { value, .. }),
            ..
        }) => Ok(Value::Flag(value)),
        other => Err(syn::Error::new_spanned(other, "expected `true` or `false`")),
    }
}

/// As [`flag`], where the name alone means `true`.
fn switch(input: ParseStream<'_>) -> syn::Result<Value> {
    if is_alone(input) {
        return Ok(Value::Flag(true));
    }
    flag(input)
}

fn number(input: ParseStream<'_>) -> syn::Result<Value> {
    let value = assigned(input)?;
    match &value {
        Expr::Lit(ExprLit { lit, .. }) if !matches!(lit, Lit::Int(_)) => Err(syn::Error::new(
            lit.span(),
            "expected a whole number, such as 3",
        )),
        _ => Ok(Value::Number(value.into_token_stream())),
    }
}

fn rounds(input: ParseStream<'_>) -> syn::Result<Value> {
    let value = number(input)?;
    if let Value::Number(tokens) = &value
        && tokens.to_string() == "0"
    {
        let what = "0 rounds check nothing: 1 is an ordinary check";
        return Err(syn::Error::new_spanned(tokens, what));
    }
    Ok(value)
}

fn expect(input: ParseStream<'_>) -> syn::Result<Value> {
    let content;
    let parentheses = parenthesized!(content in input);
    let mut fields = Vec::new();
    while !content.is_empty() {
        let name: Ident = content.parse()?;
        let (name, value) = match name.to_string().as_str() {
            "count" => ("count", number(&content)?),
            "bytes" => ("bytes", bytes(&content)?),
            _ => {
                let what = "expected `count = 2` or `bytes = \"1 MiB\"`";
                return Err(syn::Error::new(name.span(), what));
            }
        };
        if let Value::Number(value) = value {
            fields.push((name, value));
        }
        if !content.is_empty() {
            content.parse::<Token![,]>()?;
        }
    }
    if fields.is_empty() {
        let what = "expected what is to leak: `expect(count = 2, bytes = \"1 MiB\")`";
        return Err(syn::Error::new(parentheses.span.join(), what));
    }
    Ok(Value::Expect(fields))
}

fn layer(input: ParseStream<'_>) -> syn::Result<Value> {
    let usage = "expected \"driver\" or the name of an allocator, such as \"allocator:cubecl\"";
    let text = quoted(input, usage)?;
    if text.value().trim().is_empty() {
        return Err(syn::Error::new(text.span(), usage));
    }
    Ok(Value::Text(text))
}

fn on_leak(input: ParseStream<'_>) -> syn::Result<Value> {
    let text = quoted(input, "expected \"fail\" or \"warn\"")?;
    match text.value().as_str() {
        "fail" => Ok(Value::OnLeak("Fail")),
        "warn" => Ok(Value::OnLeak("Warn")),
        _ => Err(syn::Error::new(
            text.span(),
            "expected \"fail\" or \"warn\"",
        )),
    }
}

fn settle(input: ParseStream<'_>) -> syn::Result<Value> {
    let text = quoted(
        input,
        "a duration needs quotes and a unit, such as \"250ms\"",
    )?;
    match units::milliseconds(&text.value()) {
        Ok(milliseconds) => Ok(Value::Milliseconds(milliseconds)),
        Err(mistake) => Err(syn::Error::new(text.span(), mistake)),
    }
}

fn unchecked_if(input: ParseStream<'_>) -> syn::Result<Value> {
    let content;
    let parentheses = parenthesized!(content in input);
    let condition = content.parse()?;
    let missing = || {
        syn::Error::new(
            parentheses.span.join(),
            "a reason is missing: `unchecked_if(condition, \"reason\")`",
        )
    };
    content.parse::<Option<Token![,]>>()?.ok_or_else(missing)?;
    if content.is_empty() {
        return Err(missing());
    }
    let reason: LitStr = content
        .parse()
        .map_err(|error| syn::Error::new(error.span(), "a reason is a string in quotes"))?;
    if reason.value().trim().is_empty() {
        return Err(syn::Error::new(
            reason.span(),
            "a reason must say something",
        ));
    }
    content.parse::<Option<Token![,]>>()?;
    if !content.is_empty() {
        return Err(content.error("nothing may stand behind the reason"));
    }
    Ok(Value::UncheckedIf { condition, reason })
}

fn library(input: ParseStream<'_>) -> syn::Result<Path> {
    let usage = "expected a path without quotes, such as `crate = my_crate::gpu_leak_check`";
    match assigned(input)? {
        Expr::Path(expression)
            if expression.qself.is_none()
                && expression
                    .path
                    .segments
                    .iter()
                    .all(|segment| segment.arguments.is_none()) =>
        {
            Ok(expression.path)
        }
        other => Err(syn::Error::new_spanned(other, usage)),
    }
}

/// An argument ends where it should.
fn behind(name: &Ident, input: ParseStream<'_>) -> syn::Result<()> {
    if is_alone(input) {
        return Ok(());
    }
    Err(input.error(format!("expected a comma behind `{name}`")))
}

/// Whether nothing stands behind the name.
fn is_alone(input: ParseStream<'_>) -> bool {
    input.is_empty() || input.peek(Token![,])
}

fn assigned(input: ParseStream<'_>) -> syn::Result<Expr> {
    input.parse::<Token![=]>()?;
    input.parse()
}

fn quoted(input: ParseStream<'_>, mistake: &str) -> syn::Result<LitStr> {
    match assigned(input)? {
        Expr::Lit(ExprLit {
            lit: Lit::Str(text),
            ..
        }) => Ok(text),
        other => Err(syn::Error::new_spanned(other, mistake)),
    }
}

fn unknown(name: &Ident) -> syn::Error {
    let written = name.unraw().to_string();
    let names = || KNOWN.iter().map(|known| known.name).chain([ALLOW, LIBRARY]);
    let nearest = names()
        .map(|known| (distance(&written, known), known))
        .min()
        .filter(|(distance, known)| *distance <= known.len() / 3)
        .map_or_else(String::new, |(_, known)| {
            format!(", did you mean `{known}`?")
        });
    let known = names().collect::<Vec<_>>().join("`, `");
    syn::Error::new(
        name.span(),
        format!("unknown option `{written}`{nearest} (known are `{known}`)"),
    )
}

/// The number of letters to insert, remove or replace that turn one word into the other.
fn distance(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in to.bytes().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

/// Leaves one wrong argument behind, so that the ones after it are still read.
fn skip_to_comma(input: ParseStream<'_>) -> syn::Result<()> {
    while !input.is_empty() && !input.peek(Token![,]) {
        input.parse::<TokenTree>()?;
    }
    Ok(())
}
