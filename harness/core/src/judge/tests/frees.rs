//! Tests of failed frees and broken contexts.

use super::body::{Run, check, frame, gpu, library};
use crate::judge::{ContextError, Freed, FreedInside};
use crate::ledger::event::{ContextEnd, ContextUid, CuResult, Key, Space};
use crate::ledger::{Anomaly, FailedCall, Kind, Layer, Place, StackId};
use crate::report::Owner;

/// Adds a failed free of an address that is not live.
fn free_unknown(run: &mut Run<'_>, space: Space, value: u64, line: u32, error: CuResult) {
    let caller = run.caller(line);
    let failed = FailedCall {
        key: Key::new(space, value),
        record: None,
        caller,
        error,
    };
    run.input.anomalies.push(Anomaly::FailedFree(failed));
}

#[test]
fn memory_live_only_because_its_free_failed_is_reported_as_such() {
    let mut check = check();
    check.run(|run| {
        for bytes in [64, 64] {
            let taken = run.take(10, bytes);
            run.fail_to_free(taken, 20, 1);
            // A second failure to free the same record is not counted.
            run.fail_to_free(taken, 20, 1);
        }
        run.take(10, 64);
        let taken = run.take(30, 8);
        run.fail_to_free(taken, 40, 1);
        run.fail_to_free(taken, 41, 1);
        run.fail_to_free(taken, 40, 4);
        let larger = run.take(30, 16);
        run.fail_to_free(larger, 40, 1);
    });
    check.run(|run| {
        let taken = run.take(10, 64);
        run.fail_to_free(taken, 20, 1);
    });
    check
        .input
        .names
        .errors
        .insert(1, "CUDA_ERROR_INVALID_VALUE".to_owned());
    check.reports(
        "
        failed-free
        failed-free: 2 × linear on cuda:0 at src/app.rs:10; allocated 2; bytes 128; each 64; failed CUDA_ERROR_INVALID_VALUE (1) at src/app.rs:20; records [0, 1, 5]
        failed-free: 2 × linear on cuda:0 at src/app.rs:30; allocated 2; bytes 24; failed CUDA_ERROR_INVALID_VALUE (1) at src/app.rs:40; records [3, 4]
        failed-free: 1 × linear on cuda:0 at src/app.rs:30; allocated 1; bytes 8; each 8; failed CUDA_ERROR_INVALID_VALUE (1) at src/app.rs:41; records [3]
        failed-free: 1 × linear on cuda:0 at src/app.rs:30; allocated 1; bytes 8; each 8; failed CUresult 4 (4) at src/app.rs:40; records [3]
        first-use: 1 × linear on cuda:0 at src/app.rs:10; allocated 1; bytes 64; each 64; when {first:3,last:3,of:5}; records [2]
    ",
    );
}

