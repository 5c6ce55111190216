//! The library that took something: what stands in a stack between the driver and the user's code.

use super::libraries::{self, Sort};
use super::model::{Frame, Known, Library, Owner};
use crate::judge::known;

/// The library in `frames`, those outside the capture, that holds what was taken there.
///
/// Of NVIDIA's libraries that call each other, the one that was called from outside: of cuBLASLt
/// inside cuBLAS inside cuDNN, cuDNN. Only what lies before the first frame of the user's or a
/// crate's counts: further out, a library has called back.
pub(super) fn library(frames: &[Frame]) -> Option<Library> {
    let inner = frames
        .iter()
        .take_while(|frame| !matches!(frame.owner, Owner::User | Owner::Dependency))
        .filter_map(|frame| Some((frame, of(frame)?)))
        .filter(|(_, library)| library.sort != Sort::Way);
    let inner: Vec<_> = inner.collect();
    let (_, first) = inner.first()?;
    let same = inner
        .iter()
        .take_while(|(_, library)| match first.sort {
            Sort::Nvidia => library.sort == Sort::Nvidia,
            _ => library.name == first.name,
        })
        .count();
    let (entry, holder) = inner[same - 1];
    let caller = inner.get(same).map(|(_, caller)| caller.name.to_owned());
    // A mangled name is not what anybody called.
    let function = entry
        .function
        .clone()
        .filter(|name| !name.starts_with("_Z"));
    let fact = known::fact(holder.name, function.as_deref().unwrap_or_default());
    Some(Library {
        name: holder.name.to_owned(),
        known: fact.map(|fact| Known {
            table: known::VERSION,
            row: fact.row.to_owned(),
            says: fact.says.to_owned(),
        }),
        function,
        file: entry.module.clone(),
        called_by: caller,
    })
}

/// The library that a frame is in.
fn of(frame: &Frame) -> Option<&'static libraries::Library> {
    let by_file = frame.module.as_deref().and_then(libraries::of_file);
    by_file.or_else(|| {
        // Linked into the program, it has no sources.
        let function = frame.function.as_deref().filter(|_| frame.file.is_none());
        function.and_then(libraries::of_function)
    })
}

#[cfg(test)]
mod tests {
    use super::{Frame, Library, Owner, library};

    fn of(frames: &[(Owner, &str, &str)]) -> Option<Library> {
        let frame = |(owner, module, function): &(Owner, &str, &str)| Frame {
            module: (!module.is_empty()).then(|| (*module).to_owned()),
            function: (!function.is_empty()).then(|| (*function).to_owned()),
            owner: *owner,
            ..Frame::default()
        };
        library(&frames.iter().map(frame).collect::<Vec<_>>())
    }

    const USER: (Owner, &str, &str) = (Owner::User, "train", "train::step");
    const DRIVER: (Owner, &str, &str) = (Owner::Cuda, "libcuda.so.1", "cuMemAlloc_v2");

    #[test]
    fn the_library_and_the_function_that_was_called_are_named() {
        let found = of(&[
            DRIVER,
            (Owner::Cuda, "libcublasLt.so.13", ""),
            (Owner::Cuda, "libcublas.so.13.0.0.19", ""),
            (Owner::Cuda, "libcublas.so.13.0.0.19", "cublasCreate_v2"),
            USER,
        ]);
        let found = found.expect("a library");
        assert_eq!(found.name, "cuBLAS");
        assert_eq!(found.function.as_deref(), Some("cublasCreate_v2"));
        assert_eq!(found.file.as_deref(), Some("libcublas.so.13.0.0.19"));
        assert_eq!(found.called_by, None);
        let says = found.known.expect("a row of the table").says;
        assert!(says.contains("cublasDestroy"), "{says}");
    }

    #[test]
    fn a_framework_is_named_as_the_caller() {
        let found = of(&[
            DRIVER,
            (Owner::Cuda, "libcublas-1a2b3c4d.so.12", "cublasCreate_v2"),
            (Owner::Native, "libtorch_cuda.so", "_ZN2at4cuda6handleEv"),
            (Owner::Native, "libtorch_cpu.so", ""),
            USER,
        ]);
        let found = found.expect("a library");
        assert_eq!(
            (&*found.name, found.called_by.as_deref()),
            ("cuBLAS", Some("libtorch"))
        );
        let found = of(&[DRIVER, (Owner::Native, "libc10_cuda.so", "_ZN3c10Ev"), USER]);
        let found = found.expect("a library");
        assert_eq!((&*found.name, found.function), ("libtorch", None));
    }

    #[test]
    fn the_driver_and_what_lies_behind_the_user_s_code_hold_nothing() {
        assert_eq!(of(&[DRIVER, USER]), None);
        let called_back = (Owner::Cuda, "libcublas.so.13", "cublasSgemm_v2");
        assert_eq!(of(&[DRIVER, USER, called_back, USER]), None);
    }
}
