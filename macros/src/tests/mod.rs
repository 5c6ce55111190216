//! Expansions as snapshots, rounds of expansion, and each form that is refused.

mod errors;
mod expansions;
mod refusals;
mod rounds;

use proc_macro2::TokenStream;
use syn::Item;

use crate::expand;

/// What the attribute with `args` makes of `item`, both as source text.
fn items(args: &str, item: &str) -> Vec<Item> {
    let parse = |text: &str| text.parse::<TokenStream>().expect("tokens");
    let file: syn::File = syn::parse2(expand::attribute(parse(args), parse(item))).expect("items");
    file.items
}

/// Items as people read them.
fn pretty(items: Vec<Item>) -> String {
    prettyplease::unparse(&syn::File {
        shebang: None,
        frontmatter: None,
        attrs: Vec::new(),
        items,
    })
}