#[test]
fn a_failed_free_explains_which_memory_was_probably_meant() {
    let mut check = check();
    check.run(|run| {
        let before = run.take(10, 4096);
        let record = run.free(before);
        let stack = run.caller(15).stack;
        run.input.freed_before.push(Freed { record, stack });
        let address = record.made.key.value();
        free_unknown(run, Space::DevicePointer, address, 20, 1);
        free_unknown(run, Space::DevicePointer, address, 20, 1);
        // These are frees of an address inside a live record, and of the address just after its
        // end.
        let live = run.take(30, 256);
        let begin = 0x1000 * (live + 1);
        free_unknown(run, Space::DevicePointer, begin + 255, 40, 1);
        free_unknown(run, Space::DevicePointer, begin + 256, 50, 1);
        // These frees use the call for another kind of memory.
        free_unknown(run, Space::HostPointer, begin, 60, 1);
        let pinned = run.make(70, |made| {
            made.key.space = Space::HostPointer;
            (made.kind, made.bytes, made.place) = (Kind::Pinned, 64, Place::HOST);
        });
        free_unknown(run, Space::RegisteredPointer, 0x1000 * (pinned + 1), 80, 1);
        let registered = run.make(90, |made| {
            made.key.space = Space::RegisteredPointer;
            (made.kind, made.bytes, made.place) = (Kind::Registered, 64, Place::HOST);
        });
        free_unknown(run, Space::DevicePointer, 0x1000 * (registered + 1), 100, 1);
        let event = run.make(110, |made| {
            made.key.space = Space::Handle(Kind::Event);
            made.kind = Kind::Event;
        });
        // An event whose handle has the same value is not what this call was supposed to free.
        free_unknown(run, Space::DevicePointer, 0x1000 * (event + 1), 120, 1);
        let record = run.free(event);
        let stack = StackId(0);
        run.input.freed_before.push(Freed { record, stack });
        free_unknown(
            run,
            Space::Handle(Kind::Event),
            record.made.key.value(),
            130,
            1,
        );
    });
    check.reports(
        "
        leaked
        failed-free: 1 × linear on cuda:0 at an unknown place; allocated 1; failed CUresult 1 (1) at src/app.rs:40; notes [0x30ff is not the start of an allocation: it lies 255 bytes inside 256 B of linear memory, allocated at src/app.rs:30; free the address that the allocation returned]; records []
        failed-free: 1 × pinned on host at an unknown place; allocated 1; failed CUresult 1 (1) at src/app.rs:60; notes [0x3000 is 256 B of linear memory, allocated at src/app.rs:30: call cuMemFree instead]; records []
        failed-free: 1 × registered on host at an unknown place; allocated 1; failed CUresult 1 (1) at src/app.rs:80; notes [0x4000 is 64 B of pinned memory, allocated at src/app.rs:70: call cuMemFreeHost instead]; records []
        failed-free: 1 × linear on unknown device at an unknown place; allocated 1; failed CUresult 1 (1) at src/app.rs:100; notes [0x5000 is 64 B of registered memory, registered at src/app.rs:90: call cuMemHostUnregister instead]; records []
        leaked: 1 × linear on cuda:0 at src/app.rs:30; allocated 1; bytes 256; each 256; when {first:3,last:3,of:7}; records [2]
        leaked: 1 × pinned on host at src/app.rs:70; allocated 1; bytes 64; each 64; when {first:4,last:4,of:7}; records [3]
        leaked: 1 × registered on host at src/app.rs:90; allocated 1; bytes 64; each 64; when {first:5,last:5,of:7}; records [4]
        failed-free: 2 × linear on cuda:0 at an unknown place; allocated 2; failed CUresult 1 (1) at src/app.rs:20; notes [0x1000 was already freed, at src/app.rs:15: 4.00 KiB of linear memory, allocated at src/app.rs:10]; records []
        failed-free: 1 × linear on unknown device at an unknown place; allocated 1; failed CUresult 1 (1) at src/app.rs:50; notes [0x3100 was not live when it was freed]; records []
        failed-free: 1 × linear on unknown device at an unknown place; allocated 1; failed CUresult 1 (1) at src/app.rs:120; notes [0x6000 was not live when it was freed]; records []
        failed-free: 1 × event on cuda:0 at an unknown place; allocated 1; failed CUresult 1 (1) at src/app.rs:130; notes [0x6000 was already destroyed: 1 event, created at src/app.rs:110]; records []
    ",
    );
}

