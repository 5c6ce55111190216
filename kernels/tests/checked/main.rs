//! Runs the library under the checks that it is the workload for.

mod clean;
mod leaks;
