//! Callbacks in any order, with parameter blocks of any content: see [`crate::__fuzz`].
//!
//! Each block is as long as the table's row says and not a byte longer, each pointer is null or
//! leads to as many bytes as the row reads there: under an address sanitizer or Miri, what is read past
//! either ends the run.

#![expect(unsafe_code, reason = "it plays CUPTI, which hands over C structs")]

use std::ffi::c_void;
use std::ptr;

use super::super::call::{
    AddedNode, At, Bytes, Call, Creates, Descriptor, GraphFlags, Identity, Share,
};
use super::super::ffi::{self, CallbackData, ResourceData};
use super::super::field::{Answer, Block, Value};
use super::super::params::{
    AllocationNode, ArrayDescriptor, ArrayDescriptor3D, ArrayDescriptor3DV1, ArrayDescriptorV1,
    ExternalBuffer, ExternalMipmapped, PoolProperties,
};
use super::super::watch;
use super::{driver_call, resource};
use crate::device::captures;
use crate::ledger::event::Space;
use crate::ledger::{Kind, Ledger};

/// Contexts of nobody else in the process.
const FIRST_CONTEXT: u32 = 0x00fe_0000;
/// `CUgraphNodeParams`, whatever node it is about.
const NODE: usize = 256;
/// Calls inside calls.
const DEEPEST: u32 = 3;

/// Calls, as long as there is input.
///
/// # Panics
///
/// When that does not hold.
pub fn callbacks(input: &[u8]) {
    let ledger = Ledger::new();
    let mut source = Source { rest: input };
    while !source.rest.is_empty() {
        one_call(&ledger, &mut source, 0);
    }
    ledger.assert_figures();
}

/// Takes the input apart; behind its end it is all zeros.
struct Source<'a> {
    rest: &'a [u8],
}

impl Source<'_> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.rest.split_first().unwrap_or((&0, &[]));
        self.rest = rest;
        *first
    }

    /// Few enough that calls are about the same things; now and then anything.
    fn word(&mut self) -> u64 {
        match self.byte() {
            few @ 0..=199 => u64::from(few % 16) << 12,
            _ => u64::from_le_bytes(std::array::from_fn(|_| self.byte())),
        }
    }

    fn words(&mut self, bytes: usize) -> Vec<u8> {
        let mut made: Vec<u8> = Vec::with_capacity(bytes);
        while made.len() < bytes {
            let word = self.word().to_ne_bytes();
            made.extend_from_slice(&word[..word.len().min(bytes - made.len())]);
        }
        made.shrink_to_fit();
        made
    }
}

/// What a row says of its block.
#[derive(Debug, Default)]
struct Layout {
    /// Offset of each pointer, and the bytes behind it.
    pointers: Vec<(usize, usize)>,
    end: usize,
}

impl Layout {
    fn of(call: &Call) -> Self {
        let mut layout = Self::default();
        match call {
            Call::Creates(create) => layout.creates(create),
            Call::Releases(release) => {
                layout.value(release.identity);
                release.stream.into_iter().for_each(|it| layout.value(it));
                match release.share {
                    Share::Whole | Share::Reference => {}
                    Share::References(it) | Share::Maps(it) => layout.value(it),
                    Share::GraphReferences { graph, count } => layout.values([graph, count]),
                }
            }
            Call::RetainsPrimary { device } => layout.value(*device),
            Call::ReleasesPrimary { .. } => layout.end = 4,
            Call::ConvertsGreen { context, green } => {
                layout.answer(*context);
                layout.value(*green);
            }
            Call::Retains(retain) => {
                layout.identity(retain.identity);
                retain.count.into_iter().for_each(|it| layout.value(it));
            }
            Call::GraphRetains {
                graph,
                object,
                count,
                flags,
            } => {
                layout.values([*graph, *object, *count, *flags]);
            }
            Call::AddsNode { graph, node } => {
                layout.value(*graph);
                match node {
                    AddedNode::Allocates(at) => layout.pointer(*at, size_of::<AllocationNode>()),
                    AddedNode::Frees(address) => layout.value(*address),
                    AddedNode::Any(at) => layout.pointer(*at, NODE),
                }
            }
            Call::Launches { exec } => layout.value(*exec),
            Call::UpdatesExec { exec, graph } => layout.values([*exec, *graph]),
            Call::Maps {
                address,
                bytes,
                handle,
            } => layout.values([*address, *bytes, *handle]),
            Call::RetainsMapped { handle, address } => {
                layout.answer(*handle);
                layout.value(*address);
            }
            Call::BeginsCapture { stream, into } => {
                layout.value(*stream);
                into.iter().for_each(|it| layout.value(*it));
            }
        }
        layout
    }

    fn creates(&mut self, create: &Creates) {
        self.identity(create.identity);
        let optional = [
            create.stream,
            create.pool,
            create.ends_capture,
            create.references,
        ];
        optional.into_iter().flatten().for_each(|it| self.value(it));
        match create.bytes {
            Bytes::None => {}
            Bytes::Given(bytes) => self.value(bytes),
            Bytes::Rows {
                pitch,
                width,
                height,
            } => {
                self.answer(pitch);
                self.values([width, height]);
            }
            Bytes::Array(descriptor) => self.descriptor(descriptor),
            Bytes::ExternalBuffer(at) => self.pointer(at, size_of::<ExternalBuffer>()),
        }
        match create.place {
            At::Context | At::Host => {}
            At::Device(device) => self.value(device),
            At::PoolProperties(at) => self.pointer(at, size_of::<PoolProperties>()),
        }
        if let Some(copies) = &create.copies {
            self.value(copies.graph);
            match copies.flags {
                GraphFlags::None => {}
                GraphFlags::Given(flags) => self.value(flags),
                GraphFlags::Parameters(at) => self.pointer(at, size_of::<u64>()),
            }
        }
    }

