//! The repository's Markdown files: each link to a file, a heading or a picture has a target.

mod book;
mod published;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn every_relative_link_leads_somewhere() {
    let mut pages = Vec::new();
    find_pages(&root(), &mut pages);
    assert!(pages.len() > 10, "only {pages:?} were found");
    let dead: Vec<_> = pages.iter().flat_map(|page| dead_links(page)).collect();
    assert!(dead.is_empty(), "dead links:\n{}", dead.join("\n"));
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Finds the `.md` files in `directory` and below it, except built or downloaded ones.
fn find_pages(directory: &Path, pages: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory").flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let kind = entry.file_type().expect("a kind of file");
        let name = name.to_string_lossy();
        if kind.is_dir() && name != ".git" && name != "target" && name != "node_modules" {
            find_pages(&path, pages);
        } else if kind.is_file() && path.extension().is_some_and(|end| end == "md") {
            // Symbolic links are skipped, because they point to a page that is found anyway.
            pages.push(path);
        }
    }
}

fn dead_links(page: &Path) -> Vec<String> {
    let text = fs::read_to_string(page).expect("a page");
    let prose = without_code(&text);
    links(&prose)
        .filter(|link| !link.starts_with("mailto:"))
        .filter(|link| !link.contains("://") || in_repository(link).is_some())
        .filter(|link| !leads_somewhere(page, &text, link))
        .map(|link| format!("{}: {link}", page.display()))
        .collect()
}

/// Returns `text` without fenced blocks, in which text that looks like a link is code.
fn without_code(text: &str) -> String {
    let odd = |(number, part): (usize, _)| (number % 2 == 0).then_some(part);
    let outside: Vec<_> = text.split("```").enumerate().filter_map(odd).collect();
    outside.concat()
}

/// Returns the targets in `[…](here)`, `[…]: here`, `src="here"` and `srcset="here"`.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let after = |opens: &'static str, closes: &'static [char]| {
        let rests = text.split(opens).skip(1);
        rests.map(move |rest| rest.split(closes).next().unwrap_or_default())
    };
    after("](", &[')', ' '])
        .chain(after("src=\"", &['"']))
        .chain(after("srcset=\"", &['"', ' ']))
        .chain(after("]: ", &['\n', ' ']).filter(|link| link.contains('/')))
}

fn leads_somewhere(page: &Path, text: &str, link: &str) -> bool {
    let (file, heading) = link.split_once('#').unwrap_or((link, ""));
    if file.is_empty() {
        return headings(text).contains(heading);
    }
    let target = match in_repository(file) {
        Some(file) => root().join(file),
        None => page.with_file_name(file),
    };
    let has_heading = || {
        let text = fs::read_to_string(&target).unwrap_or_default();
        headings(&text).contains(heading)
    };
    target.exists() && (heading.is_empty() || has_heading())
}

/// Returns the path in an absolute link to a file of this repository.
fn in_repository(link: &str) -> Option<&str> {
    let path = link.strip_prefix(env!("CARGO_PKG_REPOSITORY"))?;
    let views = ["/blob/HEAD/", "/raw/HEAD/"];
    views.iter().find_map(|view| path.strip_prefix(view))
}

/// Returns the anchors of the headings, as GitHub makes them: in lower case, with spaces as
/// hyphens, and without other punctuation.
fn headings(text: &str) -> BTreeSet<String> {
    let prose = without_code(text);
    let lines = prose.lines().filter(|line| line.starts_with('#'));
    let letters = lines.map(|line| line.trim_start_matches('#').trim().to_lowercase());
    let kept = |letter: &char| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_');
    letters
        .map(|heading| heading.chars().filter(kept).collect::<String>())
        .map(|heading| heading.replace(' ', "-"))
        .collect()
}

#[test]
fn a_dead_link_is_found() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("pages/page.md");
    let text = "# A `heading`, here\n[a](mod.rs) [b](#a-heading-here) [c](gone.rs) [d](#nowhere)";
    let dead: Vec<_> = links(text)
        .filter(|link| !leads_somewhere(&page, text, link))
        .collect();
    assert_eq!(dead, ["gone.rs", "#nowhere"]);
    let own = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/HEAD/");
    assert!(leads_somewhere(&page, text, &format!("{own}README.md")));
    assert!(!leads_somewhere(&page, text, &format!("{own}gone.md")));
}
