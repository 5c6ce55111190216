//! Parses the values of the attribute's options, with an error at each mistake.

use gpu_leak_check_options::units;
use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote};
use syn::parse::{Parse, ParseStream};
use syn::{Expr, ExprLit, Lit, LitBool, LitInt, LitStr, Path, Token, parenthesized};

use crate::paths::Paths;

pub(crate) const NOT_QUOTED: &str = "the reason must be a string in quotes";

/// The value of an option.
pub(crate) enum Value {
    /// An expression: a number of bytes, or a count.
    Number(TokenStream),
    /// Text in quotes.
    Text(LitStr),
    /// `true` or `false`.
    Flag(bool),
    /// A name that the library provides for expansions, and the tokens that follow the name.
    Private(&'static str, TokenStream),
    /// `expect(count = 2, bytes = "1 MiB")`: the fields of `Expect`.
    Expect(Vec<(&'static str, TokenStream)>),
}

impl Value {
    /// Expands to the value of a field of the library's `Options`.
    pub(crate) fn expanded(&self, paths: &Paths) -> TokenStream {
        match self {
            Self::Number(number) => number.clone(),
            Self::Text(text) => text.to_token_stream(),
            Self::Flag(flag) => flag.to_token_stream(),
            Self::Private(name, rest) => {
                let name = paths.private(name);
                quote!(#name #rest)
            }
            Self::Expect(fields) => {
                let expect = paths.private("Expect");
                let fields = ["count", "bytes"].map(|name| {
                    let given = fields.iter().find(|(given, _)| *given == name);
                    let value = paths.option(given.map(|(_, value)| value));
                    let name = Ident::new(name, Span::call_site());
                    quote!(#name: #value)
                });
                quote!(#expect { #(#fields),* })
            }
        }
    }
}

/// Adds `name` to `seen`. Returns an error at `name` if it is already there.
pub(crate) fn once(name: &Ident, seen: &mut Vec<Ident>) -> syn::Result<()> {
    if seen.contains(name) {
        let what = format!("`{name}` is set twice: remove one");
        return Err(syn::Error::new(name.span(), what));
    }
    seen.push(name.clone());
    Ok(())
}

/// Parses a size: an expression, or text in quotes.
pub(crate) fn size(input: ParseStream<'_>) -> syn::Result<Value> {
    let value = assigned(input)?;
    let Expr::Lit(ExprLit { lit, .. }) = &value else {
        return Ok(Value::Number(value.into_token_stream()));
    };
    let mistake = match lit {
        Lit::Str(text) => match units::bytes(&text.value()) {
            Ok(bytes) => return Ok(Value::Number(bytes.into_token_stream())),
            Err(mistake) => mistake,
        },
        Lit::Int(number) => match unit_after(number, input) {
            None => return Ok(Value::Number(value.into_token_stream())),
            Some(unit) => {
                let size = format!("{} {unit}", number.base10_digits());
                let quoted = |_| format!("a size with a unit must be quoted: \"{size}\"");
                units::bytes(&size).map_or_else(|mistake| mistake, quoted)
            }
        },
        _ => "a size is a whole number of bytes, or a string with a unit: \"1.5 MiB\"".to_owned(),
    };
    Err(syn::Error::new(lit.span(), mistake))
}

/// Returns the unit of a size that is written without quotes: `1 MiB`, `1MiB`.
fn unit_after(number: &LitInt, input: ParseStream<'_>) -> Option<String> {
    let next: Option<Ident> = input.fork().parse().ok();
    let written = [
        Some(number.suffix().to_owned()),
        next.map(|it| it.to_string()),
    ];
    let mut written = written.into_iter().flatten();
    written.find(|word| units::is_unit_of_size(word))
}

/// Parses `= true` or `= false`.
pub(crate) fn flag(input: ParseStream<'_>) -> syn::Result<Value> {
    input.parse::<Token![=]>()?;
    let flag: LitBool = literal(input, "expected `true` or `false`")?;
    Ok(Value::Flag(flag.value))
}

/// Parses a flag as [`flag`] does. The name alone means `true`.
pub(crate) fn switch(input: ParseStream<'_>) -> syn::Result<Value> {
    if is_alone(input) {
        return Ok(Value::Flag(true));
    }
    flag(input)
}

/// Parses a whole number, or an expression for one.
pub(crate) fn number(input: ParseStream<'_>) -> syn::Result<Value> {
    let value = assigned(input)?;
    match &value {
        Expr::Lit(ExprLit { lit, .. }) if !matches!(lit, Lit::Int(_)) => Err(syn::Error::new(
            lit.span(),
            "expected a whole number, such as 3",
        )),
        _ => Ok(Value::Number(value.into_token_stream())),
    }
}

/// Parses the number of times that the body runs.
pub(crate) fn runs(input: ParseStream<'_>) -> syn::Result<Value> {
    number(input)
}

/// Parses a number of rounds. The value of an expression is checked when the test runs.
pub(crate) fn rounds(input: ParseStream<'_>) -> syn::Result<Value> {
    let value = number(input)?;
    if let Value::Number(tokens) = &value
        && let Some(number) = written_out(tokens).and_then(|number| u32::try_from(number).ok())
        && let Err(mistake) = gpu_leak_check_options::rounds(number)
    {
        return Err(syn::Error::new_spanned(tokens, mistake));
    }
    Ok(value)
}

/// Returns the value of a number that is written out, such as `5` or `5u32`.
pub(crate) fn written_out(tokens: &TokenStream) -> Option<u64> {
    let number: LitInt = syn::parse2(tokens.clone()).ok()?;
    number.base10_parse().ok()
}

/// Parses an expected leak, in parentheses.
pub(crate) fn expect(input: ParseStream<'_>) -> syn::Result<Value> {
    let content;
    let parentheses = parenthesized!(content in input);
    let (mut fields, mut seen) = (Vec::new(), Vec::new());
    while !content.is_empty() {
        let name: Ident = content.parse()?;
        once(&name, &mut seen)?;
        let (name, value) = match name.to_string().as_str() {
            "count" => ("count", number(&content)?),
            "bytes" => ("bytes", size(&content)?),
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
        let what = "expected the leak that must occur: `expect(count = 2, bytes = \"1 MiB\")`";
        return Err(syn::Error::new(parentheses.span.join(), what));
    }
    Ok(Value::Expect(fields))
}

/// Parses the name of a layer, in quotes.
pub(crate) fn layer(input: ParseStream<'_>) -> syn::Result<Value> {
    let text = quoted(
        input,
        "a layer must be quoted, for example \"allocator:cubecl\"",
    )?;
    match gpu_leak_check_options::layer(&text.value()) {
        Ok(_) => Ok(Value::Text(text)),
        Err(mistake) => Err(syn::Error::new(text.span(), mistake)),
    }
}

/// Parses the value of `on_leak`, in quotes.
pub(crate) fn on_leak(input: ParseStream<'_>) -> syn::Result<Value> {
    let expected = "expected \"fail\" or \"warn\"";
    let text = quoted(input, expected)?;
    let variant = match text.value().as_str() {
        "fail" => quote!(::Fail),
        "warn" => quote!(::Warn),
        _ => return Err(syn::Error::new(text.span(), expected)),
    };
    Ok(Value::Private("OnLeak", variant))
}

/// Parses a duration, in quotes.
pub(crate) fn duration(input: ParseStream<'_>) -> syn::Result<Value> {
    let text = quoted(
        input,
        "a duration must be quoted and have a unit, for example \"250ms\"",
    )?;
    match units::milliseconds(&text.value()) {
        Ok(milliseconds) => {
            let rest = quote!(::from_millis(#milliseconds));
            Ok(Value::Private("Duration", rest))
        }
        Err(mistake) => Err(syn::Error::new(text.span(), mistake)),
    }
}

/// Parses a condition and its reason, in parentheses.
pub(crate) fn unchecked_if(input: ParseStream<'_>) -> syn::Result<Value> {
    let content;
    let parentheses = parenthesized!(content in input);
    let condition: Expr = content.parse()?;
    let missing = || {
        syn::Error::new(
            parentheses.span.join(),
            "missing reason: `unchecked_if(condition, \"reason\")`",
        )
    };
    content.parse::<Option<Token![,]>>()?.ok_or_else(missing)?;
    if content.is_empty() {
        return Err(missing());
    }
    let reason: LitStr = literal(&content, NOT_QUOTED)?;
    if !gpu_leak_check_options::is_reason(&reason.value()) {
        return Err(syn::Error::new(
            reason.span(),
            "the reason must not be empty",
        ));
    }
    content.parse::<Option<Token![,]>>()?;
    if !content.is_empty() {
        return Err(content.error("nothing may follow the reason"));
    }
    let fields = quote!({ condition: || #condition, reason: #reason });
    Ok(Value::Private("UncheckedIf", fields))
}

/// Parses the path of the library.
pub(crate) fn library(input: ParseStream<'_>) -> syn::Result<Path> {
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

/// Whether the argument ends here.
pub(crate) fn is_alone(input: ParseStream<'_>) -> bool {
    input.is_empty() || input.peek(Token![,])
}

/// Parses `=` and an expression.
fn assigned(input: ParseStream<'_>) -> syn::Result<Expr> {
    input.parse::<Token![=]>()?;
    let mut value = input.parse()?;
    // An argument of a macro, such as `$limit:literal`, is in an invisible group.
    while let Expr::Group(group) = value {
        value = *group.expr;
    }
    Ok(value)
}

/// Parses `=` and text in quotes. Returns the error `mistake` if the value is anything else.
fn quoted(input: ParseStream<'_>, mistake: &str) -> syn::Result<LitStr> {
    input.parse::<Token![=]>()?;
    literal(input, mistake)
}

/// Parses a literal of this type. Returns the error `mistake` if there is none.
pub(crate) fn literal<T: Parse>(input: ParseStream<'_>, mistake: &str) -> syn::Result<T> {
    let literal = input.parse();
    literal.map_err(|error: syn::Error| syn::Error::new(error.span(), mistake))
}
