#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| gpu_leak_check::__fuzz::config(input));
