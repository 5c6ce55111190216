use gpu_leak_check::gpu_leak_check;

#[gpu_leak_check(tolerance = "1 MB")]
#[test]
fn two_readings() {}

#[gpu_leak_check(tolerance = "100", reserved_tolerance = "some")]
#[test]
fn two_mistakes() {}

#[gpu_leak_check(tolerance = 1.5)]
#[test]
fn not_an_integer() {}

#[gpu_leak_check(tolerance)]
#[test]
fn no_value() {}

#[gpu_leak_check(settle = 250)]
#[test]
fn no_unit() {}

#[gpu_leak_check(settle = "2 minutes")]
#[test]
fn unknown_unit() {}

#[gpu_leak_check(confirm = "no")]
#[test]
fn not_a_flag() {}

#[gpu_leak_check(on_leak = "ignore")]
#[test]
fn no_such_policy() {}

#[gpu_leak_check(unchecked_if(cfg!(debug_assertions)))]
#[test]
fn no_reason() {}

#[gpu_leak_check(unchecked_if(1 + 1, "not a condition"))]
#[test]
fn no_condition() {}

#[gpu_leak_check(tolerance = 1 confirm = false)]
#[test]
fn no_comma() {}
