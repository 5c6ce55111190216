//! The separate workspaces, which `cargo test` does not compile. Their lock files contain the
//! dependencies of this project's packages, and the renderers' fuzz target compiles all files that
//! the renderers use.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::{COMMAND, all_files, code, files, floors, is_product, named, read, root};

/// The packages that other packages depend on, with their directories.
const PACKAGES: [(&str, &str); 6] = [
    ("gpu-leak-check", "harness"),
    ("gpu-leak-check-macros", "macros"),
    ("gpu-leak-check-options", "harness/options"),
    ("gpu-leak-core", "harness/core"),
    ("gpu-leak-holders", "harness/holders"),
    ("gpu-leak-interpose", "harness/interpose"),
];

/// Returns the packages that are dependencies in a manifest.
fn needed(manifest: &str) -> BTreeSet<&str> {
    let sections = manifest.split("\n[").filter(|section| {
        let title = section.lines().next().unwrap_or_default();
        title.ends_with("dependencies]") && !title.contains("dev-dependencies")
    });
    let lines = sections.flat_map(|section| section.lines().skip(1));
    let names = lines.filter_map(|line| line.split(['.', ' ']).next());
    names.filter(|name| name.starts_with("gpu-leak-")).collect()
}

/// Returns the dependencies of `package` in a lock file, or `None` if the file does not contain
/// `package`.
fn locked<'lock>(lock: &'lock str, package: &str) -> Option<BTreeSet<&'lock str>> {
    let head = format!("name = \"{package}\"\n");
    let entry = lock
        .split("[[package]]\n")
        .find(|entry| entry.starts_with(&head))?;
    let (_, list) = entry.split_once("dependencies = [").unwrap_or_default();
    let names = list.split('"').skip(1).step_by(2);
    Some(names.filter(|name| name.starts_with("gpu-leak-")).collect())
}

#[test]
fn every_lock_file_has_what_the_manifests_say() {
    let locks = all_files(&root()).into_iter();
    let locks: Vec<_> = locks.filter(|path| path.ends_with("Cargo.lock")).collect();
    assert!(locks.len() > 5, "{locks:?}");
    let mut stale = Vec::new();
    for path in &locks {
        let lock = fs::read_to_string(path).expect("a file");
        for (package, directory) in PACKAGES {
            let manifest = read(&format!("{directory}/Cargo.toml"));
            let Some(locked) = locked(&lock, package) else {
                continue;
            };
            // The workspace's own lock file also contains what the tests need.
            let missing: Vec<_> = needed(&manifest)
                .difference(&locked)
                .map(|it| (*it).to_owned())
                .collect();
            if !missing.is_empty() {
                stale.push(format!("{}: {package} needs {missing:?}", path.display()));
            }
        }
    }
    assert!(
        stale.is_empty(),
        "run `cargo metadata --manifest-path …/Cargo.toml`, which writes the lock file again:\n{}",
        stale.join("\n")
    );
}

#[test]
fn the_fuzz_target_of_the_renderers_compiles_all_that_they_use() {
    const TARGET: &str = "fuzz/fuzz_targets/renderers.rs";
    let target = read(TARGET);
    let is_compiled = |module: &str| target.contains(&format!("\nmod {module};"));
    assert!(is_compiled("render"));
    let (modules, sources) = (floors(&COMMAND), root().join(COMMAND.directory));
    let mut missing = BTreeSet::new();
    for path in files(&sources) {
        let inside = path.strip_prefix(&sources).expect("below it");
        let module = Path::new(inside.iter().next().expect("a name")).with_extension("");
        if !is_compiled(module.to_str().expect("text")) || !is_product(inside) {
            continue;
        }
        for used in named(
            &code(&fs::read_to_string(&path).expect("a file")),
            "crate::",
        ) {
            if modules.contains_key(&used) && !is_compiled(&used) {
                missing.insert(format!("{used}, which {} uses", inside.display()));
            }
        }
    }
    assert!(missing.is_empty(), "{TARGET} does not compile {missing:?}");
}

#[test]
fn the_fuzz_target_of_the_attribute_compiles_every_module_of_the_macros() {
    let modules = |file: &str| -> BTreeSet<String> {
        let text = read(file);
        let names = text.lines().filter_map(|line| line.strip_prefix("mod "));
        let names = names.filter_map(|line| line.strip_suffix(';'));
        names.map(str::to_owned).collect()
    };
    let mut compiled = modules("fuzz/fuzz_targets/attribute.rs");
    compiled.insert("tests".to_owned());
    assert_eq!(compiled, modules("macros/src/lib.rs"));
}
