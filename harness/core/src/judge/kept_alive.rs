//! Reports the objects that a leaked object keeps alive as part of its leak.
//!
//! One call to a library may create several resources, for example a buffer with its events or a
//! handle with its workspace. If all of them are left, this is one mistake, and it is reported as a
//! leak of the most important resource.
//!
//! In a library that counts references, an object keeps its device alive. So a forgotten buffer
//! also keeps alive its device and the instance, with everything that they created for themselves.
//! All of this is one leak, at the line of the object that the program forgot. If only the device
//! is left, the leak is at the line that opened the device.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use super::finding::Found;
use crate::call_site::libraries::counts_references;
use crate::ledger::Kind;
use crate::report::{Consequence, Finding, FindingKind, Frame, Owner};
use crate::units::quantity;

/// Combines findings that have the same cause into one.
pub(crate) fn fold(found: &mut Vec<Found>) {
    let opened: Vec<&Finding> = found.iter().map(|it| &it.finding).filter(opens).collect();
    let Some(device) = opened.iter().find(|it| it.resource == Some(Kind::Device)) else {
        return;
    };
    let (place, line) = (device.place, device.site.line());
    let lines: BTreeSet<_> = opened.iter().map(|it| it.site.line()).collect();
    let is_part = |it: &Found| is_leak(&it.finding) && lines.contains(&it.finding.site.line());
    let is_cause = |it: &Found| is_leak(&it.finding) && it.finding.place == place && !is_part(it);
    let causes = (0..found.len()).filter(|at| is_cause(&found[*at]));
    let largest = causes.max_by_key(|at| (found[*at].finding.bytes, found[*at].finding.count));
    let is_device = |it: &Found| it.finding.resource == Some(Kind::Device) && opens(&&it.finding);
    let Some(at) = largest.or_else(|| found.iter().position(is_device)) else {
        return;
    };
    let mut cause = found.remove(at);
    let parts: Vec<Found> = found.extract_if(.., |it| is_part(it)).collect();
    let count = parts.iter().map(|part| part.finding.count).sum();
    if count != 0 {
        let what = match largest {
            Some(_) => "including its device and instance, and everything created from them",
            None => "including its instance, and everything created from them",
        };
        let at = match &line {
            Some((file, line)) if largest.is_some() => {
                format!("; the device was opened at {file}:{line}")
            }
            _ => String::new(),
        };
        cause.finding.notes.push(format!(
            "keeps {} alive, {what}{at}",
            quantity(count, "other object")
        ));
        let records = parts.into_iter().flat_map(|part| part.records);
        cause.records.extend(records);
        cause.records.sort_unstable();
        cause.includes_others = true;
    }
    found.insert(at.min(found.len()), cause);
}

/// Finds leaks of resources that the same calls to a library created. The most important of these
/// leaks is reported. Each other leak is marked as a consequence of the reported one if its count
/// is a multiple of the reported leak's count. Memory is more important than handles, and a larger
/// leak of memory is more important than a smaller one.
pub(crate) fn mark_consequences(found: &mut [Found]) {
    let mut calls: FxHashMap<_, Vec<usize>> = FxHashMap::default();
    for (at, it) in found.iter().enumerate() {
        if let Some(call) = library_call(&it.finding) {
            calls.entry(call).or_default().push(at);
        }
    }
    let calls: Vec<_> = calls.into_values().collect();
    for mut all in calls {
        // Memory comes before handles. Among handles, the kind with the lowest count comes first.
        all.sort_by_key(|at| {
            let finding = &found[*at].finding;
            (Reverse(finding.bytes), finding.count)
        });
        let (cause, parts) = all.split_first().expect("at least one");
        for part in parts {
            let of_each = found[*cause].finding.count;
            let part = &mut found[*part].finding;
            if let Some(resource) = part.resource.filter(|_| part.count.is_multiple_of(of_each)) {
                part.is_consequence = true;
                let (count, bytes) = (part.count, part.bytes);
                let consequences = &mut found[*cause].finding.consequences;
                match consequences.iter_mut().find(|it| it.resource == resource) {
                    Some(same) => {
                        same.count = same.count.saturating_add(count);
                        same.bytes = same.bytes.saturating_add(bytes);
                    }
                    None => consequences.push(Consequence {
                        resource,
                        count,
                        bytes,
                    }),
                }
            }
        }
    }
}

