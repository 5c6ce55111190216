//! Physical memory and the handles to it.
//!
//! Physical memory is a file in memory, so that two mappings of it show the same bytes, and a
//! shareable handle is a descriptor of that file. The memory lives while a handle, a mapping or a
//! multicast object holds it (`cuMemRelease` in `cuda.h`). The value of a released handle is reused
//! for the next memory that is created, even if mappings remain.

#![expect(
    unsafe_code,
    reason = "descriptors of files are passed around as numbers"
)]

use std::fs::File;
use std::os::fd::{BorrowedFd, FromRawFd as _, IntoRawFd as _};
use std::os::unix::fs::MetadataExt as _;

use crate::dispatch::{In, Out, api};
use crate::error::Error;
use crate::handle::Handle;
use crate::memory::Kind;
use crate::multicast::Multicast;
use crate::pool::located;
use crate::state::{Driver, driver};

/// The granularity of sizes and addresses.
pub(crate) const GRANULARITY: u64 = 2 << 20;
/// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`, the only supported kind of shareable handle.
pub(crate) const FILE_DESCRIPTOR: u32 = 1;

/// Physical memory, or a multicast object, which uses the same kind of handles.
#[derive(Debug)]
pub(crate) struct Physical {
    pub(crate) size: u64,
    /// The device whose memory this uses: `None` for host memory, imports and multicast objects.
    pub(crate) device: Option<usize>,
    prop: AllocationProp,
    /// The number of handle values that refer to this memory.
    handles: u32,
    /// The number of mappings plus the number of multicast objects to which the memory is bound.
    pub(crate) uses: u32,
    pub(crate) multicast: Option<Multicast>,
    pub(crate) content: File,
}

/// A handle value: its memory, and the number of releases that it needs.
#[derive(Debug)]
pub(crate) struct MemoryHandle {
    object: u64,
    references: u32,
}

/// `CUmemAllocationProp`: 32 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct AllocationProp {
    pub(crate) kind: u32,
    pub(crate) handle_types: u32,
    pub(crate) location_type: u32,
    pub(crate) location_id: i32,
    pub(crate) metadata: u64,
    pub(crate) flags: u64,
}

pub(crate) fn is_granular(size: u64) -> bool {
    size != 0 && size.is_multiple_of(GRANULARITY)
}

/// Creates a file of `size` bytes that exists only in memory.
pub(crate) fn memory_file(size: u64) -> Result<File, Error> {
    // SAFETY: the name is a C string, and the result is checked.
    let descriptor = unsafe { libc::memfd_create(c"fake cuda memory".as_ptr(), libc::MFD_CLOEXEC) };
    if descriptor < 0 {
        return Err(Error::OUT_OF_MEMORY);
    }
    // SAFETY: the descriptor is new, and nothing else owns it.
    let file = unsafe { File::from_raw_fd(descriptor) };
    file.set_len(size).map_err(|_| Error::OUT_OF_MEMORY)?;
    Ok(file)
}

/// Duplicates the descriptor of a file, for another owner.
pub(crate) fn shared(file: &File) -> Result<i32, Error> {
    let copy = file.try_clone().map_err(|_| Error::OUT_OF_MEMORY)?;
    Ok(copy.into_raw_fd())
}

/// Returns the file of a shareable handle: a descriptor as a pointer-sized number, which the caller
/// keeps.
pub(crate) fn received(handle: u64) -> Result<File, Error> {
    let descriptor = i32::try_from(handle).ok().filter(|&number| number >= 0);
    // SAFETY: the descriptor is borrowed only until the copy below, which fails if the number is
    // not a descriptor.
    let borrowed = unsafe { BorrowedFd::borrow_raw(descriptor.ok_or(Error::INVALID_VALUE)?) };
    let copy = borrowed.try_clone_to_owned();
    copy.map(File::from).map_err(|_| Error::INVALID_VALUE)
}

impl Driver {
    /// Returns the object that a handle refers to.
    pub(crate) fn physical_of(&self, handle: Handle) -> Result<u64, Error> {
        self.memory_handles
            .get(handle)
            .map(|known| known.object)
            .ok_or(Error::INVALID_VALUE)
    }

    /// Adds an object with its own handle.
    pub(crate) fn new_physical(
        &mut self,
        prop: AllocationProp,
        size: u64,
        device: Option<usize>,
        content: File,
    ) -> Handle {
        if let Some(device) = device {
            self.devices[device].pages += size;
            self.devices[device].allocated += size;
        }
        let object = self.physical.insert(Physical {
            size,
            device,
            prop,
            handles: 0,
            uses: 0,
            multicast: None,
            content,
        });
        self.new_handle(object)
    }

    fn new_handle(&mut self, object: u64) -> Handle {
        self.physical
            .get_mut(object)
            .expect("the caller found this object")
            .handles += 1;
        self.memory_handles.insert(MemoryHandle {
            object,
            references: 1,
        })
    }

