//! Calls that change something only when they succeed, and that end nothing.

use super::{
    Block, CONTEXTS, Call, CallbackData, ContextEnd, Event, Key, Kind, Ledger, Place, Space,
    caller, caller_without_stack, captures, current, decode,
};

/// `CU_GRAPH_USER_OBJECT_MOVE`
const MOVE: u64 = 1;

/// Tells of a call that has succeeded.
///
/// # Safety
///
/// `block` and `data` are those of `call`, which has returned success.
pub(super) unsafe fn told(ledger: &Ledger, call: &Call, block: Block, data: &CallbackData) {
    match call {
        Call::ConvertsGreen { context, green } => {
            // SAFETY: the caller's promise.
            let (context, green) = unsafe { (block.answer(*context), block.value(*green)) };
            if let Some(context) = context {
                CONTEXTS.converted(green, context);
            }
        }
        Call::Retains(retain) => {
            // SAFETY: the caller's promise.
            if let Some(retained) = unsafe { decode::retained(retain, block) } {
                ledger.apply(&retained);
            }
        }
        Call::GraphRetains {
            graph,
            object,
            count,
            flags,
        } => {
            // SAFETY: the caller's promise.
            ledger.apply(&unsafe {
                Event::GraphRetained {
                    graph: decode::graph(block.value(*graph)),
                    key: Key {
                        space: Space::Handle(Kind::UserObject),
                        value: block.value(*object),
                    },
                    count: block.value(*count),
                    moved: block.value(*flags) & MOVE != 0,
                }
            });
        }
        Call::AddsNode { graph, node } => {
            let context = || (current(ledger, data), caller());
            // SAFETY: the caller's promise.
            let node = unsafe {
                let graph = decode::graph(block.value(*graph));
                decode::node(*node, block, graph, context)
            };
            if let Some(node) = node {
                ledger.apply(&node);
            }
        }
        Call::UpdatesExec { exec, graph } => {
            // SAFETY: the caller's promise.
            ledger.apply(&unsafe {
                Event::GraphUpdated {
                    exec: Key {
                        space: Space::Handle(Kind::ExecGraph),
                        value: block.value(*exec),
                    },
                    graph: decode::graph(block.value(*graph)),
                }
            });
        }
        Call::Maps {
            address,
            bytes,
            handle,
        } => {
            // SAFETY: the caller's promise.
            ledger.apply(&unsafe {
                Event::Mapped {
                    address: block.value(*address),
                    bytes: block.value(*bytes),
                    handle: block.value(*handle),
                }
            });
        }
        Call::RetainsMapped { handle, address } => {
            // SAFETY: the caller's promise.
            let (handle, address) = unsafe { (block.answer(*handle), block.value(*address)) };
            if let Some(handle) = handle {
                ledger.apply(&Event::HandleRetained { handle, address });
            }
        }
        Call::BeginsCapture { stream, into } => {
            // SAFETY: the caller's promise.
            let (stream, into) = unsafe {
                (
                    block.value(*stream),
                    into.map_or(0, |into| block.value(into)),
                )
            };
            captures::began(stream, into);
        }
        Call::RetainsPrimary { device } => {
            // SAFETY: the caller's promise.
            let place = Place::cuda(unsafe { block.value(*device) } as usize);
            let caller = caller_without_stack();
            ledger.apply(&Event::PrimaryRetained { place, caller });
        }
        Call::ReleasesPrimary { device, cause } => {
            // A reset leaves its holders what they hold.
            if *cause == ContextEnd::LastRelease {
                // SAFETY: the caller's promise.
                let place = Place::cuda(unsafe { block.value(*device) } as usize);
                let caller = caller_without_stack();
                ledger.apply(&Event::PrimaryReleased { place, caller });
            }
        }
        Call::Creates(_) | Call::Releases(_) | Call::Launches { .. } => {}
    }
}
