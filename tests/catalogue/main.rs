//! Small programs, most of which make one mistake, and what the report must say about each mistake.
//!
//! Each program is a module with a checked test `program`, which runs in its own process on the
//! stand-in for the driver. `// MISTAKE` ends the line that must be changed, or next to which a
//! line is missing. The table has the function that owns the mistake, and what is left. The
//! programs were written before the code that looks for their mistakes, and must not be changed to
//! suit that code. Those in `aside` are not looked at while that code is written.

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
