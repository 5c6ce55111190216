use gpu_leak_check::gpu_leak_check;

#[gpu_leak_check]
struct Model;

#[gpu_leak_check]
impl Model {
    #[gpu_leak_check]
    fn method(&self) {}
}

#[gpu_leak_check]
trait Trains {
    #[gpu_leak_check]
    fn train();
}

#[gpu_leak_check]
const SIZE: usize = 1;

struct Tests;

impl Tests {
    #[gpu_leak_check]
    #[test]
    fn associated() {}
}
