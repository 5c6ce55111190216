//! If a place in the program still refers to a leaked resource, the report names that place.
//! Otherwise it says that nothing holds the resource.

mod planted;
mod unusual;

use gpu_leak_check::report::check_report::{Finding, FindingKind, Holder, HolderKind};
use gpu_leak_tests::checked::{self, Checked};
use gpu_leak_tests::child::Run;
use gpu_leak_tests::fake::Fake;
use gpu_leak_tests::gpu;

/// Runs the check of this planted leak, with enough time for the search on any machine.
fn run(test: &str) -> Checked {
    run_for("600s", test)
}

/// Like [`run`], but with this much time for the search.
fn run_for(time: &str, test: &str) -> Checked {
    run_with(time, &format!("planted::{test}"), |run| run)
}

/// Like [`run_for`], but runs a test of any module in this directory, after `prepared` has changed
/// its settings.
fn run_with(time: &str, test: &str, prepared: impl FnOnce(Run) -> Run) -> Checked {
    let test = format!("holders::{test}");
    let fake = Fake::new();
    let run = if gpu::is_present() {
        Run::of(&test)
    } else {
        fake.run(&test)
    };
    checked::finish(prepared(run.env("GPU_LEAK_CHECK_HELD_BY", time)))
}

fn leak(checked: &Checked) -> &Finding {
    let mut findings = checked.report().findings.iter();
    let leak = findings.find(|finding| finding.kind == FindingKind::Leaked);
    leak.unwrap_or_else(|| panic!("no leak\n{}", checked.output()))
}

/// Returns the only holder of the leak.
fn only(checked: &Checked) -> &Holder {
    match leak(checked).holders.as_deref() {
        Some([one]) => one,
        others => panic!("{others:?}\n{}", checked.output()),
    }
}

/// Fails unless exactly this static holds the leak, through this number of blocks.
fn assert_static(test: &str, name: &str, blocks: u32) {
    let checked = run(test);
    let Holder {
        root, blocks: on, ..
    } = only(&checked);
    let path = format!("main::holders::planted::{name}");
    assert_eq!(
        (root.kind, root.name.as_ref(), *on),
        (HolderKind::Static, Some(&path), blocks),
        "{}",
        checked.output()
    );
    assert_eq!((&root.thread, &root.module), (&None, &None));
    let reported = format!("held by    static main::holders::planted::{name}");
    assert!(
        checked.child.stderr.contains(&reported),
        "{}",
        checked.output()
    );
}

#[test]
fn a_static_is_named() {
    assert_static("kept_in_a_static", "STATIC", 0);
}

#[test]
fn a_vector_in_a_static_is_named() {
    assert_static("kept_in_a_vector", "VECTOR", 1);
}

#[test]
fn a_static_inside_the_body_is_named_by_the_test() {
    assert_static("kept_in_its_own_static", "kept_in_its_own_static::OWN", 0);
}

#[test]
fn a_long_chain_is_followed() {
    assert_static("kept_far_away", "FAR", 3);
}

#[test]
fn a_map_is_searched_although_only_an_address_inside_is_known() {
    assert_static("kept_in_a_map", "MAP", 1);
}

#[test]
fn an_address_inside_the_allocation_counts() {
    assert_static("kept_by_an_address_inside", "INSIDE", 0);
}

#[test]
fn a_block_and_the_segment_around_it_each_have_their_holder() {
    let checked = run("kept_in_a_segment");
    for (bytes, names) in [(1000, &["SEGMENT", "BLOCK"][..]), (64, &["BLOCK"])] {
        let mut findings = checked.report().findings.iter();
        let finding = findings.find(|finding| finding.bytes == bytes);
        let holders = finding.and_then(|it| it.holders.as_deref());
        let Some([Holder { root, .. }]) = holders else {
            panic!("{holders:?}\n{}", checked.output());
        };
        let name = root.name.as_deref().unwrap_or_default();
        let variable = name.rsplit("::").next().unwrap_or_default();
        assert!(names.contains(&variable), "{}", checked.output());
    }
}

#[test]
fn an_object_is_found_by_its_handle() {
    assert_static("kept_event", "EVENT", 1);
}

/// On other processors, the harness does not walk the stacks of other threads.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_thread_that_waits_is_named_with_its_function() {
    let checked = run("kept_on_a_stack");
    let Holder { root, .. } = only(&checked);
    assert_eq!(root.kind, HolderKind::Stack, "{}", checked.output());
    assert_eq!(root.thread.as_deref(), Some("worker-3"));
    let function = root.name.as_deref().expect("a function");
    assert!(function.contains("planted::"), "{function}");
}

/// Whether one of these places is in this function of [`planted`].
fn is_in(places: &[String], function: &str) -> bool {
    let start = format!("planted::{function} (tests/holders/planted.rs:");
    places.iter().any(|place| place.starts_with(&start))
}

