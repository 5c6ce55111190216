//! The pages of the published crates. crates.io resolves a relative link against the crate's own
//! directory, wherever the page is in the repository. It leaves a `srcset` unchanged. On
//! crates.io, neither has a target, so links must be absolute.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use super::{links, root, without_code};

const REPOSITORY: &str = env!("CARGO_PKG_REPOSITORY");

/// The variable that makes the test write the harness's page instead of comparing it.
const BLESS: &str = "README_BLESS";

#[test]
fn the_harness_has_the_readme_with_absolute_links() {
    let page = root().join("harness/README.md");
    let expected = absolute(&fs::read_to_string(root().join("README.md")).expect("the README"));
    if env::var_os(BLESS).is_some() {
        fs::write(&page, &expected).expect("the page is written");
    }
    let present = fs::read_to_string(&page).expect("the harness's page");
    assert!(
        present == expected,
        "harness/README.md is out of date: run this test once with {BLESS}=1"
    );
}

#[test]
fn no_published_page_has_a_relative_link() {
    let mut relative = Vec::new();
    for page in published() {
        let text = fs::read_to_string(&page).expect("a page");
        let prose = without_code(&text);
        let links = links(&prose).filter(|link| !link.contains("://") && !link.starts_with('#'));
        relative.extend(links.map(|link| format!("{}: {link}", page.display())));
    }
    assert!(relative.is_empty(), "{}", relative.join("\n"));
}

/// Returns the page that crates.io shows for each package: its `readme`, otherwise its README.md.
fn published() -> Vec<PathBuf> {
    let workspace = fs::read_to_string(root().join("Cargo.toml")).expect("the workspace");
    let (_, members) = workspace.split_once("members = [").expect("members");
    let (members, _) = members.split_once(']').expect("their end");
    let directories = members.split('"').skip(1).step_by(2);
    let pages: Vec<_> = directories
        .filter_map(|directory| page(&root().join(directory)))
        .collect();
    assert!(pages.len() > 4, "only {pages:?} were found");
    pages
}

fn page(directory: &Path) -> Option<PathBuf> {
    let manifest = fs::read_to_string(directory.join("Cargo.toml")).expect("a manifest");
    if manifest.contains("publish = false") {
        return None;
    }
    let named = manifest
        .lines()
        .find_map(|line| line.strip_prefix("readme = \""));
    let page = directory.join(named.map_or("README.md", |name| name.trim_end_matches('"')));
    page.exists().then_some(page)
}

/// Returns `text` with its links to the repository's files made absolute.
fn absolute(text: &str) -> String {
    let mut out = text.to_owned();
    for (opens, view) in [("](", "blob"), ("src=\"", "raw"), ("srcset=\"", "raw")] {
        let mut parts = out.split(opens);
        let mut linked = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            linked.push_str(opens);
            if !part.starts_with("https://") && !part.starts_with('#') {
                linked.extend([REPOSITORY, "/", view, "/HEAD/"]);
            }
            linked.push_str(part);
        }
        out = linked;
    }
    out
}
