//! Reports about a C++ program name functions as its source does, with and without line tables.

use gpu_leak_check::report::check_report::Finding;
use gpu_leak_tests::fake::Fake;

use super::{Ran, compiled_from, line_in, ran_with};

fn line_of(words: &str) -> u32 {
    let header = include_str!("objects.hpp");
    match header.contains(words) {
        true => line_in(header, words),
        false => line_in(include_str!("objects.cpp"), words),
    }
}

/// Builds the program with these flags and runs it. Returns the run and its findings, largest
/// first.
fn found(flags: &[&str]) -> (Ran, Vec<Finding>) {
    let directory = tempfile::tempdir().expect("a directory");
    let libraries = ["-lstdc++", "-ldl", "-lpthread"];
    let program = compiled_from(
        "objects.cpp",
        directory.path(),
        "objects",
        &[flags, &libraries].concat(),
    );
    let ran = ran_with(&Fake::new(), &[], &program, &[]);
    assert_eq!(ran.reported.code, Some(1), "{:?}", ran.reported);
    let files = ran.files();
    let findings = files[0].reports[0].findings.clone();
    (ran, findings)
}

#[test]
fn a_leak_in_cpp_is_at_the_program_s_line_and_not_in_the_standard_library() {
    for optimised in ["-O0", "-O2"] {
        let (ran, findings) = found(&["-g", optimised]);
        let at: Vec<_> = findings
            .iter()
            .map(|it| {
                (
                    it.bytes,
                    it.shown_frames().and_then(|(frame, _)| frame.line),
                )
            })
            .collect();
        let expected = [
            (1024, "/* in an allocator */"),
            (512, "/* in a constructor */"),
            (128, "/* in a lambda */"),
            (64, "/* on a thread */"),
            (32, "/* one of several */"),
            (16, "/* through a wrapper */"),
            (8, "/* beside another call */"),
            (4, "/* through a wrapper that calls another function */"),
        ];
        let expected = expected.map(|(bytes, comment)| (bytes, Some(line_of(comment))));
        assert_eq!(at, expected, "{optimised}: {:?}", ran.reported);
        let callers = findings[0].site.callers("objects").expect("callers");
        let [vector, main] = ["/* by a container */", "    fill();"].map(line_of);
        assert!(
            callers.starts_with("fill (")
                && callers.contains(&format!("objects.cpp:{vector}) ← main (")),
            "{callers}"
        );
        assert!(
            callers.ends_with(&format!("objects.cpp:{main})")),
            "{callers}"
        );
        // The caller of a wrapper is listed only once.
        let caller = format!("objects.cpp:{})", line_of("/* through a wrapper */"));
        let named = ran.reported.stderr.matches(&caller).count();
        assert_eq!(named, 1, "{:?}", ran.reported);
        assert!(
            !ran.reported.stderr.contains("/include/c++/"),
            "{:?}",
            ran.reported
        );
    }
}

#[test]
fn functions_of_cpp_have_their_names_without_line_tables() {
    let (ran, findings) = found(&["-O0"]);
    let named = |finding: &Finding| finding.site.shown("objects");
    let names: Vec<_> = findings.iter().map(named).collect();
    let expected = [
        "pool::(anonymous namespace)::Allocator<float>::allocate ← fill ← main",
        "pool::Block<double, 64>::Block ← main",
        "main::{lambda(unsigned long)#2}::operator() ← main",
        "main::{lambda()#3}::operator()",
        "multiply ← main",
        "take ← main",
        "prepare ← main",
        "take_and_record ← main",
    ];
    assert_eq!(names, expected, "{:?}", ran.reported);
    let remedy =
        "note: no source lines: build the program with line tables, in C and C++ with `-g`";
    assert!(ran.reported.stderr.contains(remedy), "{:?}", ran.reported);
}

/// In optimised code, the program's functions are inlined, some of them into functions of the
/// standard library.
#[test]
fn optimised_code_without_line_tables_is_named_by_the_program_s_own_functions() {
    let (ran, findings) = found(&["-O2"]);
    let count = findings.iter().map(|finding| finding.count).sum::<u64>();
    assert_eq!(count, 8, "{:?}", ran.reported);
    for finding in &findings {
        let frame = finding.site.user_frame().expect("a function");
        let name = frame.function.as_deref().expect("its name");
        // The function that a thread runs is inlined into a function of `std`, whose name contains
        // its name.
        let own = ["main", "fill", "pool::", "multiply", "take", "prepare"];
        assert!(own.iter().any(|own| name.contains(own)), "{name}");
    }
}