#[cfg(target_arch = "x86_64")]
#[test]
fn the_functions_that_use_a_static_are_named() {
    let checked = run("kept_in_a_static");
    let root = &only(&checked).root;
    assert!(is_in(&root.used_in, "keep"), "{}", checked.output());
    let reported = "held by    static main::holders::planted::STATIC; used in planted::";
    assert!(
        checked.child.stderr.contains(reported),
        "{}",
        checked.output()
    );
}

#[test]
fn the_blocks_on_the_way_from_a_static_are_named_by_where_they_were_allocated() {
    let checked = run("kept_in_a_new_block_each_time");
    let holder = only(&checked);
    assert_eq!(holder.blocks, 1, "{}", checked.output());
    assert!(
        is_in(&holder.allocated_in, "in_a_new_block"),
        "{}",
        checked.output()
    );
}

#[test]
fn blocks_that_lead_to_each_other_are_named_by_where_they_were_allocated() {
    let checked = run("kept_by_a_cycle");
    if leak(&checked).holders.is_none() {
        return assert!(gpu::is_present() || std_keeps_frame_pointers());
    }
    let enclosing = leak(&checked).enclosing.as_ref();
    let enclosing = enclosing.unwrap_or_else(|| panic!("{}", checked.output()));
    assert_eq!((enclosing.blocks, enclosing.is_cycle), (2, true));
    assert!(
        is_in(&enclosing.allocated_in, "node"),
        "{}",
        checked.output()
    );
    let reported = "held by    only a cycle of 2 heap blocks that nothing else points to, allocated in \
                planted::node";
    assert!(
        checked.child.stderr.contains(reported),
        "{}",
        checked.output()
    );
}

#[test]
fn a_block_to_which_nothing_leads_is_named_by_where_it_was_allocated() {
    let checked = run("forgotten_with_its_box");
    if leak(&checked).holders.is_none() {
        return assert!(gpu::is_present() || std_keeps_frame_pointers());
    }
    let enclosing = leak(&checked).enclosing.as_ref();
    let enclosing = enclosing.unwrap_or_else(|| panic!("{}", checked.output()));
    assert_eq!((enclosing.blocks, enclosing.is_cycle), (1, false));
    assert!(is_in(&enclosing.allocated_in, "forget_a_box"));
}

