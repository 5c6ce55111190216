//! Texture and surface objects, whose handles are numbers in tables of their context, and texture
//! references.

use crate::dispatch::{In, Out, api};
use crate::handle::Handle;
use crate::object::{self, Class, Plan};
use crate::state::driver;

api! {
    cuTexObjectCreate fn(texture: Out<u64>, _resource: In<u8>, _sampling: In<u8>, _view: In<u8>) {
        object::create(texture, Plan::bare(Class::Texture))
    }

    cuTexObjectDestroy fn(texture: u64) {
        driver()?.destroy_object(Class::Texture, texture)
    }

    cuSurfObjectCreate fn(surface: Out<u64>, _resource: In<u8>) {
        object::create(surface, Plan::bare(Class::Surface))
    }

    cuSurfObjectDestroy fn(surface: u64) {
        driver()?.destroy_object(Class::Surface, surface)
    }

    cuTexRefCreate fn(reference: Out<Handle>) {
        object::create(reference, Plan::bare(Class::TextureReference))
    }

    cuTexRefDestroy fn(reference: Handle) {
        driver()?.destroy_object(Class::TextureReference, reference)
    }
}
