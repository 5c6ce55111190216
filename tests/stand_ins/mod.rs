//! The stand-ins are good enough: what real programs see of them, through bindings that were made for
//! the real libraries.

mod callbacks;
mod driver;
mod faults;
mod program;
