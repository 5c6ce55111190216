//! What fuzzing throws at the renderers: a run file of any content comes out as text, as XML that
//! parses, and as a page with no more markup than its own.

use std::fs;
use std::path::{Path, PathBuf};

use crate::arguments::Format;
use crate::overview::Overview;
use crate::render::{Rendering, render};
use crate::run::Run;

/// A run file, in every format.
pub(crate) fn renderers(input: &[u8]) {
    let folder = std::env::temp_dir().join(format!("gpu-leak-renderers-{}", std::process::id()));
    let file = folder.join("train-1.jsonl");
    fs::create_dir_all(&folder).expect("a folder for the run");
    fs::write(&file, input).expect("a run file");
    let run = read(&file);
    let shown = |format, run: &Run| {
        let how = Rendering {
            width: 80,
            root: "/nowhere".into(),
        };
        render(format, run, &Overview::of(run), &how).expect("a rendering")
    };
    for format in [
        Format::Text,
        Format::Junit,
        Format::Markdown,
        Format::Github,
        Format::Csv,
        Format::Folded,
        Format::Html,
    ] {
        let text = shown(format, &run);
        let commands = |c: char| c.is_control() && c != '\n';
        assert!(!text.contains(commands), "{format:?}: {text:?}");
    }
    let junit = shown(Format::Junit, &run);
    roxmltree::Document::parse(&junit).unwrap_or_else(|why| panic!("{why}: {junit}"));
    let page = shown(Format::Html, &run);
    let empty = shown(Format::Html, &Run::default());
    for markup in [
        "<script",
        "<img",
        "<a ",
        "<iframe",
        "javascript:",
        " onerror=",
    ] {
        let count = |page: &str| page.to_lowercase().matches(markup).count();
        let is_own = markup.starts_with('<') && count(&page) == count(&empty);
        assert!(is_own || !markup.starts_with('<'), "{markup}: {page}");
    }
    let _ = fs::remove_dir_all(&folder);
}

fn read(file: &Path) -> Run {
    let files: [PathBuf; 1] = [file.to_owned()];
    Run::read(&files).unwrap_or_else(|why| panic!("{}", why.what))
}

#[cfg(test)]
mod tests {
    #[test]
    fn no_run_file_makes_a_panic_or_opens_anything_in_markup() {
        gpu_leak_mutations::each("renderers", 1_500, super::renderers);
    }
}
