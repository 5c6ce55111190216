//! Runs the library under the checks that use it as their workload.

mod clean;
mod leaks;
