//! Tests of rounds of expansion: the order of attributes, and that the rounds end.

use proc_macro2::TokenStream;
use syn::{Attribute, Item, ItemFn};

use super::{items, pretty};
use crate::{attributes, expand};

/// Returns the function after one round of expansion, if this round emitted the attribute again.
fn again(args: &str, item: &str) -> Option<ItemFn> {
    match &items(args, item)[..] {
        [Item::Fn(function)] => Some(function.clone()),
        _ => None,
    }
}

fn names(attributes: &[Attribute]) -> Vec<String> {
    attributes.iter().map(attributes::name).collect()
}

/// Removes the attribute and expands it, as rustc does once the attributes before it have been
/// expanded.
fn next_round(mut function: ItemFn) -> Vec<Item> {
    let position = function
        .attrs
        .iter()
        .position(attributes::is_self)
        .expect("the attribute");
    let attribute = function.attrs.remove(position);
    let args = match attribute.meta {
        syn::Meta::List(list) => list.tokens,
        _ => TokenStream::new(),
    };
    let tokens = expand::attribute(args, quote::quote!(#function));
    let file: syn::File = syn::parse2(tokens).expect("items");
    file.items
}

#[test]
fn other_macros_come_first() {
    let function =
        again("tolerance = 1", "#[tokio::test] #[serial] async fn f() {}").expect("another round");
    assert_eq!(
        names(&function.attrs),
        ["tokio::test", "serial", "gpu_leak_check::gpu_leak_check"]
    );
}

#[test]
fn conditional_attributes_come_first() {
    let function = again(
        "",
        "#[cfg_attr(slow, ignore)] #[cfg(unix)] #[test] fn f() {}",
    )
    .expect("another round");
    assert_eq!(
        names(&function.attrs),
        ["cfg_attr", "cfg", "gpu_leak_check::gpu_leak_check", "test"]
    );
}

#[test]
fn attributes_of_the_compiler_need_no_round() {
    assert!(
        again(
            "",
            "/// Docs.\n#[allow(x)] #[rustfmt::skip] #[inline] #[test] fn f() {}"
        )
        .is_none()
    );
}

#[test]
fn a_plain_test_attribute_stays_behind() {
    let function = again("", "#[serial] #[test] fn f() {}").expect("another round");
    assert_eq!(
        names(&function.attrs),
        ["serial", "gpu_leak_check::gpu_leak_check", "test"]
    );
}

#[test]
fn a_plain_test_attribute_on_an_async_function_is_some_other_macro() {
    let function = again("", "#[test] async fn f() {}").expect("another round");
    assert_eq!(
        names(&function.attrs),
        ["test", "gpu_leak_check::gpu_leak_check"]
    );
}

#[test]
fn an_inert_attribute_that_is_not_known_ends_in_the_second_round() {
    let first = again("", "#[unheard_of] fn f() {}").expect("another round");
    let last = next_round(first);
    insta::assert_snapshot!(pretty(last));
}

#[test]
fn as_many_rounds_as_there_are_new_macros_carry_everything_along() {
    let mut function = again(
        "tolerance = 1,",
        "#[rstest] #[should_panic] async fn f() {}",
    )
    .expect("another round");
    for name in ["tokio::test", "serial", "serial_test::serial"] {
        function.attrs.remove(0);
        let path: syn::Path = syn::parse_str(name).expect("a path");
        function.attrs.push(syn::parse_quote!(#[#path]));
        let items = next_round(function);
        let [Item::Fn(again)] = &items[..] else {
            panic!("another round");
        };
        assert_eq!(
            names(&again.attrs),
            [name, "gpu_leak_check::gpu_leak_check"]
        );
        function = again.clone();
    }
    function.attrs.remove(0);
    function.sig.asyncness = None;
    insta::assert_snapshot!(pretty(next_round(function)));
}

#[test]
fn a_should_panic_that_libtest_has_read_is_marked_as_such() {
    let mut function = again("", "#[test_case(0)] fn f(x: u8) {}").expect("another round");
    function.attrs[0] = syn::parse_quote!(#[should_panic(expected = "zero")]);
    function.sig.inputs.clear();
    let last = pretty(next_round(function.clone()));
    assert!(last.starts_with("#[cfg(test)]\nfn f()"), "{last}");
    assert!(last.contains("by_libtest: true"), "{last}");
    // The mark survives a round for another macro.
    function.attrs.push(syn::parse_quote!(#[serial]));
    let [Item::Fn(again)] = &mut next_round(function)[..] else {
        panic!("another round");
    };
    again.attrs.remove(0);
    assert_eq!(pretty(next_round(again.clone())), last);
}

#[test]
fn a_module_hands_its_arguments_to_every_test_and_to_nothing_else() {
    let module = "
        mod tests {
            use super::*;
            const SIZE: usize = 1;
            fn helper() {}
            #[inline] fn other_helper() {}
            #[test] fn plain() {}
            #[tokio::test] async fn of_a_runtime() {}
            #[gpu_leak_check(tolerance = 2)] fn with_its_own() {}
            #[cfg_attr(all(unix, not(miri)), ignore, test)] fn conditional() {}
            #[cfg_attr(unix, ignore)] fn no_test() {}
            mod inner { #[test] fn plain() {} }
            #[gpu_leak_check(confirm = false)] mod with_its_own {}
        }";
    insta::assert_snapshot!(pretty(items("tolerance = 1", module)));
}

#[test]
fn options_of_a_function_override_those_of_its_module() {
    let own = "#[test] #[mine::gpu_leak_check(tolerance = 2)] fn f() {}";
    let inherited = "__requeued(inherited(__requeued(inherited(settle = \"1s\")), tolerance = 1, confirm = false)),";
    let handed_over = again(inherited, own).expect("another round");
    assert_eq!(names(&handed_over.attrs), ["test", "mine::gpu_leak_check"]);
    let expansion = pretty(next_round(handed_over));
    assert!(
        expansion.contains("tolerance: ::gpu_leak_check::__private::Some(2)"),
        "{expansion}"
    );
    assert!(
        expansion.contains("confirm: ::gpu_leak_check::__private::Some(false)"),
        "{expansion}"
    );
    assert!(expansion.contains("from_millis(1000"), "{expansion}");
    // The result is the same if the function's own attribute is expanded first.
    let turned = format!("#[gpu_leak_check({inherited})] #[test] fn f() {{}}");
    assert_eq!(pretty(items("tolerance = 2", &turned)), expansion);
}

#[test]
fn an_inherited_option_that_contradicts_a_test_s_own_is_dropped() {
    for (inherited, own) in [
        ("rounds = 5", "expect(count = 1)"),
        ("rounds = ROUNDS", "expect(count = 1)"),
        ("parallel", "isolate"),
    ] {
        let item = format!(
            "#[gpu_leak_check(__requeued(inherited({inherited}, settle = \"1s\")),)] #[test] fn f() {{}}"
        );
        let alone = "#[gpu_leak_check(__requeued(inherited(settle = \"1s\")),)] #[test] fn f() {}";
        assert_eq!(
            pretty(items(own, &item)),
            pretty(items(own, alone)),
            "{inherited}"
        );
    }
}

#[test]
fn a_function_that_turns_out_to_be_no_test_is_left_alone() {
    let first = again(
        "__requeued(inherited(tolerance = 1)),",
        "#[cfg_attr(miri, test)] fn f() {}",
    );
    let mut function = first.expect("another round");
    function.attrs.remove(0);
    assert_eq!(pretty(next_round(function)), "fn f() {}\n");
}
