//! The structure of the repository is as documented:
//! - ARCHITECTURE.md and the tables of floors at the top of the core, of a check, of the command
//!   and of the kernels are correct. Every module is in its table and imports only from below,
//!   every package is named, and every path exists.
//! - No files of a directory import each other.
//! - Every file belongs to a program, because a test in any other file would never run.
//! - Every option of the attribute is documented where users look for it.
//! - The address of the repository is that in Cargo.toml everywhere.
//! - Separate workspaces agree with this one.

mod separate;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Where the table's second column begins.
const COLUMN: usize = 31;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).expect(path)
}

/// A directory whose modules are arranged in floors.
struct House {
    /// The page or the source file whose first text block is the table of floors.
    page: &'static str,
    directory: &'static str,
    /// The prefixes of paths to the modules: from anywhere, and from the modules themselves.
    prefixes: [&'static str; 2],
}

const HARNESS: House = House {
    page: "ARCHITECTURE.md",
    directory: "harness/src",
    prefixes: ["crate::", "crate::"],
};
const CORE: House = House {
    page: "harness/core/src/lib.rs",
    directory: "harness/core/src",
    prefixes: ["crate::", "crate::"],
};
const CHECK: House = House {
    page: "harness/src/check/mod.rs",
    directory: "harness/src/check",
    prefixes: ["crate::check::", "super::"],
};

const COMMAND: House = House {
    page: "cli/src/main.rs",
    directory: "cli/src",
    prefixes: ["crate::", "crate::"],
};

const KERNELS: House = House {
    page: "kernels/src/lib.rs",
    directory: "kernels/src",
    prefixes: ["crate::", "crate::"],
};

/// Returns the floor of each module of `house`. A line of the table that begins with a number
/// begins the floor with that number; the ground floor is 1.
fn floors(house: &House) -> BTreeMap<String, usize> {
    let page = read(house.page);
    let tables = page.split("```text\n").skip(1);
    let table = tables.filter_map(|table| table.split("```").next()).last();
    let mut floor = 0;
    let mut floors = BTreeMap::new();
    for line in table.expect("a table").lines() {
        let line = line.strip_prefix("//! ").unwrap_or(line);
        let names: String = line.chars().take(COLUMN).collect();
        for name in names.split_whitespace() {
            match name.parse() {
                Ok(number) => floor = number,
                Err(_) => _ = floors.insert(name.to_owned(), floor),
            }
        }
    }
    floors
}

/// Returns the Rust files below `directory`.
fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).expect("a directory").flatten();
    let paths = entries.map(|entry| entry.path());
    paths
        .flat_map(|path| match path.extension() {
            _ if path.ends_with("target") || path.ends_with(".git") => Vec::new(),
            _ if path.is_dir() => files(&path),
            Some(extension) if extension == "rs" => vec![path],
            _ => Vec::new(),
        })
        .collect()
}

/// Returns the files that are compiled as part of `path`, wherever they are.
fn compiled_with(path: &Path) -> Vec<PathBuf> {
    let text = fs::read_to_string(path).expect("a file");
    let directory = path.parent().expect("a directory");
    let named = text.lines().filter_map(|line| {
        let declared = line.trim().strip_suffix(';')?;
        let (before, name) = declared.rsplit_once("mod ").unwrap_or(("//", ""));
        (before.is_empty() || before.starts_with("pub")).then_some(name)
    });
    let inside = path.with_extension("");
    let named = named.flat_map(|name| {
        let face = Path::new(name).join("mod.rs");
        [directory, &inside].map(|base| [base.join(name).with_extension("rs"), base.join(&face)])
    });
    let pointed_at = ["path = \"", "include!(\""];
    let pointed_at = pointed_at
        .iter()
        .flat_map(|begin| text.split(begin).skip(1));
    let pointed_at =
        pointed_at.map(|after| directory.join(after.split('"').next().unwrap_or(after)));
    named.flatten().chain(pointed_at).collect()
}

