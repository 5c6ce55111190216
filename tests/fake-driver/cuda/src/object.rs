//! Objects that belong to a context and end with it: arrays, texture and surface objects, link
//! states, and imports from other APIs. Some of them have a size.

use std::collections::HashMap;

use crate::device::Device;
use crate::dispatch::Out;
use crate::error::Error;
use crate::handle::{Handle, Table};
use crate::state::{Driver, driver};

macro_rules! classes {
    ($($(#[$doc:meta])* $class:ident = $name:literal;)*) => {
        /// The class of an object, with its name in `fake_cuda_live`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) enum Class {
            $($(#[$doc])* $class,)*
        }

        impl Class {
            pub(crate) fn of_name(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$class),)*
                    _ => None,
                }
            }
        }
    };
}

classes! {
    Array = "array";
    MipmappedArray = "mipmapped-array";
    /// A plane or a level, which belongs to its array and ends with the array.
    Part = "array-part";
    Texture = "texture";
    Surface = "surface";
    TextureReference = "texture-reference";
    Link = "link";
    ExternalMemory = "external-memory";
    ExternalSemaphore = "external-semaphore";
}

impl Class {
    /// Whether the handles of this class are numbers, counted separately in each context.
    fn is_numbered(self) -> bool {
        matches!(self, Self::Texture | Self::Surface)
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Object {
    class: Class,
    /// The bytes of device memory that the object holds.
    pub(crate) size: u64,
    context: Handle,
    device: usize,
    /// Data that depend on the class: the format of an array, the levels of a mipmapped array, or
    /// the bytes of an import.
    pub(crate) detail: u64,
    /// The array that a part belongs to, and the index of the part.
    part_of: Option<(Handle, u32)>,
}

/// The properties of a new object.
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

/// The tables of objects: one for objects whose handles are addresses, and one per context and
/// class for those whose handles are numbers.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    addressed: Table<Object>,
    numbered: HashMap<(Handle, Class), Table<Object>>,
}

impl Objects {
    /// Returns the table of a class in a context.
    fn table(&mut self, class: Class, context: Handle) -> &mut Table<Object> {
        if class.is_numbered() {
            self.numbered
                .entry((context, class))
                .or_insert_with(Table::numbered)
        } else {
            &mut self.addressed
        }
    }

    fn tables(&self) -> impl Iterator<Item = &Table<Object>> {
        self.numbered.values().chain([&self.addressed])
    }

    /// The number of live objects of a class, and their bytes.
    pub(crate) fn live(&self, class: Class) -> (u64, u64) {
        self.tables()
            .flat_map(Table::iter)
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

/// Rounds up to whole pages of 2 MiB, of which arrays consist.
fn pages(size: u64) -> u64 {
    size.next_multiple_of(2 << 20)
}

impl Driver {
    /// Returns a live object of a class. A numbered one must belong to the current context.
    pub(crate) fn object(&self, class: Class, handle: Handle) -> Result<&Object, Error> {
        let table = if class.is_numbered() {
            self.objects
                .numbered
                .get(&(self.current_handle()?, class))
                .ok_or(Error::INVALID_HANDLE)?
        } else {
            &self.objects.addressed
        };
        table
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
        Ok(self.objects.table(plan.class, context).insert(Object {
            class: plan.class,
            size: plan.size,
            context,
            device,
            detail: plan.detail,
            part_of: None,
        }))
    }

    /// Returns the part of an array with this index. Its handle is the same each time.
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
        let table = self.objects.table(class, context);
        let object = table.remove(handle).expect("it was just found");
        table.remove_where(|part| part.part_of.is_some_and(|(array, _)| array == handle));
        self.devices[object.device].give_back(&object);
        Ok(())
    }

    pub(crate) fn release_objects_of(&mut self, context: Handle) {
        for (_, object) in self.objects.tables().flat_map(Table::iter) {
            if object.context == context {
                self.devices[object.device].give_back(object);
            }
        }
        self.objects
            .addressed
            .remove_where(|object| object.context == context);
        self.objects
            .numbered
            .retain(|&(owner, _), _| owner != context);
    }
}

/// Creates an object and returns its handle.
pub(crate) fn create(handle: Out<Handle>, plan: Plan) -> Result<(), Error> {
    if handle.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    handle.put(driver()?.create_object(plan)?)
}
