//! The kernels' sources, compiled at first use.
//!
//! NVRTC compiles each source file once per process and architecture, straight to machine code, so
//! that the driver need not compile it again. Each device loads the code once, and unloads it when
//! the device is destroyed.
#![expect(unsafe_code, reason = "NVRTC's machine code has no safe wrapper")]

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use cudarc::driver::{CudaContext, CudaFunction, CudaModule};
use cudarc::nvrtc::{Ptx, result, sys};

use crate::error::{Error, Result};

use super::graph::expect_warm;

/// A source file in `kernels/cuda`.
#[derive(Debug)]
struct Family {
    file: &'static str,
    source: &'static str,
}

/// Generates the table of source files and of the kernels in each, by their names in the source.
macro_rules! families {
    ($($file:literal: $($kernel:ident = $name:literal),+;)+) => {
        static FAMILIES: &[Family] = &[$(Family {
            file: $file,
            source: concat!(
                include_str!("../../cuda/common.cuh"),
                "\n#line 1 \"",
                $file,
                "\"\n",
                include_str!(concat!("../../cuda/", $file)),
            ),
        }),+];

        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Kernel {
            $($($kernel),+),+
        }

        /// The file and the name of each kernel, in the order of the variants.
        const KERNELS: &[(&str, &str)] = &[$($(($file, $name)),+),+];
    };
}

families! {
    "pointwise.cu":
        Unary = "unary",
        UnaryStrided = "unary_strided",
        Binary = "binary",
        BinaryStrided = "binary_strided",
        AddAssign = "add_assign",
        OneToZero = "one_to_zero";
    "copy.cu":
        Copy4 = "copy_4",
        Copy8 = "copy_8";
    "reduce.cu":
        SumLines = "sum_lines",
        SumColumns = "sum_columns",
        SumParts = "sum_parts";
    "softmax.cu":
        Softmax = "softmax",
        SoftmaxBackward = "softmax_backward";
    "loss.cu":
        MseParts = "mse_parts",
        MseTotal = "mse_total",
        MseBackward = "mse_backward",
        Nll = "nll",
        CrossEntropyBackward = "cross_entropy_backward";
    "matmul.cu":
        Matmul = "matmul",
        Epilogue = "epilogue";
    "optimizer.cu":
        Sgd = "sgd",
        Adam = "adam";
}

/// The code that is loaded on one device.
#[derive(Debug)]
pub(super) struct Modules {
    functions: [OnceLock<CudaFunction>; KERNELS.len()],
    /// The loaded modules, by source file.
    modules: Mutex<HashMap<&'static str, Arc<CudaModule>>>,
}

impl Default for Modules {
    fn default() -> Self {
        Self {
            functions: [const { OnceLock::new() }; KERNELS.len()],
            modules: Mutex::default(),
        }
    }
}

impl Modules {
    /// Returns the kernel in a device's context, and loads it at its first use.
    pub(super) fn function(
        &self,
        kernel: Kernel,
        context: &Arc<CudaContext>,
    ) -> Result<&CudaFunction> {
        let place = &self.functions[kernel as usize];
        if let Some(function) = place.get() {
            return Ok(function);
        }
        let (file, name) = KERNELS[kernel as usize];
        expect_warm("the loading of a kernel at its first launch")?;
        let module = self.module(context, file)?;
        let function = module.load_function(name)?;
        Ok(place.get_or_init(|| function))
    }

    fn module(&self, context: &Arc<CudaContext>, file: &'static str) -> Result<Arc<CudaModule>> {
        let mut modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(module) = modules.get(file) {
            return Ok(Arc::clone(module));
        }
        let code = machine_code(file, context.compute_capability()?)?;
        let module = context.load_module(Ptx::from_binary(code.to_vec()))?;
        modules.insert(file, Arc::clone(&module));
        Ok(module)
    }
}

