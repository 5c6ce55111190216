use gpu_leak_check::gpu_leak_check;

#[gpu_leak_check]
#[test]
fn wrong_type() {
    let bytes: u64 = "1 MiB";
    drop(bytes);
}

#[gpu_leak_check]
#[test]
fn missing_value() -> Result<(), String> {
    drop(unknown);
}

#[gpu_leak_check]
#[test]
fn no_outcome() -> u64 {
    1
}

#[gpu_leak_check]
#[test]
fn borrow() {
    let text = String::new();
    drop(text);
    println!("{text}");
}
