//! Contexts that are created and destroyed inside a test, and what ends with them.

use cudarc::driver::CudaContext;
use gpu_leak_check::ledger::{Kind, Place};
use gpu_leak_check::report::check_report::{CheckStatus, Finding, FindingKind, PrimaryKept};
use gpu_leak_check::{Check, Scope, gpu_leak_check};
use gpu_leak_tests::checked::{self, Checked};

use super::assert_one_leak;
use super::driver::{
    allocate, context, create_context, create_green, create_stream, create_texture,
    destroy_context, destroy_green, destroy_stream, destroy_texture, free, make_current,
    release_primary, reset_device, retain_primary,
};
use crate::kinds::planted::code;

fn run(test: &str) -> Checked {
    checked::run(&format!("boundary::contexts::{test}"))
}

#[test]
fn a_context_made_and_destroyed_inside_is_clean() {
    run("makes_and_destroys_a_context").assert_clean();
}

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn makes_and_destroys_a_context() {
    destroy_context(create_context());
}

#[test]
fn a_context_made_inside_and_not_destroyed_is_a_handle() {
    assert_one_leak(&run("makes_a_context"), Kind::Context, 0);
}

#[track_caller]
fn assert_ended(finding: &Finding, how: &str) {
    let ended = finding.ended.as_ref().map(|ended| &*ended.how);
    assert_eq!(ended, Some(how), "{finding:?}");
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn makes_a_context() {
    create_context();
}

#[test]
fn a_primary_context_made_inside_and_kept_is_nobody_s_fault() {
    run("keeps_the_primary_context").assert_clean();
}

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn keeps_the_primary_context() {
    context();
}

#[test]
fn an_unbalanced_primary_retain_is_a_note() {
    let checked = run("retains_the_primary_context_twice_and_releases_it_once");
    checked.assert_clean();
    let output = checked.output();
    let once_more = PrimaryKept {
        place: Place::cuda(0),
        times: 1,
    };
    assert_eq!(checked.report().primaries, [once_more], "{output}");
    // The first test that uses a device creates its context, which the summary does not mention.
    assert!(!output.contains("primary context"), "{output}");
    let checked = run("retains_the_primary_context_and_leaks");
    assert_one_leak(&checked, Kind::Linear, 10);
    let output = checked.output();
    assert_eq!(checked.report().primaries, [once_more], "{output}");
    assert!(!output.contains("primary context"), "{output}");
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn retains_the_primary_context_and_leaks() {
    context();
    allocate(10).unwrap();
}

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn retains_the_primary_context_twice_and_releases_it_once() {
    retain_primary();
    retain_primary();
    release_primary();
}

#[test]
fn a_balanced_primary_retain_is_not_a_note() {
    let checked = run("retains_and_releases_the_primary_context");
    checked.assert_clean();
    assert_eq!(checked.report().primaries, [], "{}", checked.output());
}

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn retains_and_releases_the_primary_context() {
    let context = CudaContext::new(0).unwrap();
    free(allocate(10).unwrap()).unwrap();
    drop(context);
    // A reset does not change the number of retains.
    retain_primary();
    reset_device();
    release_primary();
}

#[test]
fn a_module_loaded_inside_and_not_unloaded_is_a_finding() {
    assert_one_leak(&run("loads_a_module"), Kind::Module, 0);
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn loads_a_module() {
    context();
    code::module();
}

#[test]
fn memory_freed_only_by_the_end_of_its_context_is_a_finding() {
    let checked = run("leaves_freeing_to_the_context");
    let finding = assert_one_leak(&checked, Kind::Linear, 10);
    assert_ended(finding, "freed only because its context was destroyed");
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn leaves_freeing_to_the_context() {
    let context = create_context();
    allocate(10).unwrap();
    destroy_context(context);
}

#[test]
fn memory_of_a_finished_scope_freed_only_by_the_end_of_its_context_is_a_finding() {
    let checked = run("leaves_freeing_a_scope_s_memory_to_the_context");
    let finding = assert_one_leak(&checked, Kind::Linear, 10);
    assert_ended(finding, "freed only because its context was destroyed");
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn leaves_freeing_a_scope_s_memory_to_the_context() {
    let context = create_context();
    let scope = Scope::open("load");
    scope.in_scope(|| allocate(10).unwrap());
    drop(scope.finish());
    destroy_context(context);
}

#[test]
fn memory_that_a_block_allows_may_be_freed_by_the_end_of_its_context() {
    let checked = run("allows_a_block_s_memory_that_the_context_frees");
    let statuses: Vec<_> = checked.reports.iter().map(|it| it.status).collect();
    let expected = [CheckStatus::Found(FindingKind::Allowed), CheckStatus::Clean];
    assert_eq!(statuses, expected, "{}", checked.output());
}

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn allows_a_block_s_memory_that_the_context_frees() {
    let block = Check::new("load").confirm(false);
    let block = block.allow("fn:*allows_a_block_s_memory*", "the context frees it");
    block.run(|| {
        let context = create_context();
        allocate(10).unwrap();
        destroy_context(context);
    });
}

#[test]
fn memory_freed_only_by_the_last_release_is_a_finding() {
    let checked = run("leaves_freeing_to_the_last_release");
    let finding = assert_one_leak(&checked, Kind::Linear, 10);
    assert_ended(
        finding,
        "freed only because the last reference to the primary context was released",
    );
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn leaves_freeing_to_the_last_release() {
    let context = CudaContext::new(0).unwrap();
    allocate(10).unwrap();
    drop(context);
}

#[test]
fn memory_freed_only_by_a_device_reset_is_a_finding() {
    let checked = run("leaves_freeing_to_a_reset");
    let finding = assert_one_leak(&checked, Kind::Linear, 10);
    assert_ended(finding, "freed only because the device was reset");
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn leaves_freeing_to_a_reset() {
    let _context = CudaContext::new(0).unwrap();
    allocate(10).unwrap();
    reset_device();
}

#[test]
fn a_texture_left_in_one_of_two_contexts_is_a_finding() {
    // The textures of both contexts may have the same handle.
    let checked = run("leaves_a_texture_in_one_of_two_contexts");
    let finding = assert_one_leak(&checked, Kind::Texture, 0);
    assert_ended(finding, "freed only because its context was destroyed");
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn leaves_a_texture_in_one_of_two_contexts() {
    let outer = create_context();
    let floats = allocate(1024).unwrap();
    create_texture(floats);
    uses_a_texture_in_a_context();
    free(floats).unwrap();
    destroy_context(outer);
}

fn uses_a_texture_in_a_context() {
    let context = create_context();
    let floats = allocate(1024).unwrap();
    destroy_texture(create_texture(floats));
    free(floats).unwrap();
    destroy_context(context);
}

#[test]
fn memory_of_a_green_context_may_outlive_it() {
    run("frees_after_the_green_context_ended").assert_clean();
}

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn frees_after_the_green_context_ended() {
    let primary = context();
    let (green, current) = create_green();
    make_current(current);
    let memory = allocate(10).unwrap();
    let stream = create_stream();
    make_current(primary.cu_ctx());
    // The driver of CUDA 13.0 cannot destroy a stream after its green context.
    destroy_stream(stream);
    destroy_green(green);
    free(memory).unwrap();
}

#[test]
fn a_stream_outlives_its_green_context() {
    let checked = run("leaves_a_stream_to_the_green_context");
    let finding = assert_one_leak(&checked, Kind::Stream, 0);
    assert_eq!(finding.ended, None, "{finding:?}");
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn leaves_a_stream_to_the_green_context() {
    let primary = context();
    let (green, current) = create_green();
    make_current(current);
    create_stream();
    make_current(primary.cu_ctx());
    destroy_green(green);
}
