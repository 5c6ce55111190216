use gpu_leak_check::gpu_leak_check;

#[gpu_leak_check]
mod elsewhere;

#[gpu_leak_check(tolerence = 1)]
mod mistaken {
    #[test]
    fn one() {}

    #[test]
    fn other() {}
}

#[gpu_leak_check]
#[gpu_leak_check(confirm = false)]
mod twice {}

#[gpu_leak_check(isolate)]
fn main() {}

#[gpu_leak_check(warmup = "2")]
#[test]
fn how_often() {}

#[gpu_leak_check::warmup]
fn with_arguments(_device: usize) {}

#[gpu_leak_check::warmup(tolerance = 1)]
fn with_options() {}
