//! A stand-in for libcupti: subscribers, what each has enabled, and the faults a tracer can meet.
//!
//! It is loaded by tests as `libcupti.so.13`. Like the real one it looks for a libcuda in the process, loads one
//! if there is none, and asks it to tell every call; the callback data come from there in CUPTI's layout and are
//! passed on as they are. Constants are those of the headers of CUPTI 13.5.

mod cuda;
mod exports;
mod result;
mod subscriber;
