//! The library under the check that it is there to show.

mod clean;
mod leaks;
