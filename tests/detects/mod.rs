//! Every planted leak is found: exact count and bytes, kind, place, and the caller's line.

mod planted;

use gpu_leak_check::Place;
use gpu_leak_check::ledger::Kind;
use gpu_leak_check::report::model::Verdict;
use gpu_leak_tests::{checked, gpu};

/// One leak and what must be said of it.
struct Expected {
    kind: Kind,
    place: Place,
    bytes: u64,
    /// The mark of its line in `planted.rs`.
    mark: &'static str,
}

#[track_caller]
fn assert_found(test: &str, expected: &Expected) {
    let checked = checked::run(&format!("detects::planted::{test}::leaks"));
    let report = checked.report();
    let story = checked.story();
    assert_eq!(report.verdict, Verdict::Leaked, "{story}");
    assert!(
        !checked.child.status.success(),
        "a leak fails its test\n{story}"
    );
    let leaks: Vec<_> = report
        .findings
        .iter()
        .filter(|finding| finding.verdict == Verdict::Leaked)
        .collect();
    let [leak] = leaks[..] else {
        panic!("{} findings\n{story}", leaks.len())
    };
    assert_eq!((leak.kind, leak.count), (Some(expected.kind), 1), "{story}");
    assert_eq!(
        (leak.bytes, leak.place),
        (expected.bytes, expected.place),
        "{story}"
    );
    let confirmed = leak.confirmed.expect("the second run confirms it");
    assert_eq!(
        (confirmed.count, confirmed.bytes),
        (1, expected.bytes),
        "{story}"
    );
    let user = &leak.site.frames[leak.site.user.expect("a line of the user's")];
    let at = (user.file.as_deref(), user.line);
    assert_eq!(
        at,
        (
            Some("tests/detects/planted.rs"),
            Some(line_of(expected.mark))
        ),
        "{story}"
    );
}

/// The number of the line that ends in `// leak: mark`.
fn line_of(mark: &str) -> u32 {
    let ending = format!("// leak: {mark}");
    let line = include_str!("planted.rs")
        .lines()
        .position(|line| line.ends_with(&ending));
    u32::try_from(line.expect("the mark is in planted.rs") + 1).unwrap()
}

macro_rules! finds {
    ($($name:ident: $kind:ident, $place:expr, $bytes:expr, $mark:literal;)*) => {
        $(#[test]
        fn $name() {
            let expected =
                Expected { kind: Kind::$kind, place: $place, bytes: $bytes, mark: $mark };
            assert_found(stringify!($name), &expected);
        })*
    };
}

finds! {
    linear: Linear, Place::cuda(0), 1, "linear";
    stream_ordered_400_bytes: StreamOrdered, Place::cuda(0), 400, "stream_ordered";
    stream_ordered_1_mib: StreamOrdered, Place::cuda(0), 1 << 20, "stream_ordered";
    from_an_explicit_pool: StreamOrdered, Place::cuda(0), 4096, "from_pool";
    // 100 bytes a row; the driver's pitch is 512.
    pitched: Pitched, Place::cuda(0), 3 * 512, "pitched";
    managed: Managed, Place::cuda(0), 5000, "managed";
    pinned: Pinned, Place::HOST, 777, "pinned";
    registered: Registered, Place::HOST, 10_000, "registered";
    a_stream: Stream, Place::cuda(0), 0, "stream";
    an_event: Event, Place::cuda(0), 0, "event";
    a_pool: Pool, Place::cuda(0), 0, "pool";
}

/// cuBLAS takes memory, streams and events of its own; all of it is charged to the one line.
#[test]
fn a_cublas_handle() {
    if !gpu::is_present() {
        // The stand-in for cuBLAS takes no streams and events.
        return;
    }
    let checked = checked::run("detects::planted::a_cublas_handle::leaks");
    let report = checked.report();
    let story = checked.story();
    assert_eq!(report.verdict, Verdict::Leaked, "{story}");
    for leak in report
        .findings
        .iter()
        .filter(|finding| finding.verdict == Verdict::Leaked)
    {
        let user = &leak.site.frames[leak.site.user.expect("a line of the user's")];
        assert_eq!(user.line, Some(line_of("cublas")), "{story}");
        let library = leak.site.library.as_ref().expect("a library");
        assert_eq!(library.name, "cuBLAS", "{story}");
        assert!(library.known.is_some(), "{story}");
    }
    let linear = report
        .findings
        .iter()
        .filter(|finding| finding.kind == Some(Kind::Linear));
    assert!(
        linear.map(|finding| finding.bytes).sum::<u64>() > 0,
        "{story}"
    );
}