#[test]
fn a_free_that_is_probably_the_cause_of_a_leak_comes_before_it() {
    let mut check = check();
    check.run(|run| {
        let first = run.take(10, 4096);
        let record = run.free(first);
        let stack = run.caller(20).stack;
        run.input.freed_before.push(Freed { record, stack });
        // The first block is freed again instead of the second one.
        run.take(10, 4096);
        free_unknown(run, Space::DevicePointer, record.made.key.value(), 20, 1);
        // These frees of addresses inside live blocks are made at one line, so they are one
        // mistake.
        for _ in 0..3 {
            let live = run.take(30, 256);
            free_unknown(run, Space::DevicePointer, 0x1000 * (live + 1) + 16, 40, 1);
        }
        run.take(50, 1 << 20);
        free_unknown(run, Space::DevicePointer, 0x10, 60, 1);
    });
    check.reports(
        "
        leaked
        failed-free: 3 × linear on cuda:0 at an unknown place; allocated 3; failed CUresult 1 (1) at src/app.rs:40; notes [0x4010 (one of 3 such addresses) is not the start of an allocation: it lies 16 bytes inside 256 B of linear memory, allocated at src/app.rs:30; free the address that the allocation returned]; records []
        failed-free: 1 × linear on cuda:0 at an unknown place; allocated 1; failed CUresult 1 (1) at src/app.rs:20; notes [0x1000 was already freed, at src/app.rs:20: 4.00 KiB of linear memory, allocated at src/app.rs:10]; records []
        leaked: 1 × linear on cuda:0 at src/app.rs:50; allocated 1; bytes 1048576; each 1048576; when {first:7,last:7,of:7}; records [6]
        leaked: 1 × linear on cuda:0 at src/app.rs:10; allocated 2; bytes 4096; each 4096; freed 1; when {first:3,last:3,of:7}; records [2]
        leaked: 3 × linear on cuda:0 at src/app.rs:30; allocated 3; bytes 768; each 256; when {first:4,last:6,of:7}; records [3, 4, 5]
        failed-free: 1 × linear on unknown device at an unknown place; allocated 1; failed CUresult 1 (1) at src/app.rs:60; notes [0x10 was not live when it was freed]; records []
    ",
    );
}

#[test]
fn an_unexplained_address_is_reported_with_the_kind_that_the_call_frees() {
    let context = ContextUid(1);
    let of = |kind| Space::Object {
        kind,
        context,
        copy: 0,
    };
    let layer = Layer::allocator("frees-cache");
    let spaces = [
        Space::DevicePointer,
        Space::HostPointer,
        Space::RegisteredPointer,
        Space::PhysicalHandle,
        Space::IpcPointer,
        Space::Handle(Kind::Stream),
        of(Kind::Fence),
        Space::Observed(layer),
    ];
    let mut check = check();
    check.run(|run| {
        for (line, space) in (1..).zip(spaces) {
            // A single line may fail to free resources of several kinds.
            free_unknown(run, space, 0xbad0, line / 2, 1);
        }
    });
    check.reports(
        "
        failed-free
        failed-free: 1 × linear on unknown device at an unknown place; allocated 1; failed CUresult 1 (1) at src/app.rs:0; notes [0xbad0 was not live when it was freed]; records []
        failed-free: 1 × pinned on host at an unknown place; allocated 1; failed CUresult 1 (1) at src/app.rs:1; notes [0xbad0 was not live when it was freed]; records []
        failed-free: 1 × registered on host at an unknown place; allocated 1; failed CUresult 1 (1) at src/app.rs:1; notes [0xbad0 was not live when it was freed]; records []
        failed-free: 1 × physical on unknown device at an unknown place; allocated 1; failed CUresult 1 (1) at src/app.rs:2; notes [0xbad0 was not live when it was freed]; records []
        failed-free: 1 × imported on unknown device at an unknown place; allocated 1; failed CUresult 1 (1) at src/app.rs:2; notes [0xbad0 was not live when it was freed]; records []
        failed-free: 1 × stream on unknown device at an unknown place; allocated 1; failed CUresult 1 (1) at src/app.rs:3; notes [0xbad0 was not live when it was freed]; records []
        failed-free: 1 × fence on unknown device at an unknown place; allocated 1; failed CUresult 1 (1) at src/app.rs:3; notes [0xbad0 was not live when it was freed]; records []
        failed-free: 1 × block on unknown device at an unknown place; allocated 1; failed CUresult 1 (1) at src/app.rs:4; notes [0xbad0 was not live when it was freed]; records []
    ",
    );
}

