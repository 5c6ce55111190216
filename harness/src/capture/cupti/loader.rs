//! Finding libcupti.
//!
//! Two copies of CUPTI in one process refuse each other, so a copy that is there already is the
//! one. Else `GPU_LEAK_CHECK_CUPTI` decides; else the usual places of the toolkit and of pip are
//! searched, the best fit for the driver first.

use std::cmp::Reverse;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use super::unavailable::Unavailable;
use super::version::CudaVersion;
use crate::device::dl;
use crate::order;

/// Names under which the loader may find it by itself.
const SONAMES: [&str; 4] = [
    "libcupti.so.13",
    "libcupti.so.12",
    "libcupti.so.11.8",
    "libcupti.so",
];

/// What decides where to look.
#[derive(Debug)]
pub(super) struct Surroundings {
    /// The shared libraries in the process.
    modules: Vec<PathBuf>,
    /// `GPU_LEAK_CHECK_CUPTI`
    chosen: Option<PathBuf>,
    /// Toolkits: `CUDA_HOME`, `CUDA_PATH`, conda's, and where installers put them.
    toolkits: Vec<PathBuf>,
    /// Prefixes of Python installations.
    pythons: Vec<PathBuf>,
    /// What the driver supports.
    pub(super) driver: CudaVersion,
}

impl Surroundings {
    /// Those of this process.
    pub(super) fn here(driver: CudaVersion) -> Self {
        let folder = |name| env::var_os(name).map(PathBuf::from);
        // Conda's packages make its prefix a toolkit.
        let mut toolkits: Vec<_> = ["CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX"]
            .into_iter()
            .filter_map(folder)
            .collect();
        toolkits.extend(newest_first(children(Path::new("/usr/local"), |name| {
            name.starts_with("cuda")
        })));
        toolkits.push(PathBuf::from("/opt/cuda"));

        let mut pythons: Vec<_> = ["VIRTUAL_ENV", "CONDA_PREFIX"]
            .into_iter()
            .filter_map(folder)
            .collect();
        pythons.extend(pythons_on_path());
        pythons.extend(folder("HOME").map(|home| home.join(".local")));
        Self {
            modules: dl::modules(),
            chosen: folder("GPU_LEAK_CHECK_CUPTI").filter(|path| !path.as_os_str().is_empty()),
            toolkits,
            pythons,
            driver,
        }
    }

    /// The copies of CUPTI to try, in turn.
    ///
    /// # Errors
    ///
    /// What is wrong with `GPU_LEAK_CHECK_CUPTI`.
    pub(super) fn candidates(&self) -> Result<Vec<PathBuf>, Unavailable> {
        if let Some(loaded) = self.modules.iter().find(|module| is_cupti(module)) {
            return Ok(vec![loaded.clone()]);
        }
        if let Some(chosen) = &self.chosen {
            return match self.resolve(chosen) {
                Ok(file) => Ok(vec![file]),
                Err(why) => Err(Unavailable::BadOverride {
                    value: chosen.clone(),
                    why: why.to_owned(),
                }),
            };
        }
        let folders = self.folders();
        let files = folders.iter().flat_map(|folder| cuptis_in(folder));
        let mut candidates = self.best_first(files.collect());
        // The last ones are left to the loader.
        candidates.extend(self.best_first(SONAMES.map(PathBuf::from).to_vec()));
        Ok(candidates)
    }

    /// `GPU_LEAK_CHECK_CUPTI`, if it is what led to this candidate.
    pub(super) fn chosen(&self, candidate: &Path) -> Option<PathBuf> {
        let in_process = self.modules.iter().any(|module| module == candidate);
        self.chosen.clone().filter(|_| !in_process)
    }

    /// What `GPU_LEAK_CHECK_CUPTI` means: a file, or the best one in a folder.
    fn resolve(&self, chosen: &Path) -> Result<PathBuf, &'static str> {
        if chosen.is_dir() {
            let found = self.best_first(cuptis_in(chosen)).into_iter().next();
            return found.ok_or("this folder has no libcupti.so");
        }
        if chosen.is_file() {
            return Ok(chosen.to_owned());
        }
        Err("there is no such file or folder")
    }

    /// The folders to search, without repetition, in the order in which they decide between equals.
    pub(super) fn folders(&self) -> Vec<PathBuf> {
        let mut folders = Vec::new();
        for module in &self.modules {
            if is_cuda_library(module)
                && let Some(folder) = module.parent()
            {
                folders.extend(beside(folder));
            }
        }
        for toolkit in &self.toolkits {
            folders.push(toolkit.join("extras/CUPTI/lib64"));
            folders.push(toolkit.join("lib64"));
            folders.push(toolkit.join("lib"));
        }
        for python in &self.pythons {
            for packages in site_packages(python) {
                folders.push(packages.join("nvidia/cu13/lib"));
                folders.push(packages.join("nvidia/cuda_cupti/lib"));
            }
        }
        let mut unique = Vec::new();
        for folder in folders {
            if folder.is_dir() && !unique.contains(&folder) {
                unique.push(folder);
            }
        }
        unique
    }

    /// The driver's own major version first, then older ones, which a newer driver accepts too,
    /// then newer ones, which it probably refuses; the newest of each first.
    fn best_first(&self, mut files: Vec<PathBuf>) -> Vec<PathBuf> {
        let driver = self.driver.major();
        order::by_key(&mut files, |file| {
            let misfit = match major(file) {
                Some(major) if major == driver => 0,
                Some(major) if major < driver => 1,
                None => 2,
                Some(_) => 3,
            };
            let real = file.canonicalize();
            let version = numbers(real.as_deref().unwrap_or(file));
            (misfit, Reverse(major(file)), Reverse(version))
        });
        files
    }
}

