//! Code: modules, libraries and kernels. The stand-in accepts any image and finds any name.
//! Launches do nothing.

use std::ffi::c_char;
use std::path::Path;

use crate::capture;
use crate::dispatch::{In, Out, api};
use crate::error::Error;
use crate::fault;
use crate::graph::Node;
use crate::handle::Handle;
use crate::state::{Driver, driver};

#[derive(Debug)]
pub(crate) struct Module {
    pub(crate) context: Handle,
    /// The library that the module came from, if any. Such a module cannot be unloaded separately.
    library: Handle,
}

/// A kernel of a module or a library. Repeated requests for it return the same handle.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) context: Handle,
    owner: Handle,
    name: String,
}

/// A library, which belongs to no context.
#[derive(Debug)]
pub(crate) struct Library;

fn load(module_out: Out<Handle>, image_is_null: bool) -> Result<(), Error> {
    let mut driver = driver()?;
    let context = driver.current_handle()?;
    driver.forbid_in_capture()?;
    if module_out.is_null() || image_is_null {
        return Err(Error::INVALID_VALUE);
    }
    module_out.put(driver.modules.insert(Module {
        context,
        library: 0,
    }))
}

fn load_library(library: Out<Handle>, image_is_null: bool) -> Result<(), Error> {
    let mut driver = driver()?;
    if library.is_null() || image_is_null {
        return Err(Error::INVALID_VALUE);
    }
    library.put(driver.libraries.insert(Library))
}

pub(crate) fn file_exists(path: In<c_char>) -> Result<(), Error> {
    if Path::new(&path.text()?).is_file() {
        Ok(())
    } else {
        Err(Error::FILE_NOT_FOUND)
    }
}

impl Driver {
    fn function(&mut self, context: Handle, owner: Handle, name: String) -> Handle {
        let known = self
            .functions
            .iter()
            .find(|(_, function)| function.owner == owner && function.name == name);
        match known {
            Some((handle, _)) => handle,
            None => self.functions.insert(Function {
                context,
                owner,
                name,
            }),
        }
    }
}

fn launch(function: Handle, stream: Handle) -> Result<(), Error> {
    let context = {
        let driver = driver()?;
        driver
            .functions
            .get(function)
            .ok_or(Error::INVALID_HANDLE)?;
        driver.context_of_stream(stream)?
    };
    if !capture::add(stream, Node::Kernel)? {
        let growth = fault::plan().launch_grows.unwrap_or(0);
        let mut driver = driver()?;
        let context = driver.contexts.get_mut(context);
        context
            .ok_or(Error::INVALID_CONTEXT)?
            .growth
            .get_or_insert(growth);
    }
    Ok(())
}

/// `CUlaunchConfig`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaunchConfig {
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    stream: Handle,
    attributes: u64,
    attribute_count: u32,
}

fn is_function(function: Handle) -> Result<(), Error> {
    driver()?
        .functions
        .get(function)
        .map(drop)
        .ok_or(Error::INVALID_HANDLE)
}

