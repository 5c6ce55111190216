//! If the attribute is above `#[test]`, it registers one case, under the name of the test.

use gpu_leak_check::gpu_leak_check;

use super::case;

#[gpu_leak_check]
#[test]
fn above_test() {
    assert_eq!(
        case("attribute::order::above_test").name(),
        "attribute::order::above_test"
    );
}
