use super::items;

/// Returns the expansion as formatted source text.
fn pretty(args: &str, item: &str) -> String {
    super::pretty(items(args, item))
}

#[test]
fn a_plain_test_becomes_a_wrapper_and_one_item_with_body_and_facts() {
    insta::assert_snapshot!(pretty("", "#[test] fn frees_everything() { train(); }"));
}

#[test]
fn without_a_test_attribute_one_is_added() {
    insta::assert_snapshot!(pretty("", "fn frees_everything() {}"));
}

#[test]
fn every_option_is_one_field() {
    insta::assert_snapshot!(pretty(
        r#"
        tolerance = 0,
        reserved_tolerance = "1.5 MiB",
        max_allocated = "64 MiB",
        max_reserved = 2 * SEGMENT,
        max_allocation_count = 100,
        layer = "allocator:cubecl",
        rounds = 1,
        allow("fn:optim::*", reason = "a table", kind = exec_graph, up_to = "1 KiB"),
        allow("lib:libcublas*", reason = "its workspace"),
        expect(count = 2, bytes = "1 MiB"),
        confirm = false,
        on_leak = "warn",
        settle = "2s",
        unchecked_if(std::env::var_os("CI").is_none(), "needs the CI machine"),
        parallel,
        isolate = false,
        warmup = 2,
        "#,
        "#[test] fn frees_everything() {}",
    ));
}

#[test]
fn another_path_to_the_library_is_used_throughout() {
    insta::assert_snapshot!(pretty(
        "crate = my::reexports, tolerance = 1",
        "#[test] fn frees_everything() {}",
    ));
}

#[test]
fn name_attributes_stay_on_the_wrapper_and_the_others_go_with_the_body() {
    insta::assert_snapshot!(pretty(
        "",
        r#"
        /// Trains.
        #[test]
        #[ignore = "slow"]
        #[expect(unused_variables, reason = "shows")]
        #[allow(non_snake_case)]
        #[track_caller]
        pub(crate) fn r#match() -> Result<(), Box<dyn Error>> { Ok(()) }
        "#,
    ));
}

#[test]
fn should_panic_becomes_a_fact() {
    for form in [
        r#"#[should_panic(expected = "no GPU")]"#,
        r#"#[should_panic = "no GPU"]"#,
    ] {
        let expansion = pretty("", &format!("#[test] {form} fn refuses() {{}}"));
        assert!(!expansion.contains("#[should_panic"), "{expansion}");
        insta::allow_duplicates! {
            insta::assert_snapshot!("should_panic_with_a_message", expansion);
        }
    }
    insta::assert_snapshot!(
        "should_panic_alone",
        pretty("", "#[test] #[should_panic] fn refuses() {}")
    );
}

#[test]
fn a_program_s_main_is_one_check_and_no_test() {
    insta::assert_snapshot!(pretty(
        "tolerance = 1",
        "fn main() -> Result<(), Box<dyn Error>> { train() }",
    ));
}
