//! Tests of memory that contains other resources: bound objects, segments of an allocator, physical
//! memory.

use super::body::{check, frame, gpu, library};
use crate::judge::{Ownership, Segment};
use crate::ledger::event::{ContextEnd, ContextUid, Key, Space};
use crate::ledger::{Anomaly, Holding, Kind, Layer};
use crate::report::{AllowedBy, Owner};

/// Returns the key of an object of the first context.
fn object(kind: Kind, value: u64) -> Key {
    let (context, copy) = (ContextUid(1), 0);
    Key::new(
        Space::Object {
            kind,
            context,
            copy,
        },
        value,
    )
}

#[test]
fn bound_memory_is_judged_as_the_objects_bound_to_it() {
    let mut check = check();
    check.run(|run| {
        for (line, value) in [(10, 1), (20, 2)] {
            run.make(line, |made| {
                made.key = object(Kind::Memory, value);
                (made.kind, made.bytes) = (Kind::Memory, 1024);
            });
        }
        // Memory that is allocated later, or on another device, may have the same handle.
        run.make(30, |made| {
            made.key = object(Kind::Memory, 2);
            (made.kind, made.bytes) = (Kind::Memory, 1024);
            made.context = ContextUid(2);
        });
        run.make(40, |made| {
            made.key = object(Kind::Buffer, 3);
            (made.kind, made.bytes, made.pool) = (Kind::Buffer, 64, 1); // the memory of line 20
        });
        // The handle of a pool is not mistaken for the handle of a memory object.
        run.make(45, |made| {
            (made.kind, made.bytes, made.pool) = (Kind::StreamOrdered, 64, 2);
        });
        run.make(50, |made| {
            made.key = object(Kind::Image, 4);
            (made.kind, made.bytes) = (Kind::Image, 64);
        });
    });
    check.reports(
        "
        leaked
        leaked: 1 × memory object on cuda:0 at src/app.rs:10; allocated 1; bytes 1024; each 1024; when {first:1,last:1,of:6}; records [0]
        leaked: 1 × memory object on cuda:0 at src/app.rs:30; allocated 1; bytes 1024; each 1024; when {first:3,last:3,of:6}; records [2]
        leaked: 1 × stream-ordered on cuda:0 at src/app.rs:45; allocated 1; bytes 64; each 64; when {first:5,last:5,of:6}; records [4]
        leaked: 1 × buffer on cuda:0 at src/app.rs:40; allocated 1; bytes 64; each 64; when {first:4,last:4,of:6}; records [3]
        leaked: 1 × image on cuda:0 at src/app.rs:50; allocated 1; bytes 64; each 64; when {first:6,last:6,of:6}; records [5]
    ",
    );
}

#[test]
fn memory_of_a_bound_object_that_ended_with_its_device_is_not_reported_beside_it() {
    let mut check = check();
    check.run(|run| {
        let image = run.make(20, |made| {
            made.key = object(Kind::Image, 3);
            (made.kind, made.bytes, made.pool) = (Kind::Image, 64, 1);
        });
        let memory = run.make(10, |made| {
            made.key = object(Kind::Memory, 1);
            (made.kind, made.bytes) = (Kind::Memory, 1024);
        });
        assert_eq!(memory, 1, "the image is bound to it");
        for it in [memory, image] {
            let record = run.free(it);
            let caller = run.caller(80);
            run.input.anomalies.push(Anomaly::EndedWithContext {
                record,
                cause: ContextEnd::DeviceDestroyed,
                caller,
            });
        }
    });
    check.reports(
        "
        leaked
        leaked: 1 × image on cuda:0 at src/app.rs:20; allocated 1; bytes 64; each 64; ended {at:app::step80 (src/app.rs:80),how:not destroyed before its device was destroyed}; when {first:1,last:1,of:4}; records [0]
    ",
    );
}

#[test]
fn code_that_cuda_s_libraries_load_stays_for_the_process() {
    let mut check = check();
    check.stack(
        10,
        &[
            library("libcublas.so.13", "cublasCreate_v2", Owner::Cuda),
            frame(10),
        ],
    );
    check.run(|run| {
        for (kind, line) in [(Kind::Module, 10), (Kind::Library, 10), (Kind::Module, 20)] {
            run.make(line, |made| made.kind = kind);
        }
        run.take(10, 64);
        // Unloading the code at the end may fail.
        let code = run.make(10, |made| made.kind = Kind::Library);
        run.fail_to_free(code, 30, 4);
        let ended = run.make(10, |made| made.kind = Kind::Module);
        let record = run.free(ended);
        let caller = run.caller(80);
        run.input.anomalies.push(Anomaly::EndedWithContext {
            record,
            cause: ContextEnd::Destroyed,
            caller,
        });
        run.input.freed_by_shutdown.push(record);
    });
    check.reports(
        "
        leaked
        leaked: 1 × module on cuda:0 at src/app.rs:20; allocated 1; each 0; when {first:3,last:3,of:7}; records [2]
        leaked: 1 × linear on cuda:0 at src/app.rs:10; allocated 5; bytes 64; each 64; freed 1; when {first:4,last:4,of:7}; records [3]
    ",
    );
}

