//! Small programs, most of which make one mistake, and what the report must say about each mistake.
//!
//! Each program is a module with a checked test `program`, which runs in a process of its own on the
//! stand-in for the driver. The line that has to be changed, or beside which the missing line belongs,
//! ends in `// MISTAKE`; the table has the function that owns it, and what is left. The programs were
//! written before the code that looks for their mistakes and must not be changed to suit it. Those
//! in `aside` are not looked at while that code is written.

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
