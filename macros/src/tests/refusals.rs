//! Tests of every kind of wrong argument and its message. `tests/ui` shows the locations.

use syn::{Item, LitStr};

use super::items;

/// Returns the message of a `compile_error!`.
fn error(item: &Item) -> Option<LitStr> {
    let Item::Macro(item) = item else { return None };
    let name = item.mac.path.segments.last()?;
    let is_error = name.ident == "compile_error";
    is_error.then(|| item.mac.parse_body().expect("a message"))
}

/// Returns the arguments and the message about them.
fn refused(args: &str) -> String {
    let reported = items(args, "#[test] fn f() {}");
    let reported = reported.iter().filter_map(error);
    let reported: Vec<_> = reported.map(|message| message.value()).collect();
    assert!(!reported.is_empty(), "{args} is accepted");
    format!("{args}\n    {}", reported.join("\n    "))
}

#[test]
fn every_mistake_is_reported_with_its_remedy() {
    let reported = [
        "tolerence = 1",
        "leak = 1",
        "\"1 MiB\"",
        "3, parallel = 2",
        "tolerance",
        "tolerance = 1, tolerance = 2",
        "tolerance = \"1 MB\"",
        "tolerance = \"100\"",
        "tolerance = \"much\"",
        "tolerance = \"-1 B\"",
        "tolerance = 1.5",
        "tolerance = true",
        "max_allocated = \"1 GB\"",
        "max_reserved = \"\"",
        "max_allocation_count = \"3\"",
        "layer = 1, max_allocated = 1",
        "layer = \" \", max_allocated = 1",
        "layer = \"allocator:cubecl\"",
        "rounds = 0",
        "rounds = 0u32",
        "rounds = 2",
        "rounds = \"many\"",
        "warmup = 1.0",
        "expect()",
        "expect(size = 1)",
        "expect(count = \"2\")",
        "expect(count = 1, bytes = 2, count = 3)",
        "confirm = 1",
        "parallel = \"yes\"",
        "isolate = 1",
        "on_leak = \"ignore\"",
        "on_leak = warn",
        "settle = 250",
        "settle = \"250\"",
        "settle = \"2 minutes\"",
        "unchecked_if(true)",
        "unchecked_if(true, \" \")",
        "unchecked_if(true, \"…\")",
        "unchecked_if(true, reason)",
        "allow",
        "allow(\"fn:a\")",
        "allow(\"a\", reason = \"b\")",
        "allow(\"fn:\", reason = \"b\")",
        "allow(\"fn:a\", reason = \" \")",
        "allow(\"fn:a\", because = \"b\")",
        "allow(\"fn:a\", reason = \"b\", kind = event, kind = stream)",
        "allow(\"fn:a\", reason = \"b\", up_to = \"1 MB\")",
        "crate = \"my_crate\"",
        "tolerance = 1 confirm = false",
        "max_allocated = 1 MiB",
        "max_allocated = 512KiB",
        "tolerance = 1 GB, parallel = 2",
        "expect(count = 1), rounds = 5",
        "expect(count = 1), confirm = true",
        "expect(count = 1), tolerance = 1",
        "rounds = 5, confirm = true",
        "parallel, isolate",
    ];
    insta::assert_snapshot!(reported.map(refused).join("\n"));
}

#[test]
fn options_that_only_seem_to_conflict_are_accepted() {
    for args in [
        "expect(count = 1), rounds = 1, confirm = false",
        "expect(count = 1), tolerance = 0",
        "rounds = 5, confirm = false",
        "rounds = 1u32, confirm = true",
        "rounds = ROUNDS, confirm = true",
        "parallel, isolate = false",
        "layer = \"cubecl\", max_reserved = 0",
    ] {
        let reported = items(args, "#[test] fn f() {}");
        assert!(reported.iter().all(|item| error(item).is_none()), "{args}");
    }
}
