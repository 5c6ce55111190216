//! Runs the library under the checks for which it is the workload.

mod clean;
mod leaks;