    fn descriptor(&mut self, descriptor: Descriptor) {
        match descriptor {
            Descriptor::Array(at) => self.pointer(at, size_of::<ArrayDescriptor>()),
            Descriptor::ArrayV1(at) => self.pointer(at, size_of::<ArrayDescriptorV1>()),
            Descriptor::Array3D(at) => self.pointer(at, size_of::<ArrayDescriptor3D>()),
            Descriptor::Array3DV1(at) => self.pointer(at, size_of::<ArrayDescriptor3DV1>()),
            Descriptor::Mipmapped(at, levels) => {
                self.pointer(at, size_of::<ArrayDescriptor3D>());
                self.value(levels);
            }
            Descriptor::ExternalMipmapped(at) => self.pointer(at, size_of::<ExternalMipmapped>()),
        }
    }

    fn identity(&mut self, identity: Identity) {
        match identity {
            Identity::Answered(answer) => self.answer(answer),
            Identity::Given(value) => self.value(value),
        }
    }

    fn values<const N: usize>(&mut self, values: [Value; N]) {
        values.into_iter().for_each(|value| self.value(value));
    }

    fn value(&mut self, value: Value) {
        self.end = self.end.max(value.end());
    }

    fn answer(&mut self, answer: Answer) {
        let (at, bytes) = answer.pointer();
        self.pointer(at, bytes);
    }

    fn pointer(&mut self, at: usize, bytes: usize) {
        self.end = self.end.max(at + size_of::<usize>());
        self.pointers.push((at, bytes));
    }
}

/// A call with whatever happens inside it, one of its sides alone, or no call that is watched.
fn one_call(ledger: &Ledger, source: &mut Source<'_>, depth: u32) {
    let at = usize::from(source.byte()) | usize::from(source.byte() & 3) << 8;
    let Some(watched) = watch::TABLE.get(at) else {
        return one_resource(ledger, source);
    };
    let how = source.byte();
    let layout = Layout::of(&watched.call);
    let mut block = source.words(layout.end);
    let mut behind: Vec<Vec<u8>> = Vec::new();
    for (at, bytes) in &layout.pointers {
        let pointer = if source.byte().is_multiple_of(8) {
            ptr::null()
        } else {
            behind.push(source.words(*bytes));
            behind.last().map_or(ptr::null(), |made| made.as_ptr())
        };
        // SAFETY: the layout's end lies behind each of its pointers.
        unsafe {
            let field = block.as_mut_ptr().add(*at);
            field.cast::<*const u8>().write_unaligned(pointer);
        }
    }
    let result = u32::from(source.byte() % 4) * 2;
    let mut slot = source.word();
    let context = source.byte() % 4;
    let mut tell = |site| {
        let data = CallbackData {
            site,
            function_name: ptr::null(),
            function_params: if how == 0xff {
                ptr::null()
            } else {
                block.as_ptr().cast()
            },
            function_return_value: if how == 0xfe {
                ptr::null()
            } else {
                &raw const result
            },
            symbol_name: ptr::dangling(),
            context: context_of(context),
            context_uid: if context == 0 {
                0
            } else {
                FIRST_CONTEXT + u32::from(context)
            },
            correlation_data: if how == 0xfd {
                ptr::null_mut()
            } else {
                &raw mut slot
            },
            correlation_id: 0,
        };
        // SAFETY: the block is made for this call, and all that `data` points to lives.
        unsafe { driver_call(ledger, watched.id, &data) };
    };
    // Who waits for the end of a destruction is in this process as well.
    let is_whole = is_a_destruction(&watched.call);
    if is_whole || how % 4 != 1 {
        tell(ffi::SITE_ENTER);
    }
    match how % 8 {
        3 if depth < DEEPEST => one_call(ledger, source, depth + 1),
        7 => one_resource(ledger, source),
        _ => {}
    }
    if is_whole || how % 4 != 2 {
        tell(ffi::SITE_EXIT);
    }
    if let Call::BeginsCapture { stream, .. } = &watched.call {
        // Of the whole process as well.
        // SAFETY: as above.
        captures::ended(unsafe { Block::new(block.as_ptr().cast()).value(*stream) });
    }
}

fn is_a_destruction(call: &Call) -> bool {
    match call {
        Call::ReleasesPrimary { .. } => true,
        Call::Releases(release) => matches!(
            release.space,
            Space::Handle(Kind::Context | Kind::GreenContext | Kind::Pool | Kind::Stream)
        ),
        _ => false,
    }
}

fn context_of(number: u8) -> *const c_void {
    match number {
        0 => ptr::null(),
        number => ptr::without_provenance(0xfe_0000 + usize::from(number)),
    }
}

fn one_resource(ledger: &Ledger, source: &mut Source<'_>) {
    let graph = ffi::GraphData {
        graph: ptr::without_provenance(source.word() as usize),
    };
    let id = match source.byte() % 4 {
        0 => ffi::CONTEXT_CREATED,
        1 => ffi::CONTEXT_DESTROY_STARTING,
        2 => ffi::GRAPH_NODE_CREATED,
        _ => u32::from(source.byte()),
    };
    let data = ResourceData {
        context: context_of(source.byte() % 4),
        resource_handle: ptr::null(),
        resource_descriptor: if source.byte().is_multiple_of(4) {
            ptr::null()
        } else {
            (&raw const graph).cast()
        },
    };
    // SAFETY: the data is that of every id, and lives.
    unsafe { resource(ledger, id, &raw const data) };
}
