//! The table, with one row for each way to create a resource. A new row needs two functions in
//! `planted`.

use gpu_leak_check::ledger::Kind;

use super::planted::{
    arrays, code, contexts, graphs, imported, keep, memory, streams, virtual_memory,
};
use super::row::Row;

/// Defines the rows, and for each row a module with its tests. A row names the functions that
/// create and release its resource.
macro_rules! rows {
    ($($name:ident: $call:literal, $kind:ident, $bytes:expr, $take:path => $give_back:path
        $(, $how:ident($($with:expr)?))*;)*) => {
        /// Every row.
        pub(super) static ROWS: &[Row] = &[$(
            Row::new($call, Kind::$kind, $bytes, || keep($take()), || $give_back($take()))
                .named(stringify!($name))
                $(.$how($($with)?))*
        ),*];

        $(mod $name {
            #[test]
            fn is_found() {
                super::super::is_found(stringify!($name));
            }

            #[test]
            fn is_quiet_when_fixed() {
                super::super::is_quiet_when_fixed(stringify!($name));
            }

            #[test]
            fn is_reported_when_its_context_ends() {
                super::super::is_reported_when_its_context_ends(stringify!($name));
            }
        })*
    };
}

rows! {
    linear: "cuMemAlloc", Linear, 1000, memory::linear => memory::free;
    one_byte: "cuMemAlloc", Linear, 1, memory::one_byte => memory::free;
    // A row has 100 bytes, and the driver's pitch is 512.
    pitched: "cuMemAllocPitch", Pitched, 3 * 512, memory::pitched => memory::free;
    managed: "cuMemAllocManaged", Managed, 5000, memory::managed => memory::free;
    from_default_pool: "cuMemAllocAsync", StreamOrdered, 400,
        memory::from_default_pool => memory::free_async, stays();
    one_mebibyte: "cuMemAllocAsync", StreamOrdered, 1 << 20,
        memory::one_mebibyte => memory::free_async, stays();
    from_explicit_pool: "cuMemAllocFromPoolAsync", StreamOrdered, 4096,
        memory::from_explicit_pool => memory::free_async, after(|| keep(memory::shared_pool())), stays();
    per_thread: "cuMemAllocAsync_ptsz", StreamOrdered, 2000, memory::per_thread => memory::free_per_thread, stays();
    pool: "cuMemPoolCreate", Pool, 0, memory::pool => memory::destroy_pool, stays();

    pinned: "cuMemHostAlloc", Pinned, 777, memory::pinned => memory::free_pinned, of_host();
    pinned_by_the_other_call: "cuMemAllocHost", Pinned, 778,
        memory::pinned_by_the_other_call => memory::free_pinned, of_host();
    registered: "cuMemHostRegister", Registered, 10_000, memory::registered => memory::unregister, of_host();

    physical: "cuMemCreate", Physical, virtual_memory::SIZE,
        virtual_memory::physical => virtual_memory::release, stays();
    physical_mapped: "cuMemMap, released and never unmapped", Physical, virtual_memory::SIZE,
        virtual_memory::mapped => virtual_memory::unmap, after(virtual_memory::reserve_rooms), stays();
    physical_retained: "cuMemRetainAllocationHandle", Physical, virtual_memory::SIZE,
        virtual_memory::retained => virtual_memory::release, after(virtual_memory::reserve_rooms), stays();
    physical_imported: "cuMemImportFromShareableHandle", Imported, 0,
        imported::physical => virtual_memory::release, stays();
    address_range: "cuMemAddressReserve", AddressRange, 0,
        virtual_memory::address_range => virtual_memory::free_addresses, stays();
    multicast: "cuMulticastCreate", Multicast, 0,
        virtual_memory::multicast => virtual_memory::release, unless(virtual_memory::no_multicast), stays();

    array_1d: "cuArrayCreate, 1 dimension", Array, 1000, arrays::of_1_dimension => arrays::destroy;
    array_2d: "cuArrayCreate, 2 dimensions", Array, 64 * 32 * 16, arrays::of_2_dimensions => arrays::destroy;
    array_3d: "cuArray3DCreate", Array, 16 * 8 * 4 * 4, arrays::of_3_dimensions => arrays::destroy;
    array_layered: "cuArray3DCreate, layered", Array, 6 * 16 * 16 * 4, arrays::layered => arrays::destroy;
    array_mipmapped: "cuMipmappedArrayCreate", Array, (64 * 64 + 32 * 32 + 16 * 16 + 8 * 8) * 4,
        arrays::mipmapped => arrays::destroy_mipmapped, aborts_with_its_context();
    texture: "cuTexObjectCreate", Texture, 0,
        arrays::texture => arrays::destroy_texture, leaving(|| arrays::forget_object(arrays::texture()));
    texture_reference: "cuTexRefCreate", Texture, 0,
        arrays::texture_reference => arrays::destroy_texture_reference;
    surface: "cuSurfObjectCreate", Surface, 0,
        arrays::surface => arrays::destroy_surface, leaving(|| arrays::forget_object(arrays::surface()));

    ipc_memory: "cuIpcOpenMemHandle", Imported, 2 << 20,
        imported::opened => imported::close, after(imported::start_exporter);
    external_memory: "cuImportExternalMemory", ExternalMemory, 0,
        imported::external_memory => imported::destroy_external_memory, unless(imported::no_external_memory);
    mapped_buffer: "cuExternalMemoryGetMappedBuffer", Imported, 70_000,
        imported::mapped_buffer => memory::free, unless(imported::no_external_memory);
    external_semaphore: "cuImportExternalSemaphore", ExternalSemaphore, 0,
        imported::external_semaphore => imported::destroy_external_semaphore, unless(imported::no_semaphore);
    imported_pool: "cuMemPoolImportFromShareableHandle", Pool, 0,
        imported::imported_pool => memory::destroy_pool, unless(imported::no_pool_import), stays();
    imported_pointer: "cuMemPoolImportPointer", Imported, 0,
        imported::imported_pointer => memory::free_async, unless(imported::no_pointer_import), stays();

    stream: "cuStreamCreate", Stream, 0, streams::plain => streams::destroy;
    stream_with_priority: "cuStreamCreateWithPriority", Stream, 0, streams::with_priority => streams::destroy;
    stream_of_a_green_context: "cuGreenCtxStreamCreate", Stream, 0, streams::green => streams::destroy,
        after(|| keep(contexts::shared_green_context())), stays();
    event: "cuEventCreate", Event, 0, streams::event => streams::destroy_event;
    module: "cuModuleLoadData", Module, 0, code::module => code::unload;
    library: "cuLibraryLoadData", Library, 0, code::library => code::unload_library, stays();
    link_state: "cuLinkCreate", LinkState, 0, code::link_state => code::destroy_link_state;

    graph: "cuGraphCreate", GraphHandle, 0, graphs::graph => graphs::destroy, stays();
    graph_clone: "cuGraphClone", GraphHandle, 0, graphs::clone => graphs::destroy, stays();
    graph_of_a_capture: "cuStreamEndCapture", GraphHandle, 0, graphs::captured => graphs::destroy, stays();
    exec_graph: "cuGraphInstantiate", ExecGraph, 0, graphs::executable => graphs::destroy_executable, stays();
    user_object: "cuUserObjectCreate", UserObject, 0,
        graphs::user_object => graphs::release_user_object, stays();
    graph_memory: "cuGraphLaunch with an alloc node", Graph, graphs::NODE,
        graphs::memory => memory::free, stays();
    graph_memory_of_the_last_launch: "cuGraphLaunch, auto-free", Graph, graphs::NODE,
        graphs::auto_freed_memory => memory::free, marked("graph_memory"), stays();

    context: "cuCtxCreate", Context, 0, contexts::own => contexts::destroy, without_context();
    green_context: "cuGreenCtxCreate", GreenContext, 0,
        contexts::green => contexts::destroy_green, without_context();
}
