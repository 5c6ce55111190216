//! Shortens the places in a text, such as `Pool::new (src/a.rs:12)`.

/// Reduces each place in the file `file` to its line. For example, with `src/a.rs`, the text
/// `Pool::new (src/a.rs:12) ← run (src/b.rs:40)` becomes `Pool::new (:12) ← run (src/b.rs:40)`.
pub(super) fn in_file(text: &str, file: Option<&str>) -> String {
    match file {
        Some(file) => text.replace(&format!(" ({file}:"), " (:"),
        None => text.to_owned(),
    }
}

/// Returns the name of a file, preceded by the name of its directory if the file is a `lib.rs`,
/// `main.rs` or `mod.rs`.
pub(super) fn file_name(file: &str) -> &str {
    let (directories, name) = file.rsplit_once('/').unwrap_or(("", file));
    match name {
        "lib.rs" | "main.rs" | "mod.rs" => {
            let directory = directories.rsplit('/').next().unwrap_or_default();
            &file[directories.len() - directory.len()..]
        }
        name => name,
    }
}

/// If all places in `text` are in one file, names that file only once, or not at all if it is
/// `known`. For example, `Pool::new (src/a.rs:12) ← run (src/a.rs:40)` becomes
/// `Pool::new (src/a.rs:12) ← run (:40)`. If the places are in several files, returns the text
/// unchanged.
pub(super) fn with_one_file_once(text: &str, known: Option<&str>) -> String {
    let places = text.split(" (").filter_map(|part| {
        let (file, line) = part.split_once(')')?.0.rsplit_once(':')?;
        (line.parse::<u32>().is_ok() && !file.contains(' ')).then_some(file)
    });
    let mut files: Vec<_> = places.collect();
    files.dedup();
    let [file] = files[..] else {
        return text.to_owned();
    };
    let first = match known == Some(file) {
        true => 0,
        false => text.find(file).unwrap_or(0) + file.len(),
    };
    let (first, rest) = text.split_at(first);
    first.to_owned() + &in_file(rest, Some(file))
}

#[cfg(test)]
mod tests {
    use super::{file_name, in_file, with_one_file_once};

    #[test]
    fn a_file_that_is_named_as_many_others_is_named_with_its_directory() {
        assert_eq!(file_name("src/gpu/alloc.rs"), "alloc.rs");
        assert_eq!(file_name("src/gpu/mod.rs"), "gpu/mod.rs");
        assert_eq!(file_name("alloc.rs"), "alloc.rs");
        assert_eq!(file_name("lib.rs"), "lib.rs");
    }

    #[test]
    fn a_place_in_the_file_of_the_line_has_only_its_line() {
        let text = "Pool::new (a.rs:12) ← run (b.rs:40) ← a closure in f (a.rs:5), in a.rs:7";
        let short = "Pool::new (:12) ← run (b.rs:40) ← a closure in f (:5), in a.rs:7";
        assert_eq!(in_file(text, Some("a.rs")), short);
        assert_eq!(in_file(text, None), text);
    }

    #[test]
    fn the_only_file_of_a_text_is_named_once() {
        for (text, short) in [
            ("new (a.rs:12) ← run (a.rs:40)", "new (a.rs:12) ← run (:40)"),
            (
                "new (a.rs:12) ← run (b.rs:4)",
                "new (a.rs:12) ← run (b.rs:4)",
            ),
            (
                "1 KiB (1,024 B) in f (a b.rs:1)",
                "1 KiB (1,024 B) in f (a b.rs:1)",
            ),
            ("drop (a.rs:3) of x (a.rs:4)?", "drop (a.rs:3) of x (:4)?"),
            ("error (see: 1", "error (see: 1"),
        ] {
            assert_eq!(with_one_file_once(text, Some("c.rs")), short);
        }
        let text = "new (a.rs:12) ← run (a.rs:40)";
        assert_eq!(
            with_one_file_once(text, Some("a.rs")),
            "new (:12) ← run (:40)"
        );
        let text = "drop (b.rs:12) ← run (a.rs:40)";
        assert_eq!(with_one_file_once(text, Some("a.rs")), text);
    }
}
