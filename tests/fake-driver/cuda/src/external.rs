//! Memory and semaphores of other APIs: imports, and mappings of imports. A mapping outlives its
//! import.

use crate::array::Descriptor3d;
use crate::dispatch::{In, Out, api};
use crate::error::Error;
use crate::handle::Handle;
use crate::memory::Kind;
use crate::object::{self, Class, Plan};
use crate::state::{Driver, driver};

/// `CUDA_EXTERNAL_MEMORY_HANDLE_DESC`: 104 bytes. The stand-in does not use the handle, whose
/// meaning depends on the type.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryHandleDescriptor {
    kind: u32,
    handle: [u64; 2],
    size: u64,
    flags: u32,
    reserved: [u32; 16],
}

/// `CUDA_EXTERNAL_MEMORY_BUFFER_DESC`: 88 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct BufferDescriptor {
    offset: u64,
    size: u64,
    flags: u32,
    reserved: [u32; 16],
}

/// `CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct MipmappedArrayDescriptor {
    offset: u64,
    array: Descriptor3d,
    levels: u32,
    reserved: [u32; 16],
}

/// The start of `CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct SemaphoreHandleDescriptor {
    kind: u32,
}

impl Driver {
    fn map_buffer(&mut self, memory: Handle, offset: u64, size: u64) -> Result<u64, Error> {
        let imported = self.object(Class::ExternalMemory, memory)?.detail;
        let context = self.current_handle()?;
        if size == 0 || offset.checked_add(size).is_none_or(|end| end > imported) {
            return Err(Error::INVALID_VALUE);
        }
        let device = self.contexts.get(context).expect("it is current").device;
        self.record_foreign(Kind::External, size, device, context, 0)
    }
}

api! {
    cuImportExternalMemory fn(memory: Out<Handle>, descriptor: In<MemoryHandleDescriptor>) {
        let descriptor = descriptor.get()?;
        // Handle types are numbered from 1.
        if descriptor.kind == 0 || descriptor.size == 0 {
            return Err(Error::INVALID_VALUE);
        }
        object::create(memory, Plan { detail: descriptor.size, ..Plan::bare(Class::ExternalMemory) })
    }

    cuExternalMemoryGetMappedBuffer fn(address: Out<u64>, memory: Handle, descriptor: In<BufferDescriptor>) {
        if address.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        let BufferDescriptor { offset, size, .. } = descriptor.get()?;
        address.put(driver()?.map_buffer(memory, offset, size)?)
    }

    cuExternalMemoryGetMappedMipmappedArray fn(
        array: Out<Handle>, memory: Handle, descriptor: In<MipmappedArrayDescriptor>,
    ) {
        let descriptor = descriptor.get()?;
        driver()?.object(Class::ExternalMemory, memory)?;
        // The array has no bytes of its own: they belong to the import.
        object::create(array, Plan { size: 0, ..descriptor.array.mipmapped(descriptor.levels)? })
    }

    cuDestroyExternalMemory fn(memory: Handle) {
        driver()?.destroy_object(Class::ExternalMemory, memory)
    }

    cuImportExternalSemaphore fn(semaphore: Out<Handle>, descriptor: In<SemaphoreHandleDescriptor>) {
        if descriptor.get()?.kind == 0 {
            return Err(Error::INVALID_VALUE);
        }
        object::create(semaphore, Plan::bare(Class::ExternalSemaphore))
    }

    cuDestroyExternalSemaphore fn(semaphore: Handle) {
        driver()?.destroy_object(Class::ExternalSemaphore, semaphore)
    }
}
