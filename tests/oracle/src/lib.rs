//! Two witnesses of one program: the harness, which hears the driver by wrappers of its functions, and
//! NVIDIA's CUPTI, which calls back from inside the driver. Preloaded into a program that uses a GPU, this
//! library takes down what each of them tells, event by event, and compares the two when the program ends.
//!
//! `LD_PRELOAD=libgpu_leak_oracle.so ./program` writes one row of a table, and each difference, to standard
//! error and, if it is set, to the end of the file `GPU_LEAK_ORACLE_OUTPUT`. `GPU_LEAK_ORACLE_CUPTI` names
//! the CUPTI to be asked; otherwise it is the one that the loader finds. `docs/oracle.md` says more.

mod compare;
#[cfg(target_os = "linux")]
mod cupti;
#[cfg(target_os = "linux")]
mod entry;
mod fact;
mod heard;
mod rows;