#[test]
fn segments_of_an_allocator_without_a_probe_are_not_judged() {
    let mut check = check();
    let c10 = library(
        "libc10_cuda.so",
        "c10::cuda::CUDACachingAllocator::raw_alloc",
        Owner::Native,
    );
    let rmm = library(
        "librmm.so",
        "rmm::mr::pool_memory_resource::allocate",
        Owner::Native,
    );
    check.stack(10, &[c10.clone(), frame(10)]);
    check.stack(20, &[rmm, frame(20)]);
    check.stack(30, &[c10, frame(30)]);
    check.run(|run| {
        for line in [10, 20, 30, 40] {
            run.take(line, 1 << 21);
        }
        run.make(10, |made| made.kind = Kind::Event);
    });
    check.reports(
        r#"
        leaked
        leaked: 1 × linear on cuda:0 at src/app.rs:40; allocated 1; bytes 2097152; each 2097152; when {first:4,last:4,of:5}; records [3]
        leaked: 1 × event on cuda:0 at src/app.rs:10; allocated 2; each 0; when {first:5,last:5,of:5}; records [4]
        note: memory that c10 (used by tch and PyTorch) and rmm (used by RAPIDS) allocated from the driver is still held: only a probe can tell which parts of it are in use, so it may be a leak or a cache; register a probe named "c10" and a probe named "rmm" with gpu_leak_check::probe!, or empty the allocators' caches before the test ends
    "#,
    );
    let mut probed = check.clone();
    probed.input.runs[0].probed = vec!["c10".to_owned(), "rmm".to_owned()];
    probed.reports(
        "
        leaked
        leaked: 1 × linear on cuda:0 at src/app.rs:40; allocated 1; bytes 2097152; each 2097152; when {first:4,last:4,of:5}; records [3]
        leaked: 1 × event on cuda:0 at src/app.rs:10; allocated 2; each 0; when {first:5,last:5,of:5}; records [4]
    ",
    );
    let mut one = check.clone();
    one.input.runs[0].probed = vec!["c10".to_owned()];
    one.reports(
        r#"
        leaked
        leaked: 1 × linear on cuda:0 at src/app.rs:40; allocated 1; bytes 2097152; each 2097152; when {first:4,last:4,of:5}; records [3]
        leaked: 1 × event on cuda:0 at src/app.rs:10; allocated 2; each 0; when {first:5,last:5,of:5}; records [4]
        note: memory that rmm (used by RAPIDS) allocated from the driver is still held: only a probe can tell which parts of it are in use, so it may be a leak or a cache; register a probe named "rmm" with gpu_leak_check::probe!, or empty the allocator's cache before the test ends
    "#,
    );
    // If a probe reports its segments, a record that is not among them is a leak.
    let layer = Layer::allocator("c10");
    let elsewhere = Segment {
        address: 1 << 40,
        bytes: 64,
    };
    probed.input.runs[0]
        .segments
        .add(layer, gpu(), &[elsewhere]);
    probed.reports(
        "
        leaked
        leaked: 1 × linear on cuda:0 at src/app.rs:40; allocated 1; bytes 2097152; each 2097152; when {first:4,last:4,of:5}; records [3]
        leaked: 1 × linear on cuda:0 at src/app.rs:10; allocated 2; bytes 2097152; consequences [{bytes:0,count:1,resource:event}]; each 2097152; when {first:1,last:1,of:5}; records [0]
        leaked: 1 × linear on cuda:0 at src/app.rs:30; allocated 1; bytes 2097152; each 2097152; when {first:3,last:3,of:5}; records [2]
        leaked: 1 × event on cuda:0 at src/app.rs:10; allocated 2; each 0; is_consequence true; when {first:5,last:5,of:5}; records [4]
    ",
    );
    // A whole program holds the segments until its end.
    check.input.facts.whole_program = true;
    check.reports(
        "
        leaked
        leaked: 1 × linear on cuda:0 at src/app.rs:40; allocated 1; bytes 2097152; each 2097152; when {first:4,last:4,of:5}; records [3]
        leaked: 1 × linear on cuda:0 at src/app.rs:10; allocated 2; bytes 2097152; consequences [{bytes:0,count:1,resource:event}]; each 2097152; when {first:1,last:1,of:5}; records [0]
        leaked: 1 × linear on cuda:0 at src/app.rs:20; allocated 1; bytes 2097152; each 2097152; when {first:2,last:2,of:5}; records [1]
        leaked: 1 × linear on cuda:0 at src/app.rs:30; allocated 1; bytes 2097152; each 2097152; when {first:3,last:3,of:5}; records [2]
        leaked: 1 × event on cuda:0 at src/app.rs:10; allocated 2; each 0; is_consequence true; when {first:5,last:5,of:5}; records [4]
    ",
    );
}

