use std::fs;

use super::{Language, Marked, Sources, WIDEST};

fn marked(line: &str, column: u32) -> (String, String) {
    let shown = Marked::new(line, Some(column), Language::Compiled);
    let mark = " ".repeat(shown.start) + &"^".repeat(shown.length);
    (shown.text, mark)
}

#[test]
fn the_word_at_the_column_is_marked() {
    let (text, mark) = marked("    let moment = device.zeros(shape)?;", 18);
    assert_eq!(text, "    let moment = device.zeros(shape)?;");
    assert_eq!(mark, "                 ^^^^^^");
}

#[test]
fn a_path_is_marked_whole() {
    let (_, mark) = marked("let a = sys::cuMemAlloc_v2(&mut b, 1);", 9);
    assert_eq!(mark, "        ^^^^^^^^^^^^^^^^^^");
    let (_, mark) = marked("Vec::<f32>::new()", 1);
    assert_eq!(mark, "^^^");
}

#[test]
fn tabs_and_control_characters_keep_the_mark_in_its_place() {
    let (text, mark) = marked("\tlet a\x1b = take();", 11);
    assert_eq!(text, "    let a\\u{1b} = take();");
    assert_eq!(mark, "                  ^^^^");
}

#[test]
fn a_python_path_is_marked_to_its_end() {
    let line = "held.append(torch.empty(16))";
    let shown = Marked::new(line, Some(13), Language::Python);
    assert_eq!((shown.start, shown.length), (12, "torch.empty".len()));
}

#[test]
fn columns_count_bytes() {
    let (_, mark) = marked("let größe = take();", 15);
    assert_eq!(mark, "            ^^^^");
}

#[test]
fn a_column_outside_the_line_marks_nothing() {
    for column in [0, 99] {
        assert_eq!(marked("take();", column).1, "", "{column}");
    }
    assert_eq!(Marked::new("take();", None, Language::Compiled).length, 0);
}

#[test]
fn a_long_line_is_cut_around_its_mark() {
    let line = format!("{}take(){}", "a ".repeat(200), "b ".repeat(200));
    for (line, column) in [(line.as_str(), 401), (&line[400..], 1), (&line[..406], 401)] {
        let (text, mark) = marked(line, column);
        assert!(text.chars().count() <= WIDEST + 1, "{text}");
        let word: String = text
            .chars()
            .skip(mark.trim_end_matches('^').len())
            .take(4)
            .collect();
        assert_eq!(word, "take", "{text}\n{mark}");
    }
}

#[test]
fn a_word_longer_than_the_line_may_be_is_marked_as_far_as_it_is_shown() {
    let (text, mark) = marked(&"x".repeat(10_000), 1);
    assert_eq!(text.chars().count(), WIDEST);
    assert_eq!(mark.len(), WIDEST);
}

#[test]
fn only_lines_that_are_there_are_read() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("a.rs"), b"one\ntwo \r\n\xff").unwrap();
    let sources = Sources::below(directory.path());
    let line = |file, number| {
        let mut lines = sources.around(file, number..=number).into_iter();
        lines.find(|(at, _)| *at == number).map(|(_, text)| text)
    };
    assert_eq!(line("a.rs", 2).as_deref(), Some("two"));
    for (file, number) in [
        ("a.rs", 0),
        ("a.rs", 9),
        ("b.rs", 1),
        ("", 1),
        ("/dev/zero", 1),
    ] {
        assert_eq!(line(file, number), None, "{file}:{number}");
    }
}

#[test]
fn a_file_that_changed_after_the_build_says_so() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("a.rs"), "one").unwrap();
    let mut sources = Sources::below(directory.path());
    assert!(!sources.is_edited("a.rs"));
    sources.built = Some(std::time::SystemTime::UNIX_EPOCH);
    assert!(sources.is_edited("a.rs"));
}

#[test]
fn the_code_around_a_passage_stays_in_its_function_and_omits_comments() {
    let directory = tempfile::tempdir().unwrap();
    let text = "fn before() {}\nimpl A {\nfn work() {\nlet a = 1;\nif a == 1 {\n// Why.\nreturn;\n}\n}\n\
                fn after() {}\n";
    fs::write(directory.path().join("a.rs"), text).unwrap();
    let sources = Sources::below(directory.path());
    let around = |lines| sources.around("a.rs", lines).into_iter().map(|it| it.0);
    assert_eq!(around(5..=5).collect::<Vec<_>>(), [4, 5, 7]);
    assert_eq!(around(3..=3).collect::<Vec<_>>(), [3, 4, 5, 7]);
    assert_eq!(around(4..=7).collect::<Vec<_>>(), [3, 4, 5, 7]);
    assert_eq!(around(99..=99).collect::<Vec<_>>(), [0_u32; 0]);
}

#[test]
fn only_sources_below_the_workspace_are_shown_for_a_run_file() {
    let outside = tempfile::tempdir().unwrap();
    let root = outside.path().join("w");
    fs::create_dir(&root).unwrap();
    let secret = outside.path().join("secret.rs");
    fs::write(&secret, "secret\n").unwrap();
    fs::write(root.join(".env"), "secret\n").unwrap();
    fs::write(root.join("a.rs"), "shown\nas well\n").unwrap();
    let sources = Sources::below(&root);
    for hidden in ["../secret.rs", secret.to_str().unwrap(), ".env"] {
        assert!(sources.lines(hidden, 1..=1).is_empty(), "{hidden}");
        assert!(sources.around(hidden, 1..=1).is_empty(), "{hidden}");
    }
    assert_eq!(sources.lines("a.rs", 1..=5), ["shown", "as well"]);
}