#[test]
fn the_first_run_that_can_explain_a_failed_free_explains_it() {
    let mut check = check();
    check.run(|run| free_unknown(run, Space::DevicePointer, 0xbad0, 20, 1));
    for _ in 0..2 {
        check.run(|run| {
            let live = run.take(30, 256);
            free_unknown(run, Space::DevicePointer, 0x1000 * (live + 1) + 8, 20, 1);
        });
    }
    check.reports(
        "
        leaked
        failed-free: 1 × linear on cuda:0 at an unknown place; allocated 1; failed CUresult 1 (1) at src/app.rs:20; notes [0x1008 is not the start of an allocation: it lies 8 bytes inside 256 B of linear memory, allocated at src/app.rs:30; free the address that the allocation returned]; records []
        leaked: 1 × linear on cuda:0 at src/app.rs:30; allocated 1; bytes 256; confirmed {bytes:256,count:1,of:3,runs:2}; each 256; when {first:1,last:1,of:1}; records [0, 1]
    ",
    );
}

#[test]
fn a_free_inside_a_leak_is_noted_with_its_distance() {
    let mut check = check();
    check.run(|run| {
        let layer = Layer::allocator("frees-cache");
        let record = run.make(10, |made| {
            (made.kind, made.layer, made.bytes) = (Kind::Block, layer, 64);
        });
        run.take(20, 64);
        for (line, offset) in [(30, 8), (30, 8), (30, 16), (40, 8), (50, 8)] {
            let stack = run.caller(line).stack;
            run.input.freed_inside.push(FreedInside {
                record,
                offset,
                stack,
            });
        }
    });
    check.reports(
        "
        leaked
        leaked: 1 × linear on cuda:0 at src/app.rs:20; allocated 1; bytes 64; each 64; when {first:2,last:2,of:2}; records [1]
        leaked: 1 × block on cuda:0 at src/app.rs:10 by allocator:frees-cache; allocated 1; bytes 64; each 64; notes [2 frees in app::step30 (src/app.rs:30) passed an address 8 bytes past the start of the allocation,1 free in app::step30 (src/app.rs:30) passed an address 16 bytes past the start of the allocation,1 free in app::step40 (src/app.rs:40) passed an address 8 bytes past the start of the allocation]; passages [{frame:{column:null,file:src/app.rs,function:app::step30,line:30,module:null,offset:null,owner:user},until:30,what:frees-inside},{frame:{column:null,file:src/app.rs,function:app::step40,line:40,module:null,offset:null,owner:user},until:40,what:frees-inside}]; when {first:1,last:1,of:2}; records [0]
    ",
    );
}

#[test]
fn a_free_inside_a_leak_is_noted_even_if_its_call_site_differs_between_runs() {
    let mut check = check();
    check.run(|run| _ = run.take(10, 64));
    check.run(|run| _ = run.take(20, 64));
    check.run(|run| {
        for line in [40, 30] {
            let record = run.take(line, 16);
            let stack = run.caller(50).stack;
            run.input.freed_inside.push(FreedInside {
                record,
                offset: 8,
                stack,
            });
        }
    });
    let result = crate::judge::judge(&check.input);
    assert_eq!(result.records, [[0, 2, 3]]);
    let notes = &result.findings[0].notes;
    let expected = "2 frees in app::step50 (src/app.rs:50) passed an address 8 bytes past the \
                    start of the allocation";
    assert!(notes.iter().any(|note| note == expected), "{notes:?}");
}

