//! The definitions that take precedence over those of glibc and the drivers.

mod bindings;
mod dlclose;
mod dlsym;
mod heap;
mod live;
mod next;
mod objects;
mod process;
mod pthread;
mod registry;
mod thunks;
mod trampoline;

pub use heap::{is_heap_watched, watch_heap};
pub use live::{is_starting, live, marked_threads, started_without_token};
pub(crate) use next::close;
pub use next::real_symbol;
pub use objects::libraries_elsewhere;
pub use process::{bindings_past_us, missed_calls, register, wrapper_by_address};
pub use pthread::{before_next_thread, mark_threads, set_token, uncancelled};
