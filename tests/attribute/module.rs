//! The attribute on a module: it checks each test in the module, and nothing else.

use std::time::Duration;

use gpu_leak_check::case::Case;
use gpu_leak_check::{gpu_leak_check, registry};

#[gpu_leak_check(tolerance = 7, settle = "1s")]
mod checked {
    use gpu_leak_check::gpu_leak_check;
    use rstest::rstest;
    use test_case::test_case;

    #[test]
    fn plain() {
        assert!(helper());
    }

    fn helper() -> bool {
        true
    }

    #[test]
    #[ignore = "another test checks that this is registered"]
    fn ignored() {}

    #[test]
    #[should_panic(expected = "on purpose")]
    fn panics() {
        panic!("on purpose");
    }

    #[tokio::test]
    async fn of_a_runtime() -> Result<(), String> {
        tokio::task::yield_now().await;
        Ok(())
    }

    #[rstest]
    #[case(1)]
    #[case(2)]
    fn rstest_cases(#[case] number: u32) {
        assert!(number > 0);
    }

    #[test_case(1)]
    #[test_case(2)]
    fn test_cases(number: u32) {
        assert!(number > 0);
    }

    #[gpu_leak_check(tolerance = 9, confirm = false)]
    #[test]
    fn with_its_own() {}

    #[cfg_attr(unix, test)]
    #[cfg_attr(not(unix), expect(dead_code, reason = "a test only on Unix"))]
    fn under_a_condition() {}

    #[cfg_attr(unix, gpu_leak_check(tolerance = 11))]
    #[test]
    fn with_its_own_under_a_condition() {}

    mod inner {
        #[test]
        fn deeper() {}

        #[gpu_leak_check::gpu_leak_check(settle = "2s")]
        mod with_its_own {
            #[test]
            fn deepest() {}
        }
    }
}

fn case(name: &str) -> &'static Case {
    super::case(&format!("attribute::module::checked::{name}"))
}

#[test]
fn every_test_of_the_module_is_registered_and_nothing_else() {
    let prefix = "attribute::module::checked::";
    let mut names: Vec<_> = registry::cases()
        .iter()
        .filter_map(|case| case.name().strip_prefix(prefix))
        .collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "ignored",
            "inner::deeper",
            "inner::with_its_own::deepest",
            "of_a_runtime",
            "panics",
            "plain",
            "rstest_cases::case_1",
            "rstest_cases::case_2",
            "test_cases::test_case_1_1_expects",
            "test_cases::test_case_2_2_expects",
            "under_a_condition",
            "with_its_own",
            "with_its_own_under_a_condition",
        ]
    );
}

#[test]
fn the_module_s_options_hold_for_each_test() {
    for name in [
        "plain",
        "of_a_runtime",
        "rstest_cases::case_2",
        "inner::deeper",
    ] {
        let options = case(name).options;
        assert_eq!(options.tolerance, Some(7), "{name}");
        assert_eq!(options.settle, Some(Duration::from_secs(1)), "{name}");
        assert_eq!(options.confirm, None, "{name}");
    }
    assert!(case("ignored").ignored);
    assert!(case("panics").should_panic.is_some());
}

#[test]
fn a_test_s_own_options_override_the_module_s_one_by_one() {
    let own = case("with_its_own").options;
    assert_eq!((own.tolerance, own.confirm), (Some(9), Some(false)));
    assert_eq!(own.settle, Some(Duration::from_secs(1)));
    let conditional = case("with_its_own_under_a_condition").options;
    assert_eq!(conditional.tolerance, Some(if cfg!(unix) { 11 } else { 7 }));
    assert_eq!(conditional.settle, Some(Duration::from_secs(1)));
    let deepest = case("inner::with_its_own::deepest").options;
    assert_eq!(deepest.tolerance, Some(7));
    assert_eq!(deepest.settle, Some(Duration::from_secs(2)));
}

/// The attribute processes a module before the macro calls in it are expanded.
#[gpu_leak_check]
mod with_macro_calls {
    macro_rules! tests {
        ($(#[$attribute:meta] $name:ident)+) => {
            $(
                #[$attribute]
                #[test]
                fn $name() {}
            )+
        };
    }

    tests!(#[doc = "Not checked."] alone #[gpu_leak_check::gpu_leak_check] with_the_attribute);
}

#[test]
fn tests_that_a_macro_call_makes_are_checked_only_where_they_have_the_attribute() {
    let prefix = "attribute::module::with_macro_calls::";
    let cases = registry::cases();
    let names: Vec<_> = cases
        .iter()
        .filter_map(|case| case.name().strip_prefix(prefix))
        .collect();
    assert_eq!(names, ["with_the_attribute"]);
}
