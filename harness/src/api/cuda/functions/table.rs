// The rows of the table of watched functions. functions.rs describes them, and makes a wrapper of
// each. The preloaded library includes this file as well, and takes only the names from it.

functions! {
    cuInit[2000] = |flags: u32| Call::Initialises,
    // Device memory, which cuMemFree frees.
    // https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__MEM.html
    cuMemAlloc[2000] =
        |pointer: Out<u32>, bytes: u32| device(Kind::Linear, pointer, bytes as usize),
    cuMemAlloc_v2[3020] = |pointer: Out, bytes: usize| device(Kind::Linear, pointer, bytes),
    cuMemAllocPitch[2000] =
        |pointer: Out<u32>, pitch: Out<u32>, width: u32, height: u32, element: u32|
        pitched(pointer, pitch, width.into(), height.into()),
    cuMemAllocPitch_v2[3020] = |pointer: Out, pitch: Out, width: u64, height: u64, element: u32|
        pitched(pointer, pitch, width, height),
    cuMemAllocManaged[6000] =
        |pointer: Out, bytes: usize, flags: u32| device(Kind::Managed, pointer, bytes),
    cuMemFree[2000] = |pointer: u32| frees(Space::DevicePointer, pointer.into()),
    cuMemFree_v2[3020] = |pointer: u64| frees(Space::DevicePointer, pointer),
    // Page-locked memory. No header declares cuMemHostAlloc_v2, but CUPTI has a callback ID for it.
    cuMemHostAlloc[2020] | cuMemHostAlloc_v2[2020] =
        |pointer: Out, bytes: usize, flags: u32| pinned(pointer, bytes),
    cuMemAllocHost[2000] = |pointer: Out, bytes: u32| pinned(pointer, bytes as usize),
    cuMemAllocHost_v2[3020] = |pointer: Out, bytes: usize| pinned(pointer, bytes),
    cuMemFreeHost[2000] = |pointer: u64| frees(Space::HostPointer, pointer),
    cuMemHostRegister[4000] | cuMemHostRegister_v2[6050] =
        |pointer: u64, bytes: usize, flags: u32| registered(pointer, bytes),
    cuMemHostUnregister[4000] = |pointer: u64| frees(Space::RegisteredPointer, pointer),
    // https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__MALLOC__ASYNC.html
    cuMemAllocAsync[11020] | cuMemAllocAsync_ptsz[11020] =
        |pointer: Out, bytes: usize, stream: u64| ordered(pointer, bytes, stream, 0),
    cuMemAllocFromPoolAsync[11020] | cuMemAllocFromPoolAsync_ptsz[11020] =
        |pointer: Out, bytes: usize, pool: u64, stream: u64| ordered(pointer, bytes, stream, pool),
    cuMemFreeAsync[11020] | cuMemFreeAsync_ptsz[11020] =
        |pointer: u64, stream: u64| frees(Space::DevicePointer, pointer).on_stream(stream),
    // Allocations from a pool that has been destroyed stay live until each of them is freed.
    cuMemPoolCreate[11020] = |pool: Out, properties: In<Properties>|
        handle(Kind::Pool, pool).at(At::Properties(properties)),
    // Importing a pool that is already imported returns the same pool, and a single call frees it
    // (observed on an H200).
    cuMemPoolImportFromShareableHandle[11020] = |pool: Out, shared: u64, kind: u32, flags: u64|
        Creates { may_answer_again: true, ..handle(Kind::Pool, pool) },
    cuMemPoolDestroy[11020] = |pool: u64| destroys(Kind::Pool, pool),
    // This is an allocation from a pool that another process shares, so its size is unknown.
    cuMemPoolImportPointer[11020] = |pointer: Out, pool: u64, shared: u64|
        Creates { pool, may_answer_again: true, ..device(Kind::Imported, pointer, 0) },
    // https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__VA.html
    cuMemCreate[10020] = |memory: Out, bytes: usize, properties: In<Properties>, flags: u64|
        physical(Kind::Physical, memory, bytes).at(At::Properties(properties)),
    // The size of the imported memory is unknown.
    cuMemImportFromShareableHandle[10020] =
        |memory: Out, shared: u64, kind: u32| physical(Kind::Imported, memory, 0),
    cuMulticastCreate[12010] = |memory: Out, properties: u64| physical(Kind::Multicast, memory, 0),
    cuMemRelease[10020] = |memory: u64| releases(Space::PhysicalHandle, memory, 1, None),
    cuMemRetainAllocationHandle[11000] =
        |memory: Out, address: u64| Call::RetainsMapped(memory, address),
    cuMemMap[10020] = |address: u64, bytes: u64, offset: u64, memory: u64, flags: u64|
        Call::Causes(Event::Mapped { address, bytes, handle: memory }),
    cuMemUnmap[10020] = |address: u64, bytes: u64|
        Frees { share: Share::Maps(bytes), ..frees(Space::Mapping, address) },
    cuMemAddressReserve[10020] =
        |address: Out, bytes: usize, alignment: usize, wish: u64, flags: u64|
        handle(Kind::AddressRange, address),
    cuMemAddressFree[10020] = |address: u64, bytes: usize| destroys(Kind::AddressRange, address),
    // Arrays. cuMipmappedArrayGetLevel and cuArrayGetPlane return parts of an array that must not
    // be destroyed, so they are not watched.
    cuArrayCreate[2000] =
        |made: Out, descriptor: In<ArrayDescriptor<u32>>| array(Kind::Array, made, descriptor),
    cuArrayCreate_v2[3020] =
        |made: Out, descriptor: In<ArrayDescriptor>| array(Kind::Array, made, descriptor),
    cuArray3DCreate[2000] =
        |made: Out, descriptor: In<ArrayDescriptor3D<u32>>| array(Kind::Array, made, descriptor),
    cuArray3DCreate_v2[3020] =
        |made: Out, descriptor: In<ArrayDescriptor3D>| array(Kind::Array, made, descriptor),
    cuMipmappedArrayCreate[5000] = |made: Out, descriptor: In<ArrayDescriptor3D>, levels: u32|
        array(Kind::Array, made, of_levels(descriptor, levels)),
    cuArrayDestroy[2000] | cuMipmappedArrayDestroy[5000] = |array: u64| destroys(Kind::Array, array),
    // Memory and semaphores of another process or API. Buffers and arrays that map such memory
    // outlive it, and are freed as if they had been allocated by this process.
    // https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__EXTRES__INTEROP.html
    cuImportExternalMemory[10000] =
        |memory: Out, descriptor: u64| handle(Kind::ExternalMemory, memory),
    cuExternalMemoryGetMappedBuffer[10000] =
        |pointer: Out, memory: u64, descriptor: In<ExternalBuffer>| imported(pointer, descriptor),
    cuExternalMemoryGetMappedMipmappedArray[10000] =
        |made: Out, memory: u64, descriptor: In<ExternalMipmapped>|
        array(Kind::Imported, made, descriptor),
    cuDestroyExternalMemory[10000] = |memory: u64| destroys(Kind::ExternalMemory, memory),
    cuImportExternalSemaphore[10000] =
        |semaphore: Out, descriptor: u64| handle(Kind::ExternalSemaphore, semaphore),
    cuDestroyExternalSemaphore[10000] =
        |semaphore: u64| destroys(Kind::ExternalSemaphore, semaphore),
    cuIpcOpenMemHandle[4010] | cuIpcOpenMemHandle_v2[11000] =
        |pointer: Out, shared: IpcHandle, flags: u32|
        Creates { bytes: Bytes::Asked, ..creates(Kind::Imported, Space::IpcPointer, pointer) },
    cuIpcCloseMemHandle[4010] = |pointer: u64| releases(Space::IpcPointer, pointer, 1, None),
    // Views of memory: texture and surface objects, and the older texture references.
    // https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TEXOBJECT.html
    cuTexObjectCreate[5000] =
        |texture: Out, resource: u64, sampling: u64, view: u64| handle(Kind::Texture, texture),
    cuTexRefCreate[2000] = |texture: Out| handle(Kind::Texture, texture),
    cuTexObjectDestroy[5000] | cuTexRefDestroy[2000] =
        |texture: u64| destroys(Kind::Texture, texture),
    // https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__SURFOBJECT.html
    cuSurfObjectCreate[5000] = |surface: Out, resource: u64| handle(Kind::Surface, surface),
    cuSurfObjectDestroy[5000] = |surface: u64| destroys(Kind::Surface, surface),
    // https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__STREAM.html
    cuStreamCreate[2000] = |stream: Out, flags: u32| handle(Kind::Stream, stream),
    cuStreamCreateWithPriority[5050] =
        |stream: Out, flags: u32, priority: i32| handle(Kind::Stream, stream),
    // The stream ends neither with the green context nor with the current context.
    cuGreenCtxStreamCreate[12050] = |stream: Out, green: u64, flags: u32, priority: i32|
        Creates { outlives_context: true, ..handle(Kind::Stream, stream).at(At::Green(green)) },
    cuStreamDestroy[2000] | cuStreamDestroy_v2[4000] = |stream: u64| destroys(Kind::Stream, stream),
    // https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__EVENT.html
    cuEventCreate[2000] = |event: Out, flags: u32| handle(Kind::Event, event),
    cuIpcOpenEventHandle[4010] = |event: Out, shared: IpcHandle| handle(Kind::Event, event),
    cuEventDestroy[2000] | cuEventDestroy_v2[4000] = |event: u64| destroys(Kind::Event, event),
    // https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__MODULE.html
    cuModuleLoad[2000] | cuModuleLoadData[2000] | cuModuleLoadFatBinary[2000] =
        |module: Out, code: u64| handle(Kind::Module, module),
    cuModuleLoadDataEx[2010] = |module: Out, image: u64, count: u32, options: u64, values: u64|
        handle(Kind::Module, module),
    cuModuleUnload[2000] = |module: u64| destroys(Kind::Module, module),
    cuLinkCreate[5050] | cuLinkCreate_v2[6050] =
        |count: u32, options: u64, values: u64, link: Out| handle(Kind::LinkState, link),
    cuLinkDestroy[5050] = |link: u64| destroys(Kind::LinkState, link),
    // https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__LIBRARY.html
    cuLibraryLoadData[12000] | cuLibraryLoadFromFile[12000] =
        |library: Out, code: u64, jit: u64, values: u64, jits: u32, options: u64, all: u64, count: u32|
        handle(Kind::Library, library),
    cuLibraryUnload[12000] = |library: u64| destroys(Kind::Library, library),
    // https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__CTX.html
    cuCtxCreate[2000] | cuCtxCreate_v2[3020] =
        |made: Out, flags: u32, device: i32| context(made, device),
    cuCtxCreate_v3[11040] =
        |made: Out, affinities: u64, count: i32, flags: u32, device: i32| context(made, device),
    cuCtxCreate_v4[12050] =
        |made: Out, parameters: u64, flags: u32, device: i32| context(made, device),
    cuCtxDestroy[2000] | cuCtxDestroy_v2[4000] = |context: u64| destroys(Kind::Context, context),
    // These functions are still available, although they have been deprecated for a long time. With
    // them, a context ends when its last use is released.
    cuCtxAttach[2000] = |context: Out, flags: u32| Call::Attaches(context),
    cuCtxDetach[2000] = |context: u64| releases(Space::Handle(Kind::Context), context, 1, None),
    // https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__GREEN__CONTEXTS.html
    cuGreenCtxCreate[12040] = |green: Out, resources: u64, device: i32, flags: u32|
        handle(Kind::GreenContext, green).at(At::Device(device)),
    cuGreenCtxDestroy[12040] = |green: u64| destroys(Kind::GreenContext, green),
    // The returned context belongs to the green context and ends with it.
    cuCtxFromGreenCtx[12040] = |context: Out, green: u64| Call::ConvertsGreen(context, green),
    // A primary context is shared rather than owned by the caller, so retaining it creates no
    // record.
    // https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__PRIMARY__CTX.html
    cuDevicePrimaryCtxRetain[7000] =
        |context: Out, device: i32| Call::RetainsPrimary(context, device),
    cuDevicePrimaryCtxRelease[7000] | cuDevicePrimaryCtxRelease_v2[11000] =
        |device: i32| Call::ReleasesPrimary(device, ContextEnd::LastRelease),
    cuDevicePrimaryCtxReset[7000] | cuDevicePrimaryCtxReset_v2[11000] =
        |device: i32| Call::ReleasesPrimary(device, ContextEnd::Reset),
    // https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__GRAPH.html
    cuGraphCreate[10000] = |graph: Out, flags: u32| handle(Kind::GraphHandle, graph),
    cuGraphClone[10000] = |copy: Out, graph: u64| copied(Kind::GraphHandle, copy, graph, 0_u64),
    cuGraphDestroy[10000] = |graph: u64| destroys(Kind::GraphHandle, graph),
    cuGraphInstantiate[10000] | cuGraphInstantiate_v2[11000] =
        |exec: Out, graph: u64, node: u64, log: u64, bytes: usize|
        copied(Kind::ExecGraph, exec, graph, 0_u64),
    cuGraphInstantiateWithFlags[11040] =
        |exec: Out, graph: u64, flags: u64| copied(Kind::ExecGraph, exec, graph, flags),
    cuGraphInstantiateWithParams[12000] | cuGraphInstantiateWithParams_ptsz[12000] =
        |exec: Out, graph: u64, parameters: In<u64>|
        copied(Kind::ExecGraph, exec, graph, parameters),
    // These nodes allocate or free memory when their graph is launched.
    cuGraphAddMemAllocNode[11040] =
        |node: u64, graph: u64, dependencies: u64, count: usize, parameters: In<AllocationNode>|
        Call::AddsNode(graph, AddedNode::Allocates(parameters)),
    cuGraphAddMemFreeNode[11040] =
        |node: u64, graph: u64, dependencies: u64, count: usize, pointer: u64|
        Call::AddsNode(graph, AddedNode::Frees(pointer)),
    cuGraphAddNode[12020] =
        |node: u64, graph: u64, dependencies: u64, count: usize, parameters: In<Node>|
        Call::AddsNode(graph, AddedNode::Any(parameters)),
    cuGraphAddNode_v2[12030] | cuGraphAddNode_v3[13040] =
        |node: u64, graph: u64, dependencies: u64, edges: u64, count: usize, parameters: In<Node>|
        Call::AddsNode(graph, AddedNode::Any(parameters)),
    cuGraphLaunch[10000] | cuGraphLaunch_ptsz[10000] =
        |exec: u64, stream: u64| Call::Launches(exec),
    cuGraphExecUpdate[10020] = |exec: u64, graph: u64, node: u64, result: u64| updated(exec, graph),
    cuGraphExecUpdate_v2[12000] = |exec: u64, graph: u64, result: u64| updated(exec, graph),
    cuGraphExecDestroy[10000] = |exec: u64| destroys(Kind::ExecGraph, exec),
    // A user object is an object that a graph keeps alive for the program. Clones and executable
    // graphs of that graph also get references, and each of them releases its references when it
    // ends.
    cuUserObjectCreate[11030] =
        |object: Out, pointer: u64, destructor: u64, references: u32, flags: u32|
        Creates { references: references.into(), ..handle(Kind::UserObject, object) },
    cuUserObjectRetain[11030] = |object: u64, count: u32|
        Call::Causes(Event::Retained { key: named(Kind::UserObject, object), count: count.into() }),
    cuUserObjectRelease[11030] =
        |object: u64, count: u32| releases(Space::Handle(Kind::UserObject), object, count, None),
    cuGraphRetainUserObject[11030] = |graph: u64, object: u64, count: u32, flags: u32|
        Call::Causes(Event::GraphRetained {
            graph: named(Kind::GraphHandle, graph),
            key: named(Kind::UserObject, object),
            count: count.into(),
            moved: flags & USER_OBJECT_MOVE != 0,
        }),
    cuGraphReleaseUserObject[11030] = |graph: u64, object: u64, count: u32| {
        let owner = Some(named(Kind::GraphHandle, graph));
        releases(Space::Handle(Kind::UserObject), object, count, owner)
    },
    // A capture creates a graph, or adds to an existing one.
    cuStreamBeginCapture[10000] | cuStreamBeginCapture_ptsz[10000] =
        |stream: u64| Call::BeginsCapture(stream, 0),
    cuStreamBeginCapture_v2[10010] | cuStreamBeginCapture_v2_ptsz[10010] =
        |stream: u64, mode: u32| Call::BeginsCapture(stream, 0),
    cuStreamBeginCaptureToGraph[12030] | cuStreamBeginCaptureToGraph_ptsz[12030] =
        |stream: u64, graph: u64, dependencies: u64, edges: u64, count: usize, mode: u32|
        Call::BeginsCapture(stream, graph),
    cuStreamBeginRecaptureToGraph[13030] | cuStreamBeginRecaptureToGraph_ptsz[13030] =
        |stream: u64, mode: u32, graph: u64, callback: u64, data: u64|
        Call::BeginsRecapture(stream, graph),
    cuStreamEndCapture[10000] | cuStreamEndCapture_ptsz[10000] =
        |stream: u64, graph: Out| captured(stream, graph),
}
