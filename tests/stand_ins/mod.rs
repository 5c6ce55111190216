//! The stand-ins are complete enough for real programs, which use them through bindings for the
//! real libraries.

mod calls;
mod captures;
mod contexts;
mod devices;
mod driver;
mod faults;
mod graphs;
mod ipc;
mod objects;
mod pools;
mod program;
mod user_objects;
mod versions;
mod virtual_memory;
