use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::{CudaVersion, Surroundings};

/// A folder of its own for one test, gone afterwards.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Makes an empty file, and returns its path.
    fn file(&self, path: &str) -> PathBuf {
        let file = self.path().join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "").unwrap();
        file
    }

    /// Makes a link beside its target, and returns its path.
    fn link(&self, path: &str, target: &str) -> PathBuf {
        let link = self.path().join(path);
        symlink(target, &link).unwrap();
        link
    }
}

/// Nothing in the process and nowhere to look, with a driver for this major version.
fn nowhere(major: u32) -> Surroundings {
    Surroundings {
        modules: Vec::new(),
        chosen: None,
        toolkits: Vec::new(),
        pythons: Vec::new(),
        driver: CudaVersion(major * 1000),
    }
}

fn chosen(path: &Path) -> Surroundings {
    Surroundings {
        chosen: Some(path.to_owned()),
        ..nowhere(13)
    }
}

fn sonames(candidates: &[PathBuf]) -> Vec<&Path> {
    let bare = |path: &&Path| path.parent() == Some(Path::new(""));
    candidates
        .iter()
        .map(PathBuf::as_path)
        .filter(bare)
        .collect()
}

#[test]
fn a_copy_in_the_process_is_the_only_candidate() {
    let surroundings = Surroundings {
        modules: ["/lib/libc.so.6", "/opt/x/libcupti.so.12"]
            .map(PathBuf::from)
            .to_vec(),
        ..chosen(Path::new("/nowhere"))
    };
    let loaded = PathBuf::from("/opt/x/libcupti.so.12");
    assert_eq!(surroundings.candidates(), Ok(vec![loaded.clone()]));
    assert_eq!(surroundings.chosen(&loaded), None);
}

#[test]
fn a_toolkit_s_extras_are_searched_and_links_are_one_copy() {
    let folder = Folder::new();
    let dir = "extras/CUPTI/lib64";
    folder.file(&format!("{dir}/libcupti.so.2024.1.1"));
    let soname = folder.link(&format!("{dir}/libcupti.so.12"), "libcupti.so.2024.1.1");
    folder.link(&format!("{dir}/libcupti.so"), "libcupti.so.12");
    let surroundings = Surroundings {
        toolkits: vec![folder.path().to_owned()],
        ..nowhere(12)
    };
    assert_eq!(surroundings.folders(), [folder.path().join(dir)]);
    let candidates = surroundings.candidates().unwrap();
    assert_eq!(candidates[0], soname);
    assert_eq!(sonames(&candidates), candidates[1..].to_vec());
}

#[test]
fn pip_s_packages_are_searched() {
    let folder = Folder::new();
    let packages = "lib/python3.12/site-packages/nvidia";
    let new = folder.file(&format!("{packages}/cu13/lib/libcupti.so.13"));
    let old = folder.file(&format!("{packages}/cuda_cupti/lib/libcupti.so.12"));
    let surroundings = |major| Surroundings {
        pythons: vec![folder.path().to_owned()],
        ..nowhere(major)
    };
    assert_eq!(
        surroundings(13).candidates().unwrap()[..2],
        [new.clone(), old.clone()]
    );
    assert_eq!(surroundings(12).candidates().unwrap()[..2], [old, new]);
}

#[test]
fn libraries_of_cuda_in_the_process_tell_where_cupti_is() {
    let folder = Folder::new();
    let toolkit = folder.file("cuda/extras/CUPTI/lib64/libcupti.so.13");
    let pip = folder.file("nvidia/cuda_cupti/lib/libcupti.so.12");
    let conda = folder.file("conda/lib/libcupti.so.11.8");
    for (module, expected) in [
        ("cuda/lib64/libcudart.so.13", &toolkit),
        ("cuda/targets/x86_64-linux/lib/libcublas.so.13", &toolkit),
        ("nvidia/cublas/lib/libcublas.so.12", &pip),
        ("conda/lib/libnvrtc.so.11.2", &conda),
    ] {
        let surroundings = Surroundings {
            modules: vec![folder.file(module)],
            ..nowhere(13)
        };
        assert_eq!(&surroundings.candidates().unwrap()[0], expected, "{module}");
    }
}

#[test]
fn the_best_fit_for_the_driver_comes_first() {
    let folder = Folder::new();
    let mut files = Vec::new();
    for (name, real) in [
        ("a/lib64/libcupti.so.11.8", "libcupti.so.2022.3.0"),
        ("b/lib64/libcupti.so.12", "libcupti.so.2023.1.1"),
        ("c/lib64/libcupti.so.12", "libcupti.so.2025.1.0"),
        ("d/lib64/libcupti.so.13", "libcupti.so.2025.3.1"),
    ] {
        let parent = Path::new(name).parent().unwrap().display().to_string();
        folder.file(&format!("{parent}/{real}"));
        files.push(folder.link(name, real));
    }
    let order = |major| {
        let surroundings = Surroundings {
            toolkits: ["a", "b", "c", "d"]
                .map(|name| folder.path().join(name))
                .to_vec(),
            ..nowhere(major)
        };
        let candidates = surroundings.candidates().unwrap();
        let place = |file: &PathBuf| files.iter().position(|other| other == file);
        candidates.iter().filter_map(place).collect::<Vec<_>>()
    };
    assert_eq!(order(13), [3, 2, 1, 0]);
    assert_eq!(order(12), [2, 1, 0, 3]);
}

#[test]
fn the_loader_s_own_folders_are_asked_in_the_driver_s_order() {
    let names = [
        "libcupti.so.12",
        "libcupti.so.11.8",
        "libcupti.so",
        "libcupti.so.13",
    ];
    let candidates = nowhere(12).candidates().unwrap();
    assert_eq!(candidates, names.map(PathBuf::from));
}

#[test]
fn the_chosen_one_may_be_a_file_or_a_folder_and_is_the_only_candidate() {
    let folder = Folder::new();
    let file = folder.file("mine/libcupti.so.12");
    for value in [file.as_path(), file.parent().unwrap()] {
        let surroundings = chosen(value);
        assert_eq!(surroundings.candidates(), Ok(vec![file.clone()]));
        assert_eq!(surroundings.chosen(&file).as_deref(), Some(value));
    }
}

#[test]
fn a_wrong_choice_is_an_error_of_its_own() {
    let folder = Folder::new();
    for (value, expected) in [
        (folder.path().to_owned(), "this folder has no libcupti.so"),
        (folder.path().join("no"), "there is no such file or folder"),
    ] {
        let why = chosen(&value).candidates().unwrap_err();
        assert_eq!(why.code().name(), "cupti-override");
        assert!(why.what().ends_with(expected), "{why}");
    }
}