fn is_cupti(path: &Path) -> bool {
    file_name(path).starts_with("libcupti.so")
}

/// Whether a module in the process comes with the toolkit: CUPTI is then near it.
fn is_cuda_library(path: &Path) -> bool {
    ["libcudart.so", "libcublas.so", "libnvrtc.so"]
        .iter()
        .any(|name| file_name(path).starts_with(name))
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// Where CUPTI is when a library of the toolkit is in `folder`: the same folder (conda, pip for
/// CUDA 13), a toolkit's extras, or pip's neighbour package.
fn beside(folder: &Path) -> Vec<PathBuf> {
    let mut folders = vec![folder.to_owned()];
    if let Some(parent) = folder.parent() {
        folders.push(parent.join("extras/CUPTI/lib64"));
        // `targets/x86_64-linux/lib` in a toolkit.
        folders.extend(
            parent
                .ancestors()
                .nth(2)
                .map(|toolkit| toolkit.join("extras/CUPTI/lib64")),
        );
        folders.extend(parent.parent().map(|nvidia| nvidia.join("cuda_cupti/lib")));
    }
    folders
}

/// The files of CUPTI in a folder. Of several links to one file, that which names the CUDA version:
/// `libcupti.so` and `libcupti.so.12` both lead to `libcupti.so.2024.1.1`.
fn cuptis_in(folder: &Path) -> Vec<PathBuf> {
    let mut files = children(folder, |name| name.starts_with("libcupti.so"));
    order::by_key(&mut files, |file| (major(file).is_none(), file.clone()));
    let mut seen = Vec::new();
    files.retain(|file| match file.canonicalize() {
        Ok(real) if !seen.contains(&real) => {
            seen.push(real);
            true
        }
        // A link to nothing, or to a file that has been named.
        _ => false,
    });
    files
}

/// The CUDA major version that a file's name tells; one that is a year tells none.
fn major(file: &Path) -> Option<u32> {
    let first = numbers(file).first().copied();
    first.filter(|major| *major < 1000)
}

/// The numbers behind `.so` in a file's name.
fn numbers(file: &Path) -> Vec<u32> {
    let name = file_name(file);
    let tail = name.split_once(".so").map_or("", |(_, tail)| tail);
    tail.split('.')
        .filter_map(|number| number.parse().ok())
        .collect()
}

/// The entries of a folder whose names `wanted` likes; none if it cannot be read.
fn children(folder: &Path, wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    paths.filter(|path| wanted(&file_name(path))).collect()
}

/// `/usr/local/cuda` (a link to the one in use) first, then `cuda-13.0`, `cuda-12.8`, …
fn newest_first(mut toolkits: Vec<PathBuf>) -> Vec<PathBuf> {
    order::by_key(&mut toolkits, |path| {
        let name = file_name(path);
        let version: Vec<u32> = name
            .trim_start_matches("cuda-")
            .split('.')
            .filter_map(|number| number.parse().ok())
            .collect();
        (name != "cuda", Reverse(version))
    });
    toolkits
}

/// The prefixes of the `python3` that stand on `PATH`, as named and as what they link to.
fn pythons_on_path() -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut prefixes = Vec::new();
    for folder in env::split_paths(&path) {
        let python = folder.join("python3");
        if python.is_file() {
            let named = Some(python.clone());
            for python in named.into_iter().chain(python.canonicalize().ok()) {
                prefixes.extend(python.ancestors().nth(2).map(Path::to_owned));
            }
        }
    }
    prefixes
}

/// The folders of installed packages of a Python with this prefix.
fn site_packages(prefix: &Path) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for lib in ["lib", "lib64"].map(|lib| prefix.join(lib)) {
        for python in children(&lib, |name| name.starts_with("python3")) {
            folders.push(python.join("site-packages"));
            folders.push(python.join("dist-packages"));
        }
    }
    folders
}

#[cfg(all(test, unix))]
mod tests;
