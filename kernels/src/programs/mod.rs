//! Programs of PyTorch users who asked where their memory went, with figures for each step. Each
//! corresponds to the Python program of the same name, so that its allocated and reserved bytes at
//! each step can be compared with PyTorch's.

mod data;
mod layers;
mod program;
mod tensors;
mod tiny_model;

pub use program::{Program, Row};

/// Every program, in the order in which PyTorch was measured.
pub const PROGRAMS: &[Program] = &[
    Program::new("tiny_model_inference", 2 << 20, tiny_model::inference),
    Program::new(
        "tiny_model_training_adam",
        2 << 20,
        tiny_model::training_adam,
    ),
    Program::new("tiny_model_training_sgd", 2 << 20, tiny_model::training_sgd),
    Program::new("sin_1024_cubed", 8 << 30, tensors::sin_1024_cubed),
    Program::new("linear_no_grad", 2 << 20, layers::linear_no_grad),
    Program::new("data_loader_loop", 2 << 20, data::data_loader_loop),
    Program::new("linear_adam_release", 22 << 20, layers::linear_adam_release),
    Program::new("large_randn", 382 << 20, tensors::large_randn),
    Program::new("process_data", 20 << 20, tensors::process_data),
    Program::new("training_loop_sgd", 2 << 20, layers::training_loop_sgd),
    Program::new("multiple_ops", 2 << 20, tensors::multiple_ops),
];

impl Program {
    /// Returns the program with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        PROGRAMS.iter().find(|program| program.name == name)
    }
}
