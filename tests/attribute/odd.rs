//! Unusual but legal tests: with shadowed names, raw identifiers, nesting and lints.
#![expect(
    dead_code,
    unused_macros,
    reason = "the items below exist only to shadow others"
)]

/// Items that have the names an expansion could use, but other meanings.
mod shadowed {
    use ::gpu_leak_check::gpu_leak_check as check;

    mod std {}
    mod core {}
    mod gpu_leak_check {}
    enum Option {
        Some,
        None,
    }
    struct Some;
    struct None;
    struct ExitCode;
    struct Case;
    struct Options;
    trait Termination {}
    macro_rules! concat {
        ($($any:tt)*) => {
            compile_error!("not this one")
        };
    }
    macro_rules! module_path {
        ($($any:tt)*) => {
            compile_error!("not this one")
        };
    }
    macro_rules! line {
        ($($any:tt)*) => {
            compile_error!("not this one")
        };
    }

    #[check(
        tolerance = 1,
        settle = "1s",
        on_leak = "fail",
        unchecked_if(false, "never")
    )]
    #[test]
    #[should_panic(expected = "as it should")]
    fn every_name() {
        let _ = (Some, None, Option::Some, Option::None);
        panic!("as it should");
    }

    #[check]
    fn an_added_test_attribute() {}
}

mod r#mod {
    use gpu_leak_check::gpu_leak_check;

    #[gpu_leak_check]
    #[test]
    fn r#match() {}

    #[gpu_leak_check]
    #[test]
    fn r#plain() {}

    #[gpu_leak_check]
    #[test]
    fn r#gen() {}
}

#[test]
fn a_raw_name_is_registered_as_libtest_prints_it() {
    for name in ["match", "plain", "gen"] {
        let case = gpu_leak_check::registry::cases()
            .into_iter()
            .find(|case| case.name().ends_with(name) && case.name().contains("odd::"))
            .expect("a case");
        super::passes(case.name());
    }
}

mod outer {
    mod inner {
        use gpu_leak_check::gpu_leak_check;

        fn private() -> u32 {
            super::also_private() + 1
        }

        #[gpu_leak_check]
        #[test]
        fn a_body_sees_its_module_and_those_around() {
            assert_eq!(private() + super::also_private(), 3);
        }
    }

    fn also_private() -> u32 {
        1
    }
}

mod reexport {
    pub(in crate::attribute) use gpu_leak_check as renamed;
}

#[reexport::renamed::gpu_leak_check(crate = reexport::renamed)]
#[test]
fn by_another_path() {
    super::case("attribute::odd::by_another_path");
}

mod lints {
    #![deny(warnings, clippy::pedantic, clippy::allow_attributes)]

    use gpu_leak_check::gpu_leak_check;

    #[gpu_leak_check]
    #[test]
    #[expect(unused_variables, reason = "must be fulfilled after expansion too")]
    #[expect(non_snake_case, reason = "must be fulfilled after expansion too")]
    fn Expectations() {
        let unused = 1;
    }

    /// A documented, visible test.
    #[gpu_leak_check]
    #[test]
    #[inline(never)]
    #[must_use]
    pub(crate) fn documented() -> Result<(), std::num::ParseIntError> {
        "1".parse::<u8>().map(drop)
    }

    #[gpu_leak_check]
    #[ignore = "fails on purpose"]
    #[test]
    fn never_returns() -> ! {
        unreachable!("but it ends")
    }

    #[gpu_leak_check]
    #[test]
    #[track_caller]
    #[cold]
    #[rustfmt::skip]
    #[clippy::cognitive_complexity = "100"]
    fn inert_attributes( ) { }
}

#[test]
fn a_test_that_never_returns_can_only_fail() {
    let child = gpu_leak_tests::child::run("attribute::odd::lints::never_returns");
    assert!(!child.status.success(), "{child:#?}");
    assert!(child.stderr.contains("but it ends"), "{child:#?}");
}

macro_rules! checked {
    ($name:ident, $body:block) => {
        #[gpu_leak_check::gpu_leak_check(crate = $crate::attribute::odd::reexport::renamed)]
        #[test]
        fn $name() $body
    };
}

checked!(by_a_macro, {
    super::case("attribute::odd::by_a_macro");
});

macro_rules! limited {
    ($name:ident, $limit:expr, $rounds:literal) => {
        #[gpu_leak_check::gpu_leak_check(max_allocated = $limit, rounds = $rounds)]
        #[test]
        fn $name() {
            let options = super::case(concat!("attribute::odd::", stringify!($name))).options;
            let values = (options.max_allocated, options.rounds);
            assert_eq!(values, (Some(1 << 20), Some(3)));
        }
    };
}

limited!(by_the_arguments_of_a_macro, "1 MiB", 3);
limited!(by_an_expression_of_a_macro, 1 << 20, 3);

#[expect(
    unnameable_test_items,
    reason = "rustc warns that libtest cannot run a test inside a function"
)]
fn around_a_test() {
    #[gpu_leak_check::gpu_leak_check]
    #[test]
    fn inside() {}
}

#[gpu_leak_check::gpu_leak_check]
#[test]
fn recursive_and_generic_inside() {
    fn inner<T: Default + PartialEq + std::fmt::Debug>() {
        assert_eq!(T::default(), T::default());
    }
    if super::case("attribute::odd::recursive_and_generic_inside").ignored {
        recursive_and_generic_inside();
    }
    inner::<u8>();
}

#[gpu_leak_check::gpu_leak_check]
#[test]
#[expect(clippy::extra_unused_lifetimes, reason = "libtest allows them")]
fn lifetimes_are_not_arguments<'a>() {
    let text: &'a str = "static";
    assert!(!text.is_empty());
}