api! {
    cuModuleLoad fn(module: Out<Handle>, path: In<c_char>) {
        file_exists(path)?;
        load(module, false)
    }

    cuModuleLoadData fn(module: Out<Handle>, image: In<u8>) {
        load(module, image.is_null())
    }

    cuModuleLoadDataEx fn(module: Out<Handle>, image: In<u8>, _count: u32, _options: In<u32>, _values: In<u64>) {
        load(module, image.is_null())
    }

    cuModuleLoadFatBinary fn(module: Out<Handle>, image: In<u8>) {
        load(module, image.is_null())
    }

    cuModuleUnload fn(module: Handle) {
        let mut driver = driver()?;
        driver.forbid_in_capture()?;
        let found = driver.modules.get(module).ok_or(Error::INVALID_HANDLE)?;
        if found.library != 0 {
            return Err(Error::NOT_SUPPORTED);
        }
        driver.healthy(found.context)?;
        driver.modules.remove(module).ok_or(Error::INVALID_HANDLE)?;
        driver.functions.remove_where(|function| function.owner == module);
        Ok(())
    }

    cuModuleGetFunction fn(function: Out<Handle>, module: Handle, name: In<c_char>) {
        let mut driver = driver()?;
        let context = driver.modules.get(module).ok_or(Error::INVALID_HANDLE)?.context;
        driver.healthy(context)?;
        function.put(driver.function(context, module, name.text()?))
    }

    cuModuleGetGlobal_v2 fn(_address: Out<u64>, _size: Out<usize>, module: Handle, _name: In<c_char>) {
        driver()?.modules.get(module).ok_or(Error::INVALID_HANDLE)?;
        Err(Error::NOT_FOUND)
    }

    cuModuleGetLoadingMode fn(mode: Out<u32>) {
        let _initialised = driver()?;
        // The mode is lazy loading.
        mode.put(2)
    }

    cuLibraryLoadData fn(
        library: Out<Handle>, code: In<u8>, _jit: In<u32>, _jit_values: In<u64>, _jit_count: u32, _options: In<u32>,
        _values: In<u64>, _count: u32,
    ) {
        load_library(library, code.is_null())
    }

    cuLibraryLoadFromFile fn(
        library: Out<Handle>, path: In<c_char>, _jit: In<u32>, _jit_values: In<u64>, _jit_count: u32, _options: In<u32>,
        _values: In<u64>, _count: u32,
    ) {
        file_exists(path)?;
        load_library(library, false)
    }

    cuLibraryUnload fn(library: Handle) {
        let mut driver = driver()?;
        driver.libraries.remove(library).ok_or(Error::INVALID_HANDLE)?;
        driver.functions.remove_where(|function| function.owner == library);
        driver.modules.remove_where(|module| module.library == library);
        Ok(())
    }

    cuLibraryGetKernel fn(kernel: Out<Handle>, library: Handle, name: In<c_char>) {
        let mut driver = driver()?;
        driver.libraries.get(library).ok_or(Error::INVALID_HANDLE)?;
        kernel.put(driver.function(0, library, name.text()?))
    }

    cuLibraryGetModule fn(module: Out<Handle>, library: Handle) {
        let mut driver = driver()?;
        let context = driver.current_handle()?;
        driver.libraries.get(library).ok_or(Error::INVALID_HANDLE)?;
        let known = driver.modules.iter().find(|(_, module)| module.library == library && module.context == context);
        let handle = known.map(|(handle, _)| handle);
        module.put(handle.unwrap_or_else(|| driver.modules.insert(Module { context, library })))
    }

    cuKernelGetFunction fn(function: Out<Handle>, kernel: Handle) {
        let driver = driver()?;
        driver.current()?;
        driver.functions.get(kernel).ok_or(Error::INVALID_HANDLE)?;
        function.put(kernel)
    }

    cuLaunchKernel, cuLaunchKernel_ptsz fn(
        function: Handle, _grid_x: u32, _grid_y: u32, _grid_z: u32, _block_x: u32, _block_y: u32, _block_z: u32,
        _shared: u32, stream: Handle, _parameters: In<u64>, _extra: In<u64>,
    ) {
        launch(function, stream)
    }

    cuLaunchKernelEx, cuLaunchKernelEx_ptsz fn(
        config: In<LaunchConfig>, function: Handle, _parameters: In<u64>, _extra: In<u64>,
    ) {
        launch(function, config.get()?.stream)
    }

    cuLaunchCooperativeKernel, cuLaunchCooperativeKernel_ptsz fn(
        function: Handle, _grid_x: u32, _grid_y: u32, _grid_z: u32, _block_x: u32, _block_y: u32, _block_z: u32,
        _shared: u32, stream: Handle, _parameters: In<u64>,
    ) {
        launch(function, stream)
    }

    cuFuncGetAttribute fn(value: Out<i32>, attribute: u32, function: Handle) {
        is_function(function)?;
        value.put(match attribute {
            0 => 1024,
            4 => 32,
            5 | 6 => 90,
            8 => 49_152,
            _ => 0,
        })
    }

    cuFuncSetAttribute fn(function: Handle, _attribute: u32, _value: i32) {
        is_function(function)
    }

    cuFuncSetCacheConfig fn(function: Handle, _config: u32) {
        is_function(function)
    }

    cuOccupancyMaxActiveBlocksPerMultiprocessor fn(
        blocks: Out<i32>, function: Handle, block_size: i32, _shared: usize,
    ) {
        is_function(function)?;
        blocks.put(2048 / block_size.clamp(1, 2048))
    }

    cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags fn(
        blocks: Out<i32>, function: Handle, block_size: i32, _shared: usize, _flags: u32,
    ) {
        is_function(function)?;
        blocks.put(2048 / block_size.clamp(1, 2048))
    }

    cuOccupancyMaxPotentialBlockSize fn(
        grid: Out<i32>, block: Out<i32>, function: Handle, _shared_of: u64, _shared: usize, _limit: i32,
    ) {
        is_function(function)?;
        grid.put(264)?;
        block.put(1024)
    }
}
