//! Link states. The linked program is always the same few bytes, which the state owns.

use std::ffi::c_char;

use crate::dispatch::{In, Out, api};
use crate::error::Error;
use crate::handle::Handle;
use crate::module::file_exists;
use crate::object::{self, Class, Plan};
use crate::state::driver;

/// The result of every link.
static PROGRAM: &[u8] = b"a linked program";

fn add(link: Handle, data_is_null: bool) -> Result<(), Error> {
    driver()?.object(Class::Link, link)?;
    if data_is_null {
        return Err(Error::INVALID_VALUE);
    }
    Ok(())
}

api! {
    cuLinkCreate, cuLinkCreate_v2 fn(_count: u32, _options: In<u32>, _values: In<u64>, link: Out<Handle>) {
        object::create(link, Plan::bare(Class::Link))
    }

    cuLinkAddData, cuLinkAddData_v2 fn(
        link: Handle, _kind: u32, data: In<u8>, _size: usize, _name: In<c_char>, _count: u32, _options: In<u32>,
        _values: In<u64>,
    ) {
        add(link, data.is_null())
    }

    cuLinkAddFile, cuLinkAddFile_v2 fn(
        link: Handle, _kind: u32, path: In<c_char>, _count: u32, _options: In<u32>, _values: In<u64>,
    ) {
        file_exists(path)?;
        add(link, false)
    }

    cuLinkComplete fn(link: Handle, program: Out<*const u8>, size: Out<usize>) {
        driver()?.object(Class::Link, link)?;
        size.offer(PROGRAM.len());
        program.put(PROGRAM.as_ptr())
    }

    cuLinkDestroy fn(link: Handle) {
        driver()?.destroy_object(Class::Link, link)
    }
}
