//! A replay judges the recording of a real run like the run itself, even without its GPU and in
//! later releases.

mod files;
mod live;
mod malformed;
mod programs;
mod threads;
