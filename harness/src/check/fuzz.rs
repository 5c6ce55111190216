//! Fuzz targets for recordings with arbitrary contents (see [`crate::__fuzz`]).

use super::replay::judge_again;

/// The input is a recording. It is either rejected with a single message or judged, and the result
/// is the same each time.
///
/// # Panics
///
/// Panics if this is not the case.
pub fn recording(input: &[u8]) {
    match (judge_again(input), judge_again(input)) {
        (Ok(first), Ok(second)) => assert_eq!(first, second),
        (Err(first), Err(second)) => {
            assert_eq!(first, second);
            let lines = input.split_inclusive(|byte| *byte == b'\n').count();
            assert!(
                first.line <= lines && !first.problem.is_empty(),
                "{first:?}"
            );
        }
        (first, second) => panic!("{first:?} and {second:?}"),
    }
}
