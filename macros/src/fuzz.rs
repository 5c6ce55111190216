//! The fuzz target of the attribute: it must expand any input to tokens.

use std::str::FromStr;

use proc_macro2::TokenStream;

use crate::{expand, warmup};

/// Expands the attribute. The input consists of a line with arguments, followed by an item.
pub(crate) fn attribute(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let (args, item) = text.split_once('\n').unwrap_or_default();
    let (Ok(args), Ok(item)) = (TokenStream::from_str(args), TokenStream::from_str(item)) else {
        return;
    };
    let is_item = syn::parse2::<syn::Item>(item.clone()).is_ok();
    for expansion in [
        expand::attribute(args.clone(), item.clone()),
        warmup::attribute(args, item),
    ] {
        // An item expands to items.
        let items = syn::parse2::<syn::File>(expansion.clone());
        assert!(!is_item || items.is_ok(), "{expansion}");
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn no_argument_and_no_item_causes_a_panic() {
        gpu_leak_mutations::each("attribute", 2_000, super::attribute);
    }
}