/// Whether cargo treats a file as the root of a program or library.
fn is_a_target(path: &Path) -> bool {
    let directory = path.parent().expect("a directory");
    let stem = path.file_stem().and_then(|stem| stem.to_str());
    let is_found_by_cargo = ["tests", "benches"]
        .iter()
        .any(|name| directory.ends_with(name))
        && directory.with_file_name("Cargo.toml").is_file()
        && !directory.join("Cargo.toml").is_file();
    let is_listed = || {
        let manifest = directory.ancestors().map(|above| above.join("Cargo.toml"));
        let manifest = manifest.into_iter().find(|path| path.is_file());
        let manifest = manifest.expect("a package");
        let inside = path.strip_prefix(manifest.parent().expect("a directory"));
        let inside = inside.expect("below it").display().to_string();
        let manifest = fs::read_to_string(manifest).expect("a file");
        manifest.contains(&format!("path = \"{inside}\""))
    };
    matches!(stem, Some("lib" | "main" | "build")) || is_found_by_cargo || is_listed()
}

/// Whether a file is compiled into the library. Tests and fuzz targets may import from anywhere.
fn is_product(path: &Path) -> bool {
    let mut parts = path.iter().filter_map(|part| part.to_str());
    !parts.any(|part| matches!(part, "tests" | "tests.rs" | "fuzz.rs"))
}

/// Returns the code of `text` before its tests, without comments.
fn code(text: &str) -> String {
    let code = text.split("\nmod tests {").next();
    let code = code.unwrap_or_default().lines();
    let code: Vec<_> = code
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect();
    code.join("\n")
}

/// Returns the modules that `code` names after `prefix`, including those in
/// `use crate::{one, other}`.
fn named(code: &str, prefix: &str) -> Vec<String> {
    let identifier = |text: &str| -> String {
        let is_of_name = |letter: &char| letter.is_alphanumeric() || *letter == '_';
        text.trim_start().chars().take_while(is_of_name).collect()
    };
    let mut names = Vec::new();
    // A macro names the surface as `$crate` for its expansions, which is not an import.
    let code = code.replace("$crate::", "");
    for after in code.split(prefix).skip(1) {
        match after.strip_prefix('{') {
            None => names.push(identifier(after)),
            Some(list) => {
                let list = list.split(';').next().unwrap_or_default();
                names.extend(list.split(',').map(identifier));
            }
        }
    }
    names
}

/// Returns the names that the surface of `house` imports from other packages for its modules.
fn from_elsewhere(house: &House) -> Vec<String> {
    let faces = ["lib.rs", "main.rs", "mod.rs"].map(|face| root().join(house.directory).join(face));
    let faces = faces
        .iter()
        .filter_map(|face| fs::read_to_string(face).ok());
    faces
        .flat_map(|face| named(&code(&face), "use gpu_leak_core::"))
        .collect()
}

/// Returns the modules of `house` that have no floor, or import from their own floor or above.
fn wrong(house: &House) -> Vec<String> {
    let floors = floors(house);
    let surface = floors.values().copied().max().unwrap_or_default();
    let sources = root().join(house.directory);
    let elsewhere = from_elsewhere(house);
    let mut wrong = Vec::new();
    for path in files(&sources) {
        let inside = path.strip_prefix(&sources).expect("below it");
        let module = inside.iter().next().expect("a name");
        let module = Path::new(module).file_stem().expect("a name");
        let module = module.to_str().expect("text");
        let is_the_face = inside == Path::new("mod.rs");
        if is_the_face || !is_product(inside) {
            continue;
        }
        let Some(floor) = floors.get(module) else {
            wrong.push(format!("{module} has no floor"));
            continue;
        };
        let is_module = inside.iter().count() == 1 || inside.ends_with(format!("{module}/mod.rs"));
        let prefix = house.prefixes[usize::from(is_module)];
        for name in named(&code(&fs::read_to_string(&path).expect("a file")), prefix) {
            match floors.get(name.trim_start_matches("__")) {
                Some(other) if other < floor || name == module => {}
                // Only the surface may name items that are on no floor, because they are its own.
                None if *floor == surface || elsewhere.contains(&name) => {}
                _ => wrong.push(format!("{} imports {name}", inside.display())),
            }
        }
    }
    wrong
}

