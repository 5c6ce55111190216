//! Objects that are an identity and, at most, a number of bytes: arrays, texture and surface objects, link
//! states, imports of other APIs. They belong to a context and go with it.

use crate::device::Device;
use crate::dispatch::Out;
use crate::error::Error;
use crate::handle::{Handle, Table};
use crate::state::{Driver, driver};

/// What an object is; its name in `fake_cuda_live`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Array,
    MipmappedArray,
    /// A plane or a level: lent by its array, and gone with it.
    Part,
    Texture,
    Surface,
    TextureReference,
    Link,
    ExternalMemory,
    ExternalSemaphore,
}

impl Class {
    const ALL: [Self; 9] = [
        Self::Array,
        Self::MipmappedArray,
        Self::Part,
        Self::Texture,
        Self::Surface,
        Self::TextureReference,
        Self::Link,
        Self::ExternalMemory,
        Self::ExternalSemaphore,
    ];

    pub(crate) fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.name() == name)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Array => "array",
            Self::MipmappedArray => "mipmapped-array",
            Self::Part => "array-part",
            Self::Texture => "texture",
            Self::Surface => "surface",
            Self::TextureReference => "texture-reference",
            Self::Link => "link",
            Self::ExternalMemory => "external-memory",
            Self::ExternalSemaphore => "external-semaphore",
        }
    }
}

/// One of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Object {
    class: Class,
    /// Bytes of device memory it holds.
    pub(crate) size: u64,
    context: Handle,
    device: usize,
    /// What its class makes of it: an array's format, a mipmapped array's levels, the bytes of an import.
    pub(crate) detail: u64,
    /// The array a part is of, and which one it is.
    part_of: Option<(Handle, u32)>,
}

/// What a new object is to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) class: Class,
    pub(crate) size: u64,
    pub(crate) detail: u64,
}

impl Plan {
    /// An object without memory.
    pub(crate) fn bare(class: Class) -> Self {
        Self {
            class,
            size: 0,
            detail: 0,
        }
    }
}

/// The tables of objects: by address, and by number where the driver numbers them.
#[derive(Debug)]
pub(crate) struct Objects {
    addressed: Table<Object>,
    textures: Table<Object>,
    surfaces: Table<Object>,
}

impl Default for Objects {
    fn default() -> Self {
        Self {
            addressed: Table::default(),
            textures: Table::numbered(),
            surfaces: Table::numbered(),
        }
    }
}

impl Objects {
    fn table(&self, class: Class) -> &Table<Object> {
        match class {
            Class::Texture => &self.textures,
            Class::Surface => &self.surfaces,
            _ => &self.addressed,
        }
    }

    fn table_mut(&mut self, class: Class) -> &mut Table<Object> {
        match class {
            Class::Texture => &mut self.textures,
            Class::Surface => &mut self.surfaces,
            _ => &mut self.addressed,
        }
    }

    /// The living objects of a class and their bytes.
    pub(crate) fn live(&self, class: Class) -> (u64, u64) {
        self.table(class)
            .iter()
            .filter(|(_, object)| object.class == class)
            .fold((0, 0), |(count, bytes), (_, object)| {
                (count + 1, bytes + object.size)
            })
    }
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
    /// A living object of a class.
    pub(crate) fn object(&self, class: Class, handle: Handle) -> Result<&Object, Error> {
        self.objects
            .table(class)
            .get(handle)
            .filter(|object| object.class == class)
            .ok_or(Error::INVALID_HANDLE)
    }

    fn create_object(&mut self, plan: Plan) -> Result<Handle, Error> {
        let context = self.current_handle()?;
        self.forbid_in_capture()?;
        let device = self.contexts.get(context).expect("it is current").device;
        self.admit(device, plan.size, pages(plan.size))?;
        self.devices[device].allocated += plan.size;
        self.devices[device].pages += pages(plan.size);
        Ok(self.objects.table_mut(plan.class).insert(Object {
            class: plan.class,
            size: plan.size,
            context,
            device,
            detail: plan.detail,
            part_of: None,
        }))
    }

    /// The part of an array with this number: the same handle each time.
    pub(crate) fn part_of(
        &mut self,
        class: Class,
        array: Handle,
        number: u32,
    ) -> Result<Handle, Error> {
        let whole = *self.object(class, array)?;
        let parts = &mut self.objects.addressed;
        let known = parts
            .iter()
            .find(|(_, object)| object.part_of == Some((array, number)))
            .map(|(handle, _)| handle);
        Ok(known.unwrap_or_else(|| {
            parts.insert(Object {
                class: Class::Part,
                size: 0,
                part_of: Some((array, number)),
                ..whole
            })
        }))
    }

    pub(crate) fn destroy_object(&mut self, class: Class, handle: Handle) -> Result<(), Error> {
        let context = self.object(class, handle)?.context;
        self.healthy(context)?;
        self.forbid_in_capture()?;
        let table = self.objects.table_mut(class);
        let object = table.remove(handle).expect("it was just found");
        table.remove_where(|part| part.part_of.is_some_and(|(array, _)| array == handle));
        self.devices[object.device].give_back(&object);
        Ok(())
    }

    pub(crate) fn release_objects_of(&mut self, context: Handle) {
        let objects = &mut self.objects;
        for table in [
            &mut objects.addressed,
            &mut objects.textures,
            &mut objects.surfaces,
        ] {
            for (_, object) in table.iter().filter(|(_, object)| object.context == context) {
                self.devices[object.device].give_back(object);
            }
            table.remove_where(|object| object.context == context);
        }
    }
}

/// Makes an object and answers with its handle.
pub(crate) fn create(handle: Out<Handle>, plan: Plan) -> Result<(), Error> {
    if handle.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    handle.put(driver()?.create_object(plan)?)
}