/// The machine code of a file, compiled once per process and architecture.
fn machine_code(file: &'static str, capability: (i32, i32)) -> Result<Arc<[u8]>> {
    type Compiled = HashMap<(&'static str, (i32, i32)), Arc<[u8]>>;
    static COMPILED: Mutex<Option<Compiled>> = Mutex::new(None);
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    let compiled = compiled.get_or_insert_default();
    if let Some(code) = compiled.get(&(file, capability)) {
        return Ok(Arc::clone(code));
    }
    let family = FAMILIES
        .iter()
        .find(|family| family.file == file)
        .expect("both tables come from one list");
    let code: Arc<[u8]> = compile(family, capability)?.into();
    compiled.insert((file, capability), Arc::clone(&code));
    Ok(code)
}

fn compile(family: &Family, (major, minor): (i32, i32)) -> Result<Vec<u8>> {
    let failed = |log: String| Error::Compile {
        source: family.file,
        log,
    };
    // SAFETY: the call only tries to open the library, whose initialisers are safe to run at any
    // time.
    if !unsafe { sys::is_culib_present() } {
        return Err(failed(
            "libnvrtc was not found; install it or add its directory to LD_LIBRARY_PATH".into(),
        ));
    }
    let source = CString::new(family.source).expect("a source never contains a NUL byte");
    let name = CString::new(family.file).expect("a file name never contains a NUL byte");
    let program = NvrtcProgram::new(&source, &name).map_err(|error| failed(error.to_string()))?;
    let options = [
        format!("--gpu-architecture=sm_{major}{minor}"),
        "--std=c++17".to_owned(),
    ];
    program.compile(&options).map_err(|error| {
        let log = program.log().unwrap_or_default();
        failed(format!("{error}\n{log}"))
    })?;
    program
        .machine_code()
        .map_err(|error| failed(error.to_string()))
}

/// An NVRTC program, destroyed when dropped.
struct NvrtcProgram(sys::nvrtcProgram);

impl NvrtcProgram {
    fn new(source: &CStr, name: &CStr) -> Result<Self, result::NvrtcError> {
        result::create_program(source, Some(name)).map(Self)
    }

    fn compile(&self, options: &[String]) -> Result<(), result::NvrtcError> {
        // SAFETY: the program was created in `new` and is destroyed only in `drop`.
        unsafe { result::compile_program(self.0, options) }
    }

    fn log(&self) -> Option<String> {
        // SAFETY: the program is alive as in `compile`.
        let log: Vec<c_char> = unsafe { result::get_program_log(self.0) }.ok()?;
        // Whether a `c_char` is signed depends on the platform.
        let bytes: Vec<u8> = log.iter().flat_map(|byte| byte.to_ne_bytes()).collect();
        let text = CStr::from_bytes_until_nul(&bytes).ok()?;
        Some(text.to_string_lossy().into_owned())
    }

    /// <https://docs.nvidia.com/cuda/nvrtc/index.html#_CPPv412nvrtcGetCUBIN12nvrtcProgramPc>
    fn machine_code(&self) -> Result<Vec<u8>, result::NvrtcError> {
        let mut size = 0;
        // SAFETY: the program is alive as in `compile`, and `size` outlives the call.
        unsafe { sys::nvrtcGetCUBINSize(self.0, &raw mut size) }.result()?;
        let mut code = vec![0_u8; size];
        // SAFETY: the program is alive as in `compile`, and `code` has the size that the previous
        // call returned.
        unsafe { sys::nvrtcGetCUBIN(self.0, code.as_mut_ptr().cast()) }.result()?;
        Ok(code)
    }
}

impl Drop for NvrtcProgram {
    fn drop(&mut self) {
        // SAFETY: the program was created in `new` and is not used after this. An error can be
        // ignored, because it only leaks a few kilobytes of host memory.
        let _ = unsafe { result::destroy_program(self.0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This test needs NVRTC, but no GPU.
    #[test]
    fn every_source_compiles_to_code_that_holds_its_kernels() -> Result<()> {
        // SAFETY: as in `compile`.
        if !unsafe { sys::is_culib_present() } {
            return Ok(());
        }
        for family in FAMILIES {
            for capability in [(8, 0), (9, 0)] {
                let code = compile(family, capability)?;
                let text = String::from_utf8_lossy(&code);
                for (_, name) in KERNELS.iter().filter(|(file, _)| *file == family.file) {
                    assert!(text.contains(&format!(".text.{name}\0")), "{name}");
                }
            }
        }
        Ok(())
    }

    #[test]
    fn every_kernel_is_in_the_source_of_its_family() {
        let found = FAMILIES.iter().flat_map(|family| {
            let words = family.source.split("__global__ void ").skip(1);
            words.filter_map(|rest| Some((family.file, rest.split_once('(')?.0)))
        });
        assert_eq!(found.collect::<Vec<_>>(), KERNELS);
    }
}