#[test]
fn each_floor_of_the_harness_imports_only_from_below() {
    let wrong = wrong(&HARNESS);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_floor_of_the_core_imports_only_from_below() {
    let wrong = wrong(&CORE);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_floor_of_a_check_imports_only_from_below() {
    let wrong = wrong(&CHECK);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A reader cannot keep more than five floors in mind.
#[test]
fn the_harness_has_at_most_five_floors() {
    for house in [HARNESS, CORE, CHECK] {
        assert!(floors(&house).values().max() <= Some(&5), "{}", house.page);
    }
}

#[test]
fn each_floor_of_the_command_imports_only_from_below() {
    let wrong = wrong(&COMMAND);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_floor_of_the_kernels_imports_only_from_below() {
    let wrong = wrong(&KERNELS);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns the files of a directory that import each other, directly or through others of them, and
/// what each imports.
fn circles(directory: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let entries = fs::read_dir(directory).expect("a directory").flatten();
    let files = entries.map(|entry| entry.path()).filter(|path| {
        let is_other = ["mod.rs", "lib.rs", "main.rs", "tests.rs", "fuzz.rs"]
            .iter()
            .any(|other| path.ends_with(other));
        path.extension().is_some_and(|end| end == "rs") && !is_other
    });
    let imports = files.map(|path| {
        let name = path.file_stem().expect("a name").display().to_string();
        let code = code(&fs::read_to_string(&path).expect("a file"));
        let mut imported = BTreeSet::from_iter(named(&code, "super::"));
        imported.remove(&name);
        (name, imported)
    });
    let mut left: BTreeMap<_, _> = imports.collect();
    // A file that imports none of the others, or only such files, is part of no circle.
    loop {
        let names: BTreeSet<String> = left.keys().cloned().collect();
        left.retain(|_, imported| {
            imported.retain(|name| names.contains(name));
            !imported.is_empty()
        });
        if left.len() == names.len() {
            return left;
        }
    }
}

#[test]
fn no_files_of_a_directory_import_each_other() {
    // Resolves the `..` in the path of the root, because the directory before it is `tests`, by
    // which `is_product` excludes files.
    let root = fs::canonicalize(root()).expect("the root");
    let packages = ["harness", "kernels", "macros", "cli", "probes"];
    let files = packages
        .iter()
        .flat_map(|package| files(&root.join(package)));
    let files = files.filter(|path| {
        let inside = path.strip_prefix(&root).expect("below the root");
        is_product(inside) && inside.iter().any(|part| part == "src")
    });
    let directories: BTreeSet<_> = files.map(|path| path.with_file_name("")).collect();
    assert!(directories.len() > 50, "{}", directories.len());
    for directory in directories {
        let circles = circles(&directory);
        assert!(circles.is_empty(), "{}: {circles:?}", directory.display());
    }
}

#[test]
fn every_floor_exists() {
    for house in [HARNESS, CORE, CHECK, COMMAND, KERNELS] {
        let sources = root().join(house.directory);
        for name in floors(&house).keys() {
            let module = sources.join(name);
            let is_there = module.is_dir() || module.with_extension("rs").is_file();
            assert!(is_there, "{name} is on no floor any more");
        }
    }
}

#[test]
fn every_file_is_compiled() {
    let root = root().canonicalize().expect("the workspace");
    let all = files(&root);
    let known = all.iter().flat_map(|path| compiled_with(path));
    let known: BTreeSet<_> = known.filter_map(|path| path.canonicalize().ok()).collect();
    // The compiler gets the files in `tests/ui` separately, and reports only quote those in
    // `fixtures`.
    let apart = ["tests/ui", "tests/output/fixtures"].map(|directory| root.join(directory));
    let is_apart = |path: &Path| apart.iter().any(|directory| path.starts_with(directory));
    let orphans: Vec<_> = all
        .iter()
        .filter(|path| !is_a_target(path) && !is_apart(path))
        .filter(|path| path.canonicalize().is_ok_and(|path| !known.contains(&path)))
        .collect();
    assert!(orphans.is_empty(), "{orphans:#?}");
}

#[test]
fn every_path_exists() {
    let page = ["ARCHITECTURE.md", "CONTRIBUTING.md", "tests/README.md"]
        .map(read)
        .join("\n");
    let quoted = page.split('`').skip(1).step_by(2);
    let paths = quoted.filter(|path| path.contains('/') && !path.contains([' ', '\n']));
    let bases = [
        "",
        "harness",
        "harness/src",
        "harness/core/src",
        "kernels/src",
        "tests",
    ]
    .map(|base| root().join(base));
    let missing: Vec<_> = paths
        .filter(|path| !bases.iter().any(|base| base.join(path).exists()))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_package_is_named() {
    let page = read("ARCHITECTURE.md");
    let workspace = read("Cargo.toml");
    let (_, members) = workspace.split_once("members = [").expect("members");
    let (members, _) = members.split_once(']').expect("their end");
    for member in members.split('"').skip(1).step_by(2) {
        let directory = member.strip_prefix("tests/fake-driver/");
        let directory = directory.map_or(member, |_| "tests/fake-driver");
        assert!(page.contains(&format!("| `{directory}/` |")), "{member}");
    }
}

macro_rules! names {
    ($($group:ident {
        $($(#[$doc:meta])* $name:ident: $kind:ident = $example:literal,)*
    })*) => {
        [$($(stringify!($name)),*),*]
    };
}

#[test]
fn every_option_is_documented() {
    let mut options = gpu_leak_check_options::options!(names).to_vec();
    options.extend(["allow", "crate"]);
    assert!(options.len() > 10, "{options:?}");
    let (attribute, page) = (read("harness/src/lib.rs"), read("docs/configuration.md"));
    for option in options {
        let row = attribute.lines().filter(|line| line.starts_with("/// | ["));
        let is_reported = row
            .into_iter()
            .any(|row| row.contains(&format!("`{option}`")));
        assert!(is_reported, "harness/src/lib.rs has no row of `{option}`");
        let cells = ["`", " =", "("].map(|next| format!("| `{option}{next}"));
        let is_reported = cells.iter().any(|cell| page.contains(cell));
        assert!(
            is_reported,
            "docs/configuration.md has no row of `{option}`"
        );
    }
}

const REPOSITORY: &str = env!("CARGO_PKG_REPOSITORY");

/// The addresses of the packages, which do not depend on that of the repository.
const REGISTRIES: [&str; 2] = [
    "https://crates.io/crates/gpu-leak",
    "https://docs.rs/gpu-leak",
];

/// Returns the addresses in `text` that are meant to be this project's.
fn own_addresses(text: &str) -> impl Iterator<Item = &str> {
    let schemes = ["https://", "http://", "git@", "ssh://"];
    let starts = schemes
        .into_iter()
        .flat_map(|scheme| text.match_indices(scheme));
    let addresses = starts.map(|(start, _)| {
        let rest = &text[start..];
        let is_end = |letter: char| letter.is_whitespace() || "\"'`<>()[]|,\\".contains(letter);
        let end = rest.find(is_end).unwrap_or(rest.len());
        rest[..end].trim_end_matches(['.', ':', ';'])
    });
    addresses.filter(|address| address.contains("gpu-leak"))
}

/// Whether an address is below that of the repository or of a package.
fn is_right(address: &str) -> bool {
    let below = address.strip_prefix(REPOSITORY);
    below.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '#']) || rest == ".git")
        || REGISTRIES
            .iter()
            .any(|registry| address.starts_with(registry))
}

/// Returns the files below `directory`, except those in directories named `.git`, `target`,
/// `node_modules` or `corpus`.
fn all_files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).expect("a directory").flatten();
    entries
        .flat_map(|entry| {
            let (path, kind) = (entry.path(), entry.file_type().expect("a kind"));
            let name = entry.file_name();
            match name.to_str() {
                Some(".git" | "target" | "node_modules" | "corpus") => Vec::new(),
                _ if kind.is_dir() => all_files(&path),
                _ if kind.is_file() => vec![path],
                _ => Vec::new(),
            }
        })
        .collect()
}

#[test]
fn the_address_of_the_repository_is_that_of_the_manifest() {
    let mut wrong = Vec::new();
    let mut right = 0;
    for path in all_files(&root()) {
        // Pictures and compressed recordings contain no addresses.
        let Ok(text) = fs::read_to_string(&path) else {
            continue;
        };
        for (line, number) in text.lines().zip(1..) {
            for address in own_addresses(line) {
                if is_right(address) {
                    right += 1;
                } else {
                    wrong.push(format!("{}:{number}: {address}", path.display()));
                }
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "`repository` in Cargo.toml is {REPOSITORY}, but:\n{}",
        wrong.join("\n")
    );
    assert!(right > 20, "only {right} addresses were found");
}

#[test]
fn a_wrong_address_is_found() {
    let other = concat!("https://example.org/someone/gpu", "-leak-");
    let text = format!("see <{other}check>, [a page]({REPOSITORY}/blob/HEAD/README.md).");
    let wrong: Vec<_> = own_addresses(&text)
        .filter(|address| !is_right(address))
        .collect();
    assert_eq!(wrong, [format!("{other}check")]);
    assert!(!is_right(&format!("{REPOSITORY}-fork/blob/HEAD/README.md")));
    assert!(is_right(&format!("{REPOSITORY}.git")));
}