    fn import(&mut self, content: File) -> Result<Handle, Error> {
        let metadata = content.metadata().map_err(|_| Error::INVALID_VALUE)?;
        if !is_granular(metadata.len()) {
            return Err(Error::INVALID_VALUE);
        }
        let same = |known: &File| {
            known
                .metadata()
                .is_ok_and(|known| (known.dev(), known.ino()) == (metadata.dev(), metadata.ino()))
        };
        let known = self
            .physical
            .iter()
            .find(|(_, physical)| same(&physical.content))
            .map(|(object, _)| object);
        if let Some(object) = known {
            return Ok(self.new_handle(object));
        }
        // The memory belongs to another process, and counts there.
        let prop = AllocationProp {
            kind: 1,
            handle_types: FILE_DESCRIPTOR,
            location_type: 1,
            location_id: 0,
            metadata: 0,
            flags: 0,
        };
        Ok(self.new_physical(prop, metadata.len(), None, content))
    }

    fn retain_mapped(&mut self, address: u64) -> Result<Handle, Error> {
        let mapped = self
            .range_of(address)
            .filter(|(_, allocation)| allocation.kind == Kind::Mapped);
        let object = mapped.ok_or(Error::INVALID_VALUE)?.1.owner;
        // `cuda.h` promises the handle with which the memory was mapped. After that handle is
        // released, other memory may have its value.
        let known = self
            .memory_handles
            .iter()
            .filter(|(_, handle)| handle.object == object)
            .map(|(handle, _)| handle)
            .min();
        match known {
            Some(handle) => {
                self.memory_handles
                    .get_mut(handle)
                    .expect("it was just found")
                    .references += 1;
                Ok(handle)
            }
            None => Ok(self.new_handle(object)),
        }
    }

    fn release_handle(&mut self, handle: Handle) -> Result<(), Error> {
        let known = self
            .memory_handles
            .get_mut(handle)
            .ok_or(Error::INVALID_VALUE)?;
        known.references -= 1;
        if known.references > 0 {
            return Ok(());
        }
        let object = known.object;
        self.memory_handles.remove(handle);
        self.physical
            .get_mut(object)
            .expect("a handle keeps its memory")
            .handles -= 1;
        self.forget_physical(object);
        Ok(())
    }

    /// Ends a mapping or a binding of an object.
    pub(crate) fn end_use(&mut self, object: u64) {
        self.physical
            .get_mut(object)
            .expect("a use keeps its memory")
            .uses -= 1;
        self.forget_physical(object);
    }

    fn forget_physical(&mut self, object: u64) {
        let in_use = |physical: &Physical| physical.handles > 0 || physical.uses > 0;
        if self.physical.get(object).is_none_or(in_use) {
            return;
        }
        let gone = self.physical.remove(object).expect("it was just found");
        if let Some(device) = gone.device {
            self.devices[device].pages -= gone.size;
            self.devices[device].allocated -= gone.size;
        }
        for binding in gone.multicast.into_iter().flat_map(Multicast::into_bound) {
            self.end_use(binding);
        }
    }
}

api! {
    cuMemCreate fn(handle: Out<Handle>, size: usize, prop: In<AllocationProp>, _flags: u64) {
        let (size, prop) = (size as u64, prop.get()?);
        let mut driver = driver()?;
        let device = located(&driver, prop.location_type, prop.location_id)?;
        // The only supported type is pinned memory.
        if !is_granular(size) || prop.kind != 1 || handle.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        if let Some(device) = device {
            driver.admit(device, size, size)?;
        }
        let content = memory_file(size)?;
        handle.put(driver.new_physical(prop, size, device, content))
    }

    cuMemRelease fn(handle: Handle) {
        driver()?.release_handle(handle)
    }

    cuMemRetainAllocationHandle fn(handle: Out<Handle>, address: u64) {
        if handle.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        handle.put(driver()?.retain_mapped(address)?)
    }

    cuMemExportToShareableHandle fn(shareable: Out<i32>, handle: Handle, kind: u32, _flags: u64) {
        let driver = driver()?;
        let object = driver.physical_of(handle)?;
        let physical = driver.physical.get(object).expect("a handle keeps its memory");
        if kind != FILE_DESCRIPTOR || physical.prop.handle_types & kind == 0 || shareable.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        shareable.put(shared(&physical.content)?)
    }

    cuMemImportFromShareableHandle fn(handle: Out<Handle>, shareable: u64, kind: u32) {
        if kind != FILE_DESCRIPTOR || handle.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        let mut driver = driver()?;
        handle.put(driver.import(received(shareable)?)?)
    }

    cuMemGetAllocationGranularity fn(granularity: Out<usize>, _prop: In<AllocationProp>, _option: u32) {
        let _initialised = driver()?;
        granularity.put(GRANULARITY as usize)
    }

    cuMemGetAllocationPropertiesFromHandle fn(prop: Out<AllocationProp>, handle: Handle) {
        let driver = driver()?;
        let object = driver.physical_of(handle)?;
        prop.put(driver.physical.get(object).expect("a handle keeps its memory").prop)
    }
}