#[test]
fn the_place_where_a_leak_s_owner_was_freed_is_named() {
    let checked = run("discarded_with_its_box");
    let leak = leak(&checked);
    if leak.holders.is_none() {
        return assert!(gpu::is_present() || std_keeps_frame_pointers());
    }
    let outlived = leak.outlived.iter();
    let places = outlived.flat_map(|it| [Some(it.freed_at.clone()), it.allocated_in.clone()]);
    let places: Vec<_> = places.flatten().collect();
    for function in ["discard", "discarded_with_its_box"] {
        assert!(is_in(&places, function), "{}", checked.output());
    }
    let reported = "): what held it was dropped or cleared here\n";
    assert!(
        checked.child.stderr.contains(reported),
        "{}",
        checked.output()
    );
    let help = "help: free it before planted::discard (";
    assert!(checked.child.stderr.contains(help), "{}", checked.output());
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_detached_thread_is_reported_with_where_it_was_started_and_detached() {
    let checked = run("kept_by_a_detached_thread");
    let root = &only(&checked).root;
    assert_eq!(root.thread, None, "it has no name\n{}", checked.output());
    let at = |place: &Option<String>| Vec::from_iter(place.clone());
    assert!(
        is_in(&at(&root.started_in), "start_a_thread"),
        "{}",
        checked.output()
    );
    assert!(
        is_in(&at(&root.detached_in), "abandon"),
        "{}",
        checked.output()
    );
    let waits = root.waits_in.as_deref().unwrap_or_default();
    assert!(waits.contains("planted"), "{}", checked.output());
    let reported = "; that thread is still running: it was started in planted::start_a_thread";
    assert!(
        checked.child.stderr.contains(reported),
        "{}",
        checked.output()
    );
}

/// The function's old value is still in an unused part of the stack.
#[test]
fn no_function_that_has_returned_is_named() {
    let checked = run("left_on_a_stack_by_a_function_that_returned");
    for holder in leak(&checked).holders.iter().flatten() {
        let name = holder.root.name.as_deref().unwrap_or_default();
        assert!(!name.contains("deep"), "{}", checked.output());
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_thread_local_is_named_with_its_thread() {
    let checked = run("kept_in_a_thread_local");
    let Holder { root, .. } = only(&checked);
    assert_eq!(root.kind, HolderKind::ThreadLocal, "{}", checked.output());
    assert_eq!(root.thread.as_deref(), Some("worker-4"));
    let name = root.name.as_deref();
    assert_eq!(name, Some("main::holders::planted::LOCAL"));
}

/// Fails if the report names a holder of the test's leak. Also fails if there was no search: the
/// report must name the static that holds another leak of the same test. With `must_say_so`, the
/// report must also say that nothing holds the first leak.
fn assert_held_by_nothing(test: &str, must_say_so: bool) {
    let checked = run(test);
    let (kept, others): (Vec<_>, Vec<_>) = checked
        .report()
        .findings
        .iter()
        .filter(|finding| finding.kind == FindingKind::Leaked)
        .partition(|finding| {
            let mut frames = finding.site.frames.iter();
            frames.any(|frame| frame.function.as_deref() == Some("main::holders::planted::keep"))
        });
    let ([kept], [other]) = (&kept[..], &others[..]) else {
        panic!("{} kept\n{}", kept.len(), checked.output());
    };
    match kept.holders.as_deref() {
        Some([one]) => assert_eq!(
            one.root.name.as_deref(),
            Some("main::holders::planted::STATIC")
        ),
        others => panic!("{others:?}\n{}", checked.output()),
    }
    match other.holders.as_deref() {
        Some([]) => {
            let reported = "held by    nothing any more";
            assert!(
                checked.child.stderr.contains(reported),
                "{}",
                checked.output()
            );
        }
        None if !must_say_so => {}
        others => panic!("{others:?}\n{}", checked.output()),
    }
}

/// Whether the standard library was compiled with frame pointers, as in the toolchains of some
/// Linux distributions. The stack of a thread that waits in such a function cannot be unwound, so
/// no search is complete.
#[expect(
    unsafe_code,
    reason = "reads the first instructions of a function of the standard library"
)]
fn std_keeps_frame_pointers() -> bool {
    let function = std::thread::park as fn() as *const [u8; 4];
    // push %rbp; mov %rsp,%rbp
    // SAFETY: a function has more instructions than these.
    cfg!(target_arch = "x86_64") && unsafe { *function } == [0x55, 0x48, 0x89, 0xe5]
}

#[test]
fn forgotten_memory_is_held_by_nothing() {
    // The libraries of a real driver have running threads and an unknown memory layout, so a search
    // cannot be complete.
    let must_say_so = !gpu::is_present() && !std_keeps_frame_pointers();
    assert_held_by_nothing("forgotten", must_say_so);
}

#[test]
fn a_copy_in_freed_memory_is_held_by_nothing() {
    // If a freed block is part of the chain, the report names no holder.
    assert_held_by_nothing("freed_with_its_vector", false);
    assert_held_by_nothing("freed_with_its_box", false);
}

/// Dereferencing any of these values would crash the process.
#[test]
fn memory_that_cannot_be_read_is_skipped() {
    assert_static("kept_beside_unreadable_memory", "UNREADABLE", 1);
}

#[test]
fn a_program_that_changes_meanwhile_does_not_disturb_the_search() {
    let checked = run("kept_while_others_allocate");
    let holders = leak(&checked).holders.as_deref();
    let holders = holders.unwrap_or_default();
    assert!(
        holders
            .iter()
            .all(|it| it.root.name.as_deref() == Some("main::holders::planted::VECTOR")),
        "{}",
        checked.output()
    );
}

#[test]
fn a_block_s_own_variable_is_named_by_its_function() {
    let checked = run("kept_by_the_caller_of_a_block");
    let Holder { root, .. } = only(&checked);
    assert_eq!(root.kind, HolderKind::Stack, "{}", checked.output());
}

#[test]
fn without_time_there_is_no_search() {
    let checked = run_for("0s", "kept_in_a_static");
    assert_eq!(leak(&checked).holders, None, "{}", checked.output());
    assert!(!checked.child.stderr.contains("held by"));
}

#[test]
fn a_process_with_many_leaks_stops_searching() {
    let fake = Fake::new();
    let run = fake.run("holders::planted::kept_by_many_scopes");
    let run = run.env("GPU_LEAK_CHECK_HELD_BY", "1ms");
    let child = run.env("GPU_LEAK_CHECK_SETTLE", "0ms").run();
    assert!(child.status.success(), "{}", child.stderr);
}

/// The heap has two gigabytes, and the search has enough time for it. The search ends when it has
/// read its maximum number of bytes, and the report does not say what holds the leak.
#[test]
fn a_large_heap_is_searched_up_to_a_limit() {
    const MIB: u64 = 1 << 20;

    let checked = run("kept_beside_a_large_heap");
    assert_eq!(leak(&checked).holders, None, "{}", checked.output());
    let (_, read) = checked.child.stdout.split_once("bytes read: ").unwrap();
    let read: u64 = read.lines().next().unwrap().parse().expect("a number");
    // This includes the symbols of this program.
    assert!((512 * MIB..1024 * MIB).contains(&read), "{read}");
}
