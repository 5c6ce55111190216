//! A recording of a real run is judged like the run, even without its GPU and by later releases.

mod files;
mod live;
mod malformed;
mod programs;
mod threads;
