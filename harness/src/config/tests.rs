//! Tests the precedence of settings, and which settings are rejected.

use super::{
    Allow, CheckSettings, Duration, File, GivenSettings, Mode, OnLeak, Options, Policy, Variables,
};
use crate::options::Expect;

fn settings(variables: &Variables, options: &Options, file: &str) -> CheckSettings {
    let file = File::of_text(file, "f.toml").unwrap();
    CheckSettings::combine(variables, options, &[], Some(&file), "train::step").unwrap()
}

fn policy(variables: &Variables, options: &Options, file: &str) -> Policy {
    settings(variables, options, file).policy
}

#[test]
fn without_settings_the_defaults_apply() {
    let CheckSettings { policy, test, .. } = CheckSettings::default();
    assert_eq!(policy.mode, Mode::Auto);
    assert_eq!(policy.on_leak, OnLeak::Fail);
    assert_eq!(policy.first_use, OnLeak::Warn);
    assert_eq!(policy.settle, Duration::from_millis(250));
    assert_eq!(policy.held_by, Duration::from_millis(200));
    assert!(test.judged.confirm && !policy.ci);
}

#[test]
fn the_run_s_policy_is_environment_over_attribute_over_file() {
    let file = "[run]\non_leak = 'warn'\nsettle = '1s'";
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    let attribute = Options {
        on_leak: Some(OnLeak::Fail),
        settle: seconds(2),
        ..Options::DEFAULT
    };
    let environment = Variables {
        run: GivenSettings {
            on_leak: Some(OnLeak::Warn),
            settle: seconds(3),
            ..GivenSettings::default()
        },
        ..Variables::default()
    };
    let decided = |policy: Policy| (policy.on_leak, policy.settle.as_secs());
    let silent = Variables::default();
    assert_eq!(
        decided(policy(&silent, &Options::DEFAULT, file)),
        (OnLeak::Warn, 1)
    );
    assert_eq!(
        decided(policy(&silent, &attribute, file)),
        (OnLeak::Fail, 2)
    );
    assert_eq!(
        decided(policy(&environment, &attribute, file)),
        (OnLeak::Warn, 3)
    );
}

#[test]
fn options_that_a_check_cannot_have_are_refused_whoever_sets_them() {
    let refused = |options: Options| {
        let settings = CheckSettings::combine(&Variables::default(), &options, &[], None, "step");
        settings.unwrap_err()
    };
    let of_rounds = |rounds| Options {
        rounds: Some(rounds),
        ..Options::DEFAULT
    };
    for rounds in [0, 2] {
        assert!(refused(of_rounds(rounds)).starts_with(&format!("{rounds} rounds ")));
    }
    let expect = Some(Expect {
        count: Some(1),
        bytes: None,
    });
    let both = Options {
        expect,
        ..of_rounds(5)
    };
    assert!(refused(both).starts_with("`expect` states what a single run leaks"));
    let nameless = Options {
        layer: Some("allocator:"),
        ..Options::DEFAULT
    };
    assert!(refused(nameless).starts_with("a layer is"));
}

#[test]
fn a_test_s_own_option_may_contradict_the_file_s_or_a_variable() {
    let attribute = Options {
        expect: Some(Expect {
            count: Some(1),
            bytes: None,
        }),
        ..Options::DEFAULT
    };
    let environment = Variables {
        rounds: Some(5),
        ..Variables::default()
    };
    let settings = settings(&environment, &attribute, "[check]\nrounds = 3");
    assert_eq!(settings.test.judged.rounds, 1);
}

#[test]
fn facts_of_the_attribute_override_those_of_the_file() {
    let file = "[check]\ntolerance = 1\nreserved_tolerance = 1";
    let attribute = Options {
        tolerance: Some(2),
        ..Options::DEFAULT
    };
    let facts = settings(&Variables::default(), &attribute, file)
        .test
        .judged;
    assert_eq!((facts.tolerance, facts.reserved_tolerance), (2, 1));
}

/// The tolerance of a whole suite must not hide the leak that one of its tests expects.
#[test]
fn an_expected_leak_is_compared_without_the_file_s_tolerance() {
    let attribute = Options {
        expect: Some(Expect {
            count: None,
            bytes: Some(1024),
        }),
        ..Options::DEFAULT
    };
    let file = "[check]\ntolerance = '1 MiB'";
    let facts = settings(&Variables::default(), &attribute, file)
        .test
        .judged;
    assert_eq!(facts.tolerance, 0);
}

#[test]
fn an_entry_without_a_reason_is_refused_wherever_it_is() {
    let entry = Allow {
        pattern: "fn:*",
        reason: "…",
        kind: None,
        up_to: None,
    };
    let options = Options::DEFAULT;
    let refused = CheckSettings::combine(&Variables::default(), &options, &[entry], None, "a");
    assert_eq!(
        refused.unwrap_err(),
        "the entry \"fn:*\" needs a reason that is not empty"
    );
}