/// Returns the library function that created a leaked resource, and the user's frame that called
/// this function, with its callers.
fn library_call(finding: &Finding) -> Option<(&str, &[Frame])> {
    let (inner, outer) = finding.site.frames.split_at_checked(finding.site.user?)?;
    let is_known = finding.kind == FindingKind::Leaked && finding.site.line().is_some();
    let mut of_libraries = inner.iter().rev().filter(|it| it.owner != Owner::Std);
    let called = match of_libraries.next() {
        Some(frame) => frame.function.as_deref(),
        None => finding.site.library.as_ref()?.function.as_deref(),
    };
    Some((called.filter(|_| is_known)?, outer))
}

/// Whether `finding` is a leak of something created through a library that counts references.
fn is_leak(finding: &Finding) -> bool {
    finding.kind == FindingKind::Leaked && counts_references(&finding.site.frames)
}

/// Whether `finding` is an instance or a device that such a library has opened.
fn opens(finding: &&Finding) -> bool {
    matches!(finding.resource, Some(Kind::Device | Kind::Instance)) && is_leak(finding)
}

#[cfg(test)]
mod tests {
    use super::{fold, mark_consequences};
    use crate::judge::allowed;
    use crate::judge::finding::{Found, of_sum};
    use crate::ledger::{Kind, Layer, Place};
    use crate::report::{FindingKind, Frame, Owner};

    fn leaked(kind: Kind, line: u32, through: &str, records: &[u64]) -> Found {
        let place = match kind {
            Kind::Instance => Place::HOST,
            _ => Place::named("vulkan:0"),
        };
        let mut finding = of_sum(FindingKind::Leaked, Layer::DRIVER, place, 0);
        finding.resource = Some(kind);
        finding.count = records.len() as u64;
        let frame = |owner, file: &str| Frame {
            owner,
            file: Some(file.into()),
            line: Some(line),
            ..Frame::default()
        };
        let library = format!("/registry/src/index/{through}-30.0.1/src/device.rs");
        finding.site.frames = vec![
            frame(Owner::Dependency, &library),
            frame(Owner::User, "src/lib.rs"),
        ];
        finding.site.user = Some(1);
        Found {
            records: records.to_vec(),
            ..Found::sum(finding)
        }
    }

    /// Returns the leaks of an instance, a device and a fence, created at lines 10 and 20.
    fn opened(through: &str) -> Vec<Found> {
        vec![
            leaked(Kind::Instance, 10, through, &[1]),
            leaked(Kind::Device, 20, through, &[2]),
            leaked(Kind::Fence, 20, through, &[3, 4]),
        ]
    }

    fn kinds(found: &[Found]) -> Vec<Option<Kind>> {
        found.iter().map(|it| it.finding.resource).collect()
    }

    #[test]
    fn a_forgotten_buffer_explains_the_device_that_it_holds() {
        let mut found = opened("wgpu-core");
        found.push(leaked(Kind::Buffer, 30, "wgpu-core", &[5]));
        fold(&mut found);
        assert_eq!(kinds(&found), [Some(Kind::Buffer)]);
        assert_eq!(found[0].records, [1, 2, 3, 4, 5]);
        assert!(found[0].includes_others, "no tolerance covers a device");
        assert_eq!(
            found[0].finding.notes,
            [
                "keeps 4 other objects alive, including its device and instance, and everything created from them; the device was opened at src/lib.rs:20"
            ]
        );
    }

