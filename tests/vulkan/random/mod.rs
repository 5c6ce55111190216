//! Random programs of Vulkan calls. After each call, the ledger contains exactly the objects
//! that the program has created and not destroyed: each with its handle, its bytes, its place, the
//! memory or the pool to which it belongs, and together with the other objects of its device.
//!
//! The programs open several instances and devices, look each function up in several ways, and
//! give the driver memory for its own data, of which it gets too little in some calls. In every
//! second program, two threads use one device at once. All calls are valid, except that a device or
//! an instance may end before its objects. `VK_INSTANCE_LAYERS=VK_LAYER_KHRONOS_validation` checks
//! the calls.
//!
//! `RANDOM_PROGRAMS=1000` runs more programs, and `RANDOM_PROGRAM=17` only the one with this
//! number. A program that fails runs again with fewer and fewer steps, and the test prints the
//! calls of the shortest one that still fails.

#![expect(clippy::print_stderr, reason = "the parent reads a program's calls")]

mod allocator;
mod functions;
mod memory;
mod owners;
mod pipelines;
mod pools;
mod program;
mod simple;
mod steps;

use std::collections::BTreeMap;
use std::thread;

use ash::vk;
use gpu_leak_check::ledger::{self, Anomaly, Kind, Layer, Place, Record};
use gpu_leak_tests::child::Run;
use gpu_leak_tests::random::{Programs, Random, calls_of_failure};
use gpu_leak_tests::skipped;
use gpu_leak_vulkan_tests::{gpu, is_present, with_two_devices};

use self::functions::Loader;
use self::program::{Note, Object, RandomProgram};

/// An object as the ledger and the program know it: its kind, handle, bytes and place, and the
/// handle of its memory or pool.
type Known = (Kind, u64, u64, String, u64);

/// Returns the objects of each instance and device, in an order that depends only on the objects.
fn sorted(groups: BTreeMap<u64, Vec<Known>>) -> Vec<Vec<Known>> {
    let mut groups: Vec<_> = groups.into_values().collect();
    for group in &mut groups {
        group.sort();
    }
    groups.sort();
    groups
}

fn in_ledger() -> Vec<Vec<Known>> {
    let records = ledger::live().select(|_| true);
    let within = |record: &Record| {
        let is_bound = matches!(record.made.kind, Kind::Buffer | Kind::Image);
        let memory = records
            .iter()
            .find(|it| is_bound && it.sequence == record.made.pool);
        memory.map_or(record.made.pool, |memory| memory.made.key.value())
    };
    let mut groups = BTreeMap::<_, Vec<_>>::new();
    for record in &records {
        let made = &record.made;
        let place = made.place.to_string();
        let known = (
            made.kind,
            made.key.value(),
            made.bytes,
            place,
            within(record),
        );
        groups.entry(made.context.0.into()).or_default().push(known);
    }
    sorted(groups)
}