#[test]
fn in_a_broken_context_everything_that_could_not_be_freed_is_one_finding() {
    let mut check = check();
    check.run(|run| {
        let caller = run.caller(5);
        run.input.anomalies.push(Anomaly::FailedCreation {
            kind: Kind::Event,
            bytes: 0,
            caller,
            error: 700,
        });
        let taken = run.take(10, 64);
        run.fail_to_free(taken, 20, 700);
        let other = run.take(30, 8);
        run.fail_to_free(other, 40, 700);
        // This is an earlier failed free, with another error.
        let before = run.take(50, 16);
        run.fail_to_free(before, 60, 1);
        run.take(70, 32);
        run.make(80, |made| made.place = Place::cuda(1));
        run.make(85, |made| {
            (made.kind, made.place) = (Kind::Pinned, Place::HOST)
        });
        let ended = run.take(90, 128);
        let record = run.free(ended);
        let caller = run.caller(95);
        run.input.anomalies.push(Anomaly::EndedWithContext {
            record,
            cause: ContextEnd::Destroyed,
            caller,
        });
    });
    check.reports(
        "
        failed-free
        failed-free: 6 × reserve on cuda:0 at src/app.rs:10; allocated 1; bytes 232; failed CUDA_ERROR_ILLEGAL_ADDRESS (700) at src/app.rs:5; notes [the context is broken: a kernel or a copy failed, so every later call in the context fails; this is the first such call that was intercepted, and 2 frees failed in all. First find the kernel or copy that failed]; records [0, 1, 3, 4, 5, 6]
        failed-free: 1 × linear on cuda:0 at src/app.rs:50; allocated 1; bytes 16; each 16; failed CUresult 1 (1) at src/app.rs:60; records [2]
        note: 1 × CUDA_ERROR_ILLEGAL_ADDRESS: event, requested at src/app.rs:5
    ",
    );
    // If the harness itself received the error, its device is known.
    let broken = ContextError {
        place: gpu(),
        error: 700,
    };
    check.input.runs[0].broken_inside = Some(broken);
    check.reports(
        "
        leaked
        failed-free: 5 × reserve on cuda:0 at src/app.rs:10; allocated 1; bytes 232; failed CUDA_ERROR_ILLEGAL_ADDRESS (700) at src/app.rs:5; notes [the context is broken: a kernel or a copy failed, so every later call in the context fails; this is the first such call that was intercepted, and 2 frees failed in all. First find the kernel or copy that failed]; records [0, 1, 3, 5, 6]
        leaked: 1 × linear on cuda:1 at src/app.rs:80; allocated 1; each 0; when {first:5,last:5,of:8}; records [4]
        failed-free: 1 × linear on cuda:0 at src/app.rs:50; allocated 1; bytes 16; each 16; failed CUresult 1 (1) at src/app.rs:60; records [2]
        note: 1 × CUDA_ERROR_ILLEGAL_ADDRESS: event, requested at src/app.rs:5
    ",
    );
    // A record that ended before the context was broken is a separate leak.
    let anomalies = &mut check.input.runs[0].anomalies;
    let ended = anomalies.pop().expect("one ended");
    anomalies.insert(0, ended);
    check.reports(
        "
        leaked
        failed-free: 4 × reserve on cuda:0 at src/app.rs:10; allocated 1; bytes 104; failed CUDA_ERROR_ILLEGAL_ADDRESS (700) at src/app.rs:5; notes [the context is broken: a kernel or a copy failed, so every later call in the context fails; this is the first such call that was intercepted, and 2 frees failed in all. First find the kernel or copy that failed]; records [0, 1, 3, 5]
        leaked: 1 × linear on cuda:0 at src/app.rs:90; allocated 1; bytes 128; each 128; ended {at:app::step95 (src/app.rs:95),how:freed only because its context was destroyed}; when {first:7,last:7,of:8}; records [6]
        leaked: 1 × linear on cuda:1 at src/app.rs:80; allocated 1; each 0; when {first:5,last:5,of:8}; records [4]
        failed-free: 1 × linear on cuda:0 at src/app.rs:50; allocated 1; bytes 16; each 16; failed CUresult 1 (1) at src/app.rs:60; records [2]
        note: 1 × CUDA_ERROR_ILLEGAL_ADDRESS: event, requested at src/app.rs:5
    ",
    );
}

#[test]
fn leaks_are_reported_if_a_context_broke_without_a_failed_free() {
    let mut check = check();
    check.run(|run| {
        let caller = run.caller(5);
        run.input.anomalies.push(Anomaly::FailedCreation {
            kind: Kind::Linear,
            bytes: 64,
            caller,
            error: 700,
        });
        run.take(10, 64);
    });
    check.reports(
        "
        leaked
        leaked: 1 × linear on cuda:0 at src/app.rs:10; allocated 1; bytes 64; each 64; when {first:1,last:1,of:1}; records [0]
        note: 1 × CUDA_ERROR_ILLEGAL_ADDRESS: 64 B of linear memory, requested at src/app.rs:5
    ",
    );
}