    #[test]
    fn a_command_pool_that_is_kept_for_the_next_use_explains_no_device() {
        let mut found = opened("wgpu-core");
        let mut pool = leaked(Kind::CommandPool, 30, "wgpu-core", &[5]);
        let mut of_hal = pool.finding.site.frames[0].clone();
        of_hal.file = Some("/registry/src/index/wgpu-hal-30.0.1/src/vulkan/device.rs".into());
        pool.finding.site.frames.insert(0, of_hal);
        pool.finding.site.user = Some(2);
        found.push(pool);
        allowed::recycled(&mut found);
        fold(&mut found);
        let shown = found
            .iter()
            .map(|it| (it.finding.kind, it.finding.resource));
        let expected = [
            (FindingKind::Allowed, Some(Kind::CommandPool)),
            (FindingKind::Leaked, Some(Kind::Device)),
        ];
        assert_eq!(shown.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_forgotten_device_is_one_leak() {
        let mut found = opened("wgpu-core");
        fold(&mut found);
        assert_eq!(kinds(&found), [Some(Kind::Device)]);
        assert_eq!(found[0].records, [1, 2, 3, 4]);
        let kept =
            "keeps 3 other objects alive, including its instance, and everything created from them";
        assert_eq!(found[0].finding.notes, [kept]);
    }

    #[test]
    fn without_reference_counts_each_object_is_its_own_leak() {
        let mut found = opened("ash");
        found.push(leaked(Kind::Buffer, 30, "ash", &[5]));
        fold(&mut found);
        assert_eq!(found.len(), 4);
        assert!(found.iter().all(|it| it.finding.notes.is_empty()));
    }

    /// Returns a leak of something that `function` of a library created for line 10.
    fn created(kind: Kind, function: &str, count: u64, bytes: u64) -> Found {
        let records: Vec<u64> = (0..count).collect();
        let mut found = leaked(kind, 10, "cudarc", &records);
        found.finding.site.frames[0].function = Some(function.into());
        found.finding.bytes = bytes;
        found
    }

    /// Returns the findings that are reported separately, each with the number of its consequences.
    fn reported(found: &[Found]) -> Vec<(Option<Kind>, usize)> {
        let reported = found.iter().filter(|it| !it.finding.is_consequence);
        let reported = reported.map(|it| (it.finding.resource, it.finding.consequences.len()));
        reported.collect()
    }

    #[test]
    fn objects_of_one_call_are_reported_with_its_memory() {
        let mut found = [
            created(Kind::Linear, "alloc", 2, 64),
            created(Kind::Event, "alloc", 4, 0),
            created(Kind::Stream, "alloc", 2, 0),
            created(Kind::Event, "alloc", 4, 0),
        ];
        mark_consequences(&mut found);
        assert_eq!(reported(&found), [(Some(Kind::Linear), 2)]);
        let consequences = found[0].finding.consequences.iter();
        let consequences: Vec<_> = consequences.map(|it| it.what()).collect();
        assert_eq!(consequences, ["2 streams", "8 events"]);
    }

    #[test]
    fn objects_that_other_calls_may_have_created_are_reported_separately() {
        let mut failed = created(Kind::Stream, "alloc", 4, 0);
        failed.finding.kind = FindingKind::FailedFree;
        let others = [
            // These are events that another function created, and three streams for two buffers.
            created(Kind::Event, "record", 2, 0),
            created(Kind::Stream, "alloc", 3, 0),
            // These are a free that failed and a leak on another line.
            Found::sum(of_sum(
                FindingKind::FailedFree,
                Layer::DRIVER,
                Place::HOST,
                0,
            )),
            leaked(Kind::Module, 11, "cudarc", &[1, 2]),
            failed,
        ];
        let mut found = vec![created(Kind::Linear, "alloc", 2, 64)];
        found.extend(others);
        mark_consequences(&mut found);
        assert_eq!(reported(&found).len(), 6);
    }
}
