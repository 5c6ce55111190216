use gpu_leak_check::gpu_leak_check;

#[gpu_leak_check]
#[test]
#[should_panic(message = "on purpose")]
fn unknown_form() {}

#[gpu_leak_check]
#[test]
#[should_panic]
fn with_a_result() -> Result<(), String> {
    Ok(())
}
