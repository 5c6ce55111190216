use std::hint::black_box;

use super::{DEPTH, stack};
use crate::ledger::{StackId, Stacks};
use crate::report::symbols;

#[inline(never)]
fn at_depth(stacks: &Stacks, depth: usize) -> StackId {
    if depth > 0 {
        return black_box(at_depth(stacks, depth - 1));
    }
    black_box(stack(stacks))
}

#[test]
fn a_stack_names_its_callers() {
    let stacks = Stacks::default();
    let stack = at_depth(&stacks, 0);
    let frames = symbols::assembled(symbols::of_words(stacks.frames(stack), &[]));
    let names: Vec<_> = frames
        .iter()
        .filter_map(|it| it.function.as_ref())
        .collect();
    assert!(
        names
            .iter()
            .any(|name| name.contains("a_stack_names_its_callers")),
        "{names:#?}"
    );
}

#[test]
fn a_deep_stack_is_cut_off_at_its_outer_end() {
    let stacks = Stacks::default();
    let stack = at_depth(&stacks, 3 * DEPTH);
    assert_eq!(stacks.frames(stack).len(), DEPTH);
}

#[test]
fn one_path_is_one_stack() {
    let stacks = Stacks::default();
    let mut seen = Vec::new();
    // If the loop were unrolled, each iteration would be a different call site.
    for _ in 0..black_box(3) {
        seen.push(at_depth(&stacks, 8));
    }
    assert_eq!(seen, [seen[0]; 3]);
    assert_ne!(at_depth(&stacks, 8), at_depth(&stacks, 9));
}

#[test]
fn threads_may_walk_at_once() {
    let stacks = Stacks::default();
    // Miri takes a thousand times as long.
    let rounds = if cfg!(miri) { 2 } else { 200 };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..rounds {
                    assert!(stacks.frames(at_depth(&stacks, 8)).len() > 8);
                }
            });
        }
    });
}

#[test]
#[cfg(target_pointer_width = "64")]
fn the_lines_of_an_interpreted_program_are_a_part_of_the_stack() {
    use super::Frames;
    use super::script::Joined;
    use crate::ledger::script::{self, ScriptLine};

    fn reader(words: &mut [usize]) -> usize {
        let line = ScriptLine {
            file: "train.py".to_owned(),
            function: "step".to_owned(),
            line: Some(31),
            column: None,
        };
        words[0] = line.intern().unwrap().word(true);
        // The reader has more words than fit, so the last ones are cut off.
        words.len() + 1
    }
    let mut frames = Frames::new();
    frames.push(11);
    frames.push(12);
    let joined = Joined::new(&frames, reader);
    assert_eq!(joined.as_slice()[..2], [11, 12]);
    let line = script::line(joined.as_slice()[2]).unwrap();
    assert_eq!((&*line.file, line.line), ("train.py", Some(31)));

    let mut others = Frames::new();
    others.push(13);
    let behind = joined.behind(&others);
    assert_eq!(behind.as_slice()[0], 13);
    assert_eq!(behind.as_slice()[1..], joined.as_slice()[2..]);
}
