//! ARCHITECTURE.md is true: every floor of the harness stands in its table and imports only from
//! below, every package is named, and every path leads somewhere.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Where the table's second column begins.
const COLUMN: usize = 31;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).expect(path)
}

/// Each module of the harness and its floor, the surface first.
fn floors() -> BTreeMap<String, usize> {
    let page = read("ARCHITECTURE.md");
    let (_, page) = page.split_once("## Inside the harness").expect("a chapter");
    let (_, table) = page.split_once("```text\n").expect("a table");
    let (table, _) = table.split_once("```").expect("its end");
    let names = table.lines().zip(0..).flat_map(|(line, floor)| {
        let names: String = line.chars().take(COLUMN).collect();
        let names: Vec<_> = names.split_whitespace().map(str::to_owned).collect();
        names.into_iter().map(move |name| (name, floor))
    });
    names.collect()
}

/// The Rust files below `folder`.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder").flatten();
    let paths = entries.map(|entry| entry.path());
    paths
        .flat_map(|path| match path.extension() {
            None => files(&path),
            Some(extension) if extension == "rs" => vec![path],
            Some(_) => Vec::new(),
        })
        .collect()
}

/// Whether a file is compiled into the library: tests and fuzz targets may look anywhere.
fn is_product(path: &Path) -> bool {
    let mut parts = path.iter().filter_map(|part| part.to_str());
    !parts.any(|part| matches!(part, "tests" | "tests.rs" | "fuzz.rs"))
}

/// The code of `text` in front of its tests, without comments.
fn code(text: &str) -> String {
    let code = text.split("\nmod tests {").next();
    let code = code.unwrap_or_default().lines();
    let code: Vec<_> = code
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect();
    code.join("\n")
}

/// The modules of the crate that `code` names, with those of `use crate::{one, other}`.
fn named(code: &str) -> Vec<String> {
    let identifier = |text: &str| -> String {
        let is_of_name = |letter: &char| letter.is_alphanumeric() || *letter == '_';
        text.trim_start().chars().take_while(is_of_name).collect()
    };
    let mut names = Vec::new();
    for after in code.split("crate::").skip(1) {
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

#[test]
fn each_floor_of_the_harness_imports_only_from_below() {
    let floors = floors();
    let sources = root().join("harness/src");
    let mut wrong = Vec::new();
    for path in files(&sources) {
        let inside = path.strip_prefix(&sources).expect("below it");
        let module = inside.iter().next().expect("a name");
        let module = Path::new(module).file_stem().expect("a name");
        let module = module.to_str().expect("text");
        let Some(floor) = floors.get(module) else {
            wrong.push(format!("{module} has no floor"));
            continue;
        };
        if !is_product(inside) {
            continue;
        }
        for name in named(&code(&fs::read_to_string(&path).expect("a file"))) {
            if name != module && floors.get(&name).is_some_and(|other| other <= floor) {
                wrong.push(format!("{} imports {name}", inside.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_floor_is_there() {
    for name in floors().keys() {
        let sources = root().join("harness/src");
        let is_there = sources.join(name).is_dir() || sources.join(format!("{name}.rs")).is_file();
        assert!(is_there, "{name} is on no floor any more");
    }
}

#[test]
fn every_path_is_there() {
    let page = read("ARCHITECTURE.md");
    let quoted = page.split('`').skip(1).step_by(2);
    let paths = quoted.filter(|path| path.contains('/') && !path.contains([' ', '\n']));
    let bases =
        ["", "harness", "harness/src", "kernels/src", "tests"].map(|base| root().join(base));
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
        let folder = member.strip_prefix("tests/fake-driver/");
        let folder = folder.map_or(member, |_| "tests/fake-driver");
        assert!(page.contains(&format!("| `{folder}/` |")), "{member}");
    }
}
