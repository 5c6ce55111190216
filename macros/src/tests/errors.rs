//! Tests that a rejected item causes one error for each mistake. The function is kept, so that
//! other code that names it causes no further errors. The messages are in `tests/ui`.

use syn::Item;

use super::items;

/// Returns the number of errors and the functions in the expansion.
fn refused(args: &str, item: &str) -> (usize, Vec<String>) {
    let mut errors = 0;
    let mut functions = Vec::new();
    for item in items(args, item) {
        match item {
            Item::Macro(item)
                if item
                    .mac
                    .path
                    .segments
                    .iter()
                    .any(|segment| segment.ident == "compile_error") =>
            {
                errors += 1;
            }
            Item::Fn(function) => {
                assert!(function.attrs.is_empty(), "attributes of a test stay");
                functions.push(function.sig.ident.to_string());
            }
            _ => panic!("something else"),
        }
    }
    (errors, functions)
}

#[test]
fn all_mistakes_in_the_arguments_are_reported_at_once() {
    let args = "tolerence = 1, confirm = 1, settle, tolerance = 2, tolerance = 3";
    let item = "#[test] #[ignore] #[should_panic] fn f() {}";
    assert_eq!(refused(args, item), (4, vec!["f".to_owned()]));
}

#[test]
fn a_function_that_cannot_be_a_test_is_kept() {
    for item in [
        "fn f(x: u8) {}",
        "async fn f() {}",
        "fn f<T>() {}",
        "const fn f() {}",
        "unsafe fn f() {}",
        "extern \"C\" fn f() {}",
        "fn f(&self) {}",
        "#[should_panic] fn f() -> u8 { 1 }",
    ] {
        assert_eq!(refused("", item), (1, vec!["f".to_owned()]), "{item}");
    }
}

#[test]
fn a_repeated_attribute_is_one_error_and_does_not_expand_again() {
    let item = "#[gpu_leak_check(tolerance = 1)] #[test] fn f() {}";
    assert_eq!(refused("", item), (1, vec!["f".to_owned()]));
}

#[test]
fn a_mistake_in_a_module_s_attribute_is_reported_once() {
    let expansion = super::pretty(items(
        "tolerence = 1",
        "mod m { #[test] fn f() {} #[test] fn g() {} }",
    ));
    assert_eq!(expansion.matches("compile_error").count(), 1, "{expansion}");
    assert!(expansion.contains("#[test]\n    fn g()"), "{expansion}");
}

#[test]
fn a_program_refuses_options_that_only_tests_have() {
    for (args, item) in [
        ("isolate", "fn main() {}"),
        ("parallel", "fn main() {}"),
        ("", "#[should_panic] fn main() {}"),
    ] {
        assert_eq!(
            refused(args, item),
            (1, vec!["main".to_owned()]),
            "{args} {item}"
        );
    }
}
