//! Small programs, most of which make one mistake, and what the report must say about the mistake.
//!
//! Each program is a module with a checked test `program`, which runs in its own process on the
//! stand-in for the driver. `// MISTAKE` ends the line that must be changed, or that is next to a
//! missing line. The table names the function with the mistake, and what the program leaves. The
//! programs were written before the code that locates mistakes, and must not be changed to suit it.
//! The programs in `aside` are a held-out set: whoever works on that code does not look at them.

mod aside;
mod branches;
mod containers;
mod counting;
mod drops;
mod handles;
mod report;
mod sharing;
mod statics;
mod support;
mod table;
