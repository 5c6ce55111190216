//! Observes a program from two sources: the harness, which wraps the functions of the driver, and
//! NVIDIA's CUPTI, which calls back from inside the driver. This library is preloaded into a
//! program that uses a GPU, records what each source reports, event by event, and compares the two
//! when the program ends.
//!
//! `LD_PRELOAD=libgpu_leak_oracle.so ./program` writes one row of a table, and each difference, to
//! standard error and, if `GPU_LEAK_ORACLE_OUTPUT` is set, to the end of that file.
//! `GPU_LEAK_ORACLE_CUPTI` is the path of the CUPTI to use. If it is not set, the loader looks for
//! one. See also `docs/oracle.md`.

mod compare;
#[cfg(target_os = "linux")]
mod cupti;
#[cfg(target_os = "linux")]
mod entry;
mod fact;
mod heard;
mod rows;
