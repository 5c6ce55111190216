use std::fs;

use super::Sources;

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
        ("a.rs", u32::MAX),
        ("b.rs", 1),
        ("", 1),
        ("/dev/zero", 1),
    ] {
        assert_eq!(line(file, number), None, "{file}:{number}");
    }
}

#[test]
fn a_file_that_changed_after_the_build_is_recognised() {
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
