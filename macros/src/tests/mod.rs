//! Tests of expansions, which are compared with snapshots, of rounds of expansion, and of each form
//! that is rejected.

mod errors;
mod expansions;
mod refusals;
mod rounds;

use proc_macro2::TokenStream;
use syn::Item;

use crate::expand;

/// Expands the attribute with `args` on `item`. Both are given as source text.
fn items(args: &str, item: &str) -> Vec<Item> {
    let parse = |text: &str| text.parse::<TokenStream>().expect("tokens");
    let file: syn::File = syn::parse2(expand::attribute(parse(args), parse(item))).expect("items");
    file.items
}

fn pretty(items: Vec<Item>) -> String {
    prettyplease::unparse(&syn::File {
        shebang: None,
        frontmatter: None,
        attrs: Vec::new(),
        items,
    })
}
