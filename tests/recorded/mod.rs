//! A recording of a real run is judged again as the run was: without its GPU, and by later releases.

mod files;
mod live;
mod malformed;
mod programs;
mod threads;
