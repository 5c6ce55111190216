//! Objects that are an identity and, at most, a number of bytes: arrays, texture and surface objects, link
//! states. They belong to a context and go with it.

use crate::device::Device;
use crate::dispatch::{In, Out, api};
use crate::error::Error;
use crate::handle::Handle;
use crate::state::{Driver, driver};

/// What an object is; its name in `fake_cuda_live`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Array,
    MipmappedArray,
    Texture,
    Surface,
    Link,
}

impl Class {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Array => "array",
            Self::MipmappedArray => "mipmapped-array",
            Self::Texture => "texture",
            Self::Surface => "surface",
            Self::Link => "link",
        }
    }
}

/// One of them.
#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) class: Class,
    pub(crate) size: u64,
    context: Handle,
    device: usize,
}

impl Device {
    fn give_back(&mut self, object: &Object) {
        self.allocated -= object.size;
        self.pages -= pages(object.size);
    }
}

/// Arrays take whole pages of 2 MiB.
fn pages(size: u64) -> u64 {
    size.next_multiple_of(2 << 20)
}

impl Driver {
    fn create(&mut self, class: Class, size: u64) -> Result<Handle, Error> {
        let context = self.current_handle()?;
        self.forbid_in_capture()?;
        let device = self.contexts.get(context).expect("it is current").device;
        self.admit(device, size, pages(size))?;
        self.devices[device].allocated += size;
        self.devices[device].pages += pages(size);
        Ok(self.objects.insert(Object {
            class,
            size,
            context,
            device,
        }))
    }

    fn destroy(&mut self, class: Class, handle: Handle) -> Result<(), Error> {
        let context = self
            .objects
            .get(handle)
            .filter(|object| object.class == class)
            .ok_or(Error::INVALID_HANDLE)?
            .context;
        self.healthy(context)?;
        self.forbid_in_capture()?;
        let object = self.objects.remove(handle).expect("it was just found");
        self.devices[object.device].give_back(&object);
        Ok(())
    }

    pub(crate) fn release_objects_of(&mut self, context: Handle) {
        for (_, object) in self
            .objects
            .iter()
            .filter(|(_, object)| object.context == context)
        {
            self.devices[object.device].give_back(object);
        }
        self.objects
            .remove_where(|object| object.context == context);
    }
}

/// Bytes of one element of a `CUarray_format`.
fn element_size(format: u32) -> Result<u64, Error> {
    match format {
        0x01 | 0x08 => Ok(1),
        0x02 | 0x09 | 0x10 => Ok(2),
        0x03 | 0x0a | 0x20 => Ok(4),
        _ => Err(Error::INVALID_VALUE),
    }
}

/// `CUDA_ARRAY_DESCRIPTOR`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArrayDescriptor {
    width: usize,
    height: usize,
    format: u32,
    channels: u32,
}

/// `CUDA_ARRAY3D_DESCRIPTOR`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Array3dDescriptor {
    width: usize,
    height: usize,
    depth: usize,
    format: u32,
    channels: u32,
    flags: u32,
}

impl Array3dDescriptor {
    fn level_size(&self, level: u32) -> Result<u64, Error> {
        if self.width == 0 || !matches!(self.channels, 1 | 2 | 4) {
            return Err(Error::INVALID_VALUE);
        }
        let at_level = |extent: usize| ((extent as u64) >> level).max(1);
        Ok(element_size(self.format)?
            * u64::from(self.channels)
            * at_level(self.width)
            * at_level(self.height)
            * at_level(self.depth))
    }
}

fn create(handle: Out<Handle>, class: Class, size: u64) -> Result<(), Error> {
    if handle.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    handle.put(driver()?.create(class, size)?)
}

api! {
    cuArrayCreate_v2 = 272 fn(array: Out<Handle>, descriptor: In<ArrayDescriptor>) {
        let ArrayDescriptor { width, height, format, channels } = descriptor.get()?;
        let whole = Array3dDescriptor { width, height, depth: 0, format, channels, flags: 0 };
        create(array, Class::Array, whole.level_size(0)?)
    }

    cuArray3DCreate_v2 = 274 fn(array: Out<Handle>, descriptor: In<Array3dDescriptor>) {
        create(array, Class::Array, descriptor.get()?.level_size(0)?)
    }

    cuArrayDestroy = 89 fn(array: Handle) {
        driver()?.destroy(Class::Array, array)
    }

    cuMipmappedArrayCreate = 347 fn(array: Out<Handle>, descriptor: In<Array3dDescriptor>, levels: u32) {
        let descriptor = descriptor.get()?;
        let size = (0..levels.clamp(1, 16)).map(|level| descriptor.level_size(level)).sum::<Result<u64, Error>>()?;
        create(array, Class::MipmappedArray, size)
    }

    cuMipmappedArrayDestroy = 349 fn(array: Handle) {
        driver()?.destroy(Class::MipmappedArray, array)
    }

    cuTexObjectCreate = 339 fn(texture: Out<u64>, _resource: In<u8>, _sampling: In<u8>, _view: In<u8>) {
        create(texture, Class::Texture, 0)
    }

    cuTexObjectDestroy = 340 fn(texture: u64) {
        driver()?.destroy(Class::Texture, texture)
    }

    cuSurfObjectCreate = 343 fn(surface: Out<u64>, _resource: In<u8>) {
        create(surface, Class::Surface, 0)
    }

    cuSurfObjectDestroy = 344 fn(surface: u64) {
        driver()?.destroy(Class::Surface, surface)
    }

    cuLinkCreate_v2 = 381 fn(_count: u32, _options: In<u32>, _values: In<u64>, link: Out<Handle>) {
        create(link, Class::Link, 0)
    }

    cuLinkDestroy = 366 fn(link: Handle) {
        driver()?.destroy(Class::Link, link)
    }
}
