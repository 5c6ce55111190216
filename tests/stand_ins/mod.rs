//! The stand-ins are good enough: what real programs see of them, through bindings that were made for
//! the real libraries.

mod callbacks;
mod calls;
mod driver;
mod faults;
mod ipc;
mod objects;
mod program;
mod virtual_memory;
