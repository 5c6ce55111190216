//! test-log: a test's log is initialised and captured exactly as without the attribute.

use gpu_leak_check::gpu_leak_check;

use super::passes;

#[gpu_leak_check]
#[test_log::test]
#[ignore = "logs"]
fn above() {
    log::info!("a line of the log");
}

#[test_log::test]
#[gpu_leak_check]
#[ignore = "logs"]
fn below() {
    log::info!("a line of the log");
}

#[gpu_leak_check]
#[test_log::test(tokio::test)]
#[ignore = "logs"]
async fn over_a_runtime() {
    log::info!("a line of the log");
}

mod imported {
    //! test-log's attribute, imported as `test`, as in test-log's documentation.

    use gpu_leak_check::gpu_leak_check;
    use test_log::test;

    #[gpu_leak_check]
    #[test]
    #[ignore = "logs"]
    fn as_test() {
        log::info!("a line of the log");
    }
}

#[test]
fn what_a_test_logs_is_printed() {
    for name in ["above", "below", "over_a_runtime", "imported::as_test"] {
        let child = passes(&format!("attribute::test_log::{name}"));
        assert_eq!(
            child.stderr.matches("a line of the log").count(),
            1,
            "{name}: {child:#?}"
        );
    }
}