#[test]
fn the_free_that_broke_a_context_comes_first() {
    let mut check = check();
    check.run(|run| {
        for (line, error) in [(10, 1), (20, 700)] {
            let taken = run.take(line, 64);
            run.fail_to_free(taken, line + 1, error);
        }
        run.make(30, |made| (made.bytes, made.place) = (4096, Place::cuda(1)));
        run.input.broken_inside = Some(ContextError {
            place: gpu(),
            error: 700,
        });
    });
    check.reports(
        "
        leaked
        failed-free: 1 × linear on cuda:0 at src/app.rs:20; allocated 1; bytes 64; failed CUDA_ERROR_ILLEGAL_ADDRESS (700) at src/app.rs:21; notes [the context is broken: a kernel or a copy failed, so every later call in the context fails; this is the first such call that was intercepted, and 1 free failed in all. First find the kernel or copy that failed]; records [1]
        leaked: 1 × linear on cuda:1 at src/app.rs:30; allocated 1; bytes 4096; each 4096; when {first:3,last:3,of:3}; records [2]
        failed-free: 1 × linear on cuda:0 at src/app.rs:10; allocated 1; bytes 64; each 64; failed CUresult 1 (1) at src/app.rs:11; records [0]
    ",
    );
}

#[test]
fn allocations_that_failed_are_noted_by_line() {
    let mut check = check();
    check.stack(
        60,
        &[
            library("libcuda.so.1", "cuMemAlloc_v2", Owner::Cuda),
            frame(60),
        ],
    );
    let mut fail = |lines: &[(u32, Kind, u64)]| {
        check.run(|run| {
            for (line, kind, bytes) in lines {
                let caller = run.caller(*line);
                run.input.anomalies.push(Anomaly::FailedCreation {
                    kind: *kind,
                    bytes: *bytes,
                    caller,
                    error: 2,
                });
            }
        });
    };
    fail(&[
        (10, Kind::Linear, 1 << 40),
        (20, Kind::Linear, 64),
        (20, Kind::Linear, 64),
        (30, Kind::Linear, 64),
        (30, Kind::Linear, 32),
        (40, Kind::Stream, 0),
        (40, Kind::Stream, 0),
        (40, Kind::Event, 0),
    ]);
    fail(&[
        (50, Kind::Linear, 64),
        (60, Kind::Linear, 64),
        (60, Kind::Linear, 64),
    ]);
    check.reports(
        "
        clean
        note: 1 × CUresult 2: 1.00 TiB of linear memory, requested at src/app.rs:10
        note: 2 × CUresult 2: 64 B of linear memory each, requested at src/app.rs:20
        note: 2 × CUresult 2: 96 B of linear memory in all, requested at src/app.rs:30
        note: 2 × CUresult 2: stream, requested at src/app.rs:40
        note: 1 × CUresult 2: event, requested at src/app.rs:40
    ",
    );
    // Every round counts.
    check.input.facts.rounds = 2;
    check.reports(
        "
        clean
        note: 1 × CUresult 2: 1.00 TiB of linear memory, requested at src/app.rs:10
        note: 2 × CUresult 2: 64 B of linear memory each, requested at src/app.rs:20
        note: 2 × CUresult 2: 96 B of linear memory in all, requested at src/app.rs:30
        note: 2 × CUresult 2: stream, requested at src/app.rs:40
        note: 1 × CUresult 2: event, requested at src/app.rs:40
        note: 3 other allocate or create calls failed during the test
    ",
    );
}

#[test]
fn in_broken_contexts_of_two_runs_only_the_first_run_is_counted() {
    let mut check = check();
    for _ in 0..2 {
        check.run(|run| {
            let taken = run.take(10, 4);
            run.fail_to_free(taken, 20, 700);
        });
    }
    let result = crate::judge::judge(&check.input);
    let [failed] = &result.findings[..] else {
        panic!("{:#?}", result.findings)
    };
    assert_eq!((failed.count, failed.bytes), (1, 4));
    assert!(failed.notes[0].contains("1 free failed in all"), "{failed}");
    assert_eq!(result.records, [vec![0, 1]]);
}