fn in_programs(programs: &[RandomProgram<'_>]) -> Vec<Vec<Known>> {
    let objects = || programs.iter().flat_map(|program| &program.objects);
    let by_id: BTreeMap<u64, &Object> = objects().map(|it| (it.id, it)).collect();
    let mut groups = BTreeMap::<_, Vec<_>>::new();
    for object in by_id.values() {
        let place = match object.kind {
            Kind::Instance | Kind::Messenger | Kind::Surface => "host".to_owned(),
            Kind::Device => format!("vulkan:{}", object.number),
            _ => format!("vulkan:{}", by_id[&object.of].number),
        };
        let within = by_id.get(&object.within).map_or(0, |it| it.handle);
        let known = (object.kind, object.handle, object.bytes, place, within);
        groups.entry(object.of).or_default().push(known);
    }
    sorted(groups)
}

/// Returns how the ledger and the programs differ.
fn difference(programs: &[RandomProgram<'_>]) -> Option<String> {
    let (there, expected) = (in_ledger(), in_programs(programs));
    if there != expected {
        let only = |these: &[Vec<Known>], those: &[Vec<Known>]| {
            let those: Vec<_> = those.iter().flatten().collect();
            let mut only: Vec<_> = these.iter().flatten().collect();
            only.retain(|it| !those.contains(it));
            format!("{only:x?}")
        };
        return Some(format!(
            "only in the ledger: {}; only in the program: {}; if there is nothing, the devices differ",
            only(&there, &expected),
            only(&expected, &there)
        ));
    }
    let ledger = ledger::live();
    let mut anomalies = ledger.anomalies.since(Default::default()).into_iter();
    let anomaly = anomalies.find(|it| !matches!(it, Anomaly::FailedCreation { .. }));
    let unknown = ledger.unknown_frees();
    if anomaly.is_some() || unknown != 0 {
        return Some(format!("{unknown} unknown frees, {anomaly:?}"));
    }
    ["vulkan:0", "vulkan:1"].into_iter().find_map(|name| {
        let is_memory = |it: &&Known| matches!(it.0, Kind::Memory | Kind::Imported);
        let there = || expected.iter().flatten().filter(|it| it.3 == name);
        let bytes: u64 = there().filter(is_memory).map(|it| it.2).sum();
        let handles = there().filter(|it| !is_memory(it)).count() as u64;
        let place = Place::named(name);
        let counted = (
            ledger.bytes(Layer::DRIVER, place).live,
            ledger.handles(place).live,
        );
        (counted != (bytes, handles)).then(|| format!("{counted:?}, not {bytes} and {handles}"))
    })
}

/// Runs these steps of a program, until it and the ledger differ.
fn run(number: u64, steps: &[u64]) {
    let loader = Loader::load();
    let mut programs = vec![RandomProgram::new(&loader)];
    programs[0].random = Random(!number);
    // Some of the calls run out of memory.
    for _ in 0..100 {
        if programs[0].devices.is_empty() {
            owners::create_instance(&mut programs[0]);
            owners::create_device(&mut programs[0]);
        }
    }
    assert!(!programs[0].devices.is_empty(), "there is a device");
    if number % 2 == 1 {
        let second = programs[0].share();
        programs.push(second);
    }
    let assert_equal = |programs: &[RandomProgram<'_>], when: String| {
        if let Some(difference) = difference(programs) {
            eprintln!("\n> {difference}");
            panic!("{when}");
        }
    };
    for step in steps {
        // A step makes the same choices, whichever steps were before it.
        let seed = number << 32 | step << 3;
        if let [program] = &mut programs[..] {
            program.step(Random(seed));
        } else {
            thread::scope(|scope| {
                for (thread, program) in (0..).zip(&mut programs) {
                    scope.spawn(move || {
                        for part in 0..4 {
                            program.step(Random(seed | thread << 2 | part));
                        }
                    });
                }
            });
        }
        assert_equal(&programs, format!("after step {step}"));
    }
    while let Some(mut program) = programs.pop() {
        let is_last = programs.is_empty();
        let shared = program.objects.iter_mut();
        let shared = shared.filter(|it| is_last && it.note == Note::SharedByThreads);
        shared.for_each(|it| it.note = Note::None);
        while program.destroy_one(|_| true) {}
        assert_equal(&programs, "at the end".to_owned());
    }
}

#[test]
fn after_each_call_the_ledger_has_what_the_program_has() {
    const TEST: &str = "random::after_each_call_the_ledger_has_what_the_program_has";
    if let Some((number, steps)) = Programs::chosen() {
        return run(number, &steps);
    }
    if !is_present() {
        return;
    }
    let instance = &gpu().instance;
    // SAFETY: the physical device belongs to this instance.
    let device = unsafe { instance.get_physical_device_properties(gpu().physical) };
    if device.vendor_id == vk::VendorId::MESA.as_raw() as u32 {
        let programs = Programs {
            count: 8,
            steps: 400,
            test: &format!("gpu-leak-vulkan-tests --test vulkan {TEST}"),
        };
        programs.assert_pass(|number, steps| {
            calls_of_failure(with_two_devices(Run::of(TEST)), number, steps)
        });
    } else {
        skipped("random programs of Vulkan calls are only for lavapipe");
    }
}
