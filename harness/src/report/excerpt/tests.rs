use super::{Excerpt, Frame, Language, Marked, Rendering, Screen, Shown, WIDEST};
use crate::report::{Sources, Style};

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

/// A run file may come from anywhere, so a passage in it may have any length.
#[test]
fn the_lines_of_an_endless_passage_are_not_all_stored() {
    let frame = Frame {
        file: Some("a.rs".into()),
        line: Some(1),
        ..Frame::default()
    };
    let excerpt = Excerpt {
        arrow: ":::",
        frame: &frame,
        heading: String::new(),
        label: None,
        until: Some(1_000_000),
        ends_there: true,
    };
    let how = Rendering {
        style: Style::PLAIN,
        sources: Sources::below("/nowhere"),
    };
    let mut shown = Shown::default();
    let written = excerpt.write(&how, &mut shown, &mut Screen::default());
    let stored = shown.lines.len();
    assert!(written.is_ok() && stored < 100, "{stored}");
}
