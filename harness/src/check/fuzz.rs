//! Recordings of any content: see [`crate::__fuzz`].

use super::replay::judge_again;

/// A recording: it is refused in one sentence, or judged, and the same each time.
///
/// # Panics
///
/// When that does not hold.
pub fn recording(input: &[u8]) {
    match (judge_again(input, &[]), judge_again(input, &[])) {
        (Ok(first), Ok(second)) => assert_eq!(first, second),
        (Err(first), Err(second)) => {
            assert_eq!(first, second);
            let lines = input.split_inclusive(|byte| *byte == b'\n').count();
            assert!(first.line <= lines && !first.what.is_empty(), "{first:?}");
        }
        (first, second) => panic!("{first:?} and {second:?}"),
    }
}