#[test]
fn memory_of_an_allocator_without_a_probe_may_be_allowed_or_handed_over() {
    let mut check = check();
    let c10 = library("libc10_cuda.so", "c10::cuda::alloc", Owner::Native);
    check.stack(10, &[c10.clone(), frame(10)]);
    check.stack(20, &[c10, frame(20)]);
    check.run(|run| {
        let allowed = run.take(10, 64);
        run.give(allowed, Ownership::Allowed(AllowedBy::the_code("a cache")));
        let handed_over = run.take(20, 64);
        run.give(handed_over, Ownership::HandedOver);
    });
    check.reports(
        "
        allowed
        allowed: 1 × linear on cuda:0 at src/app.rs:10; allocated 1; allowed_by {expired:null,owner:null,reason:a cache,stands_in:the code}; bytes 64; each 64; when {first:1,last:1,of:2}; records [0]
    ",
    );
}

#[test]
fn records_inside_a_segment_belong_to_its_allocator() {
    let layer = Layer::allocator("owners-cache");
    let mut check = check();
    check.run(|run| {
        let segment = run.take(10, 4096);
        let ended = run.take(20, 64);
        let record = run.free(ended);
        let caller = run.caller(80);
        run.input.anomalies.push(Anomaly::EndedWithContext {
            record,
            cause: ContextEnd::Reset,
            caller,
        });
        let segments = [segment, ended].map(|sequence| Segment {
            address: 0x1000 * (sequence + 1),
            bytes: 64,
        });
        run.input.segments.add(layer, gpu(), &segments);
        run.take(30, 64);
    });
    check.reports(
        "
        leaked
        leaked: 1 × linear on cuda:0 at src/app.rs:30; allocated 1; bytes 64; each 64; when {first:4,last:4,of:4}; records [3]
    ",
    );
}

#[test]
fn physical_memory_says_whether_a_handle_or_a_range_is_left() {
    let mut check = check();
    check.run(|run| {
        let of_lines = [
            (10, 1, 0),
            (20, 0, 2),
            (30, 1, 1),
            (40, 1, 0),
            (40, 0, 1),
            (40, 1, 1),
        ];
        for (value, (line, references, maps)) in (1..).zip(of_lines) {
            let space = Space::PhysicalObject;
            let key = Key::new(space, value);
            run.make(line, |made| {
                (made.key, made.kind, made.bytes) = (key, Kind::Physical, 64)
            });
            let holding = Holding {
                references,
                maps,
                mapped_at: None,
            };
            run.input.holdings.insert(key, holding);
        }
        run.take(50, 64);
    });
    check.reports(
        "
        leaked
        leaked: 3 × physical on cuda:0 at src/app.rs:40; allocated 3; bytes 192; each 64; notes [handles not released (cuMemRelease): 2, still mapped (cuMemUnmap): 2]; when {first:4,last:6,of:7}; records [3, 4, 5]
        leaked: 1 × linear on cuda:0 at src/app.rs:50; allocated 1; bytes 64; each 64; when {first:7,last:7,of:7}; records [6]
        leaked: 1 × physical on cuda:0 at src/app.rs:10; allocated 1; bytes 64; each 64; notes [its handle was not released (cuMemRelease)]; when {first:1,last:1,of:7}; records [0]
        leaked: 1 × physical on cuda:0 at src/app.rs:20; allocated 1; bytes 64; each 64; notes [it is still mapped (cuMemUnmap)]; when {first:2,last:2,of:7}; records [1]
        leaked: 1 × physical on cuda:0 at src/app.rs:30; allocated 1; bytes 64; each 64; notes [its handle was not released (cuMemRelease), it is still mapped (cuMemUnmap)]; when {first:3,last:3,of:7}; records [2]
    ",
    );
}
