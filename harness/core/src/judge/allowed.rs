//! Finds leaked resources that are allowed to stay: because the code under test or a suppression
//! allows them, because a library keeps them until the process ends or for reuse, because they are
//! within the tolerance, or because the test expects exactly this leak.

use std::collections::BTreeMap;

use super::diff::Diff;
use super::finding::{Found, of_group};
use super::input::{CheckInput, Expect};
use super::suppressions;
use crate::call_site::mentions;
use crate::ledger::{Kind, Layer, Place};
use crate::report::{AllowedBy, Finding, FindingKind, Frame, Owner};
use crate::units::{exact_size, quantity, total};

/// Returns the resources that may stay because the code that created them allows it.
pub(crate) fn by_the_code(diff: &Diff, input: &CheckInput) -> Vec<Found> {
    let all = diff.allowed.iter().filter_map(|(by, group)| {
        let kept = group.kept_in_all();
        let run = group.first_run().filter(|_| !kept.amount.is_zero())?;
        let shown = match input.facts.rounds > 1 {
            true => &kept,
            false => &group.left[run],
        };
        let mut found = of_group(FindingKind::Allowed, group, shown, run, input);
        found.finding.allowed_by = Some(by.clone());
        Some(found)
    });
    all.collect()
}

/// Applies the shipped suppressions to the leaks of a whole program. Growth is never suppressed: it
/// is reported no matter what holds the memory.
pub(crate) fn kept_for_the_process(input: &CheckInput, found: &mut [Found]) {
    let all = found.iter_mut().map(|found| &mut found.finding);
    let mut leaked: Vec<_> = all
        .filter(|finding| matches!(finding.kind, FindingKind::Leaked | FindingKind::Deferred))
        .collect();
    // Shipped entries do not expire.
    suppressions::apply(
        &input.kept_for_the_process,
        input.today,
        &input.subject.test,
        &mut leaked,
    );
}

/// Compares the leaks of a test with the expected ones. If they agree, the leaks are marked as
/// allowed.
///
/// # Errors
///
/// If the leaks differ from the expected ones, returns a sentence with the expected and the actual
/// leaks.
pub(crate) fn expected(expect: Expect, found: &mut [Found]) -> Result<(), String> {
    let leaked = || {
        let all = found.iter().map(|found| &found.finding);
        all.filter(|finding| finding.kind == FindingKind::Leaked)
    };
    let count = total(leaked().map(|finding| finding.count));
    let bytes = total(leaked().map(|finding| finding.bytes));
    let met = |expected: Option<u64>, left| expected.is_none_or(|expected| expected == left);
    if !(met(expect.count, count) && met(expect.bytes, bytes)) {
        return Err(format!(
            "expected to leave {}, but left {}",
            amount(expect.count, expect.bytes),
            amount(expect.count.map(|_| count), expect.bytes.map(|_| bytes))
        ));
    }
    for found in found {
        if found.finding.kind == FindingKind::Leaked {
            found.finding.kind = FindingKind::Allowed;
            found.finding.allowed_by =
                Some(AllowedBy::new("the attribute", "expected by the test"));
        }
    }
    Ok(())
}

/// Returns, for example, `2 objects, 1.00 MiB`.
fn amount(count: Option<u64>, bytes: Option<u64>) -> String {
    let parts = [
        count.map(|count| quantity(count, "object")),
        bytes.map(exact_size),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// A kind of object that a library keeps in order to reuse it.
///
/// The number of these objects depends on how much work the device had not finished when the
/// library was used again, or on how many threads worked at once. So it differs from run to run. A
/// remaining object does not prove a leak, whereas growth in each round does.
struct Recycler {
    library: &'static str,
    /// The words by which the creation of such an object is recognised. A single frame must contain
    /// all of them in its function or its file.
    words: &'static [&'static str],
    kinds: &'static [Kind],
}

const RECYCLERS: &[Recycler] = &[
    // These are command encoders with their buffers, finished fences, semaphores of a queue,
    // descriptor pools, and the render passes and framebuffers of a device.
    Recycler {
        library: "wgpu",
        words: &["wgpu_hal"],
        kinds: &[
            Kind::CommandPool,
            Kind::CommandBuffer,
            Kind::Fence,
            Kind::Semaphore,
            Kind::DescriptorPool,
            Kind::RenderPass,
            Kind::Framebuffer,
        ],
    },
    // These are the pools of each worker thread, which later threads reuse.
    Recycler {
        library: "vulkano",
        words: &["vulkano", "command_buffer", "allocator"],
        kinds: &[Kind::CommandPool, Kind::CommandBuffer],
    },
    Recycler {
        library: "vulkano",
        words: &["vulkano", "descriptor_set", "allocator"],
        kinds: &[Kind::DescriptorPool, Kind::DescriptorSet],
    },
    // These are objects that a device keeps from futures that were dropped.
    Recycler {
        library: "vulkano",
        words: &["vulkano", "from_pool"],
        kinds: &[Kind::Fence, Kind::Semaphore, Kind::Event],
    },
];

impl Recycler {
    fn created(&self, kind: Kind, frames: &[Frame]) -> bool {
        let creates =
            |frame: &Frame| frame.owner == Owner::Dependency && mentions(frame, self.words);
        self.kinds.contains(&kind) && frames.iter().any(creates)
    }
}

/// Allows objects that a library keeps for reuse to stay, unless their number grew.
pub(crate) fn recycled(found: &mut [Found]) {
    for Found { finding, .. } in found {
        let Some(kind) = finding.resource else {
            continue;
        };
        let mut recyclers = RECYCLERS.iter();
        let recycler = recyclers.find(|it| it.created(kind, &finding.site.frames));
        if let Some(Recycler { library, .. }) = recycler
            && finding.kind == FindingKind::Leaked
        {
            finding.kind = FindingKind::Allowed;
            finding.allowed_by = Some(AllowedBy::new(
                "gpu-leak-check",
                format!(
                    "{library} keeps such objects for reuse, and their number depends on timing; \
                     use `rounds` to detect growth"
                ),
            ));
        }
    }
}

/// The kinds of findings that fail a test because bytes stay allocated.
const STAYS: &[FindingKind] = &[FindingKind::Leaked, FindingKind::Grew];
/// One-time set-up, which does not make a test fail.
const ONCE: &[FindingKind] = &[FindingKind::FirstUse];

/// For each layer and place, removes the findings if they add up to at most `tolerance` bytes in
/// every run. Returns notes about the removed findings and about the remaining ones.
///
/// If the sum is larger in any run, all of the findings are reported, and nothing is subtracted.
/// One-time set-up is added up separately. Handles have no bytes, so no tolerance covers them.
///
/// Two other rules use the same option: the one in `sums.rs` about a sum that other code in the
/// process could have changed, and the one in `reserve.rs` about the reserve of an allocator whose
/// blocks are not reported.
pub(crate) fn tolerate(tolerance: u64, found: &mut Vec<Found>) -> Vec<String> {
    if tolerance == 0 {
        return Vec::new();
    }
    let limit = exact_size(tolerance);
    let mut notes = Vec::new();
    for kinds in [STAYS, ONCE] {
        let sums = largest_sums(found, kinds);
        found.retain(|it| !is_about_bytes(it, kinds) || sums[&key(&it.finding)] > tolerance);
        for ((layer, place), bytes) in sums {
            let stayed = exact_size(bytes);
            if bytes <= tolerance {
                notes.push(format!(
                    "{stayed} remained allocated, within the tolerance of {limit}"
                ));
            } else if kinds == STAYS {
                notes.push(format!(
                    "{stayed} of {layer} memory on {place} remained allocated, more than the \
                     tolerance of {limit}"
                ));
            }
        }
    }
    notes
}

/// Returns, for each layer and place, the bytes of the findings of these kinds in the run in which
/// these bytes are highest.
fn largest_sums(found: &[Found], kinds: &[FindingKind]) -> BTreeMap<(Layer, Place), u64> {
    let runs = found.iter().map(|found| found.charged.len()).max();
    let mut largest: BTreeMap<(Layer, Place), u64> = BTreeMap::new();
    for run in 0..runs.unwrap_or(0) {
        let mut of_run: BTreeMap<(Layer, Place), u64> = BTreeMap::new();
        for found in found.iter().filter(|it| is_about_bytes(it, kinds)) {
            let sum = of_run.entry(key(&found.finding)).or_default();
            *sum = sum.saturating_add(found.charged_in(run));
        }
        for (key, bytes) in of_run {
            let most = largest.entry(key).or_default();
            *most = bytes.max(*most);
        }
    }
    largest
}

/// Whether a finding has one of these kinds and is only about bytes, so that a tolerance can cover
/// it.
fn is_about_bytes(found: &Found, kinds: &[FindingKind]) -> bool {
    let finding = &found.finding;
    kinds.contains(&finding.kind) && finding.bytes != 0 && !found.includes_others
}

fn key(finding: &Finding) -> (Layer, Place) {
    (finding.layer, finding.place)
}

#[cfg(test)]
mod tests {
    use super::{recycled, tolerate};
    use crate::judge::finding::{Found, of_sum};
    use crate::ledger::{Kind, Layer, Place};
    use crate::report::{FindingKind, Frame, Owner};

    fn found(kind: FindingKind, resource: Kind, through: &str) -> Found {
        found_in(
            kind,
            resource,
            &format!("{through}-30.0.1/src/command.rs"),
            "create",
        )
    }

    fn found_in(kind: FindingKind, resource: Kind, file: &str, function: &str) -> Found {
        let mut finding = of_sum(kind, Layer::DRIVER, Place::named("vulkan:0"), 0);
        finding.resource = Some(resource);
        finding.site.frames = vec![Frame {
            owner: Owner::Dependency,
            file: Some(format!("/registry/src/index/{file}").into()),
            function: Some(function.into()),
            ..Frame::default()
        }];
        Found::sum(finding)
    }

    #[test]
    fn only_objects_that_wgpu_recycles_may_stay_unless_they_grew() {
        let mut all = [
            found(FindingKind::Leaked, Kind::CommandPool, "wgpu-hal"),
            found(FindingKind::Leaked, Kind::Buffer, "wgpu-hal"),
            found(FindingKind::Leaked, Kind::DescriptorSet, "wgpu-hal"),
            found(FindingKind::Leaked, Kind::CommandPool, "ash"),
            found(FindingKind::Grew, Kind::CommandPool, "wgpu-hal"),
        ];
        recycled(&mut all);
        let kinds = all.map(|found| found.finding.kind);
        let (leaked, grew) = (FindingKind::Leaked, FindingKind::Grew);
        assert_eq!(kinds, [FindingKind::Allowed, leaked, leaked, leaked, grew]);
    }

    #[test]
    fn only_objects_that_vulkano_keeps_for_other_threads_may_stay() {
        const COMMANDS: &str = "vulkano-0.35.2/src/command_buffer/allocator.rs";
        const SETS: &str = "vulkano-0.35.2/src/descriptor_set/allocator.rs";
        const FENCES: &str = "vulkano-0.35.2/src/sync/fence.rs";
        let leaked = |kind, file, function| found_in(FindingKind::Leaked, kind, file, function);
        let mut all = [
            leaked(Kind::CommandPool, COMMANDS, "new"),
            leaked(Kind::DescriptorSet, SETS, "new"),
            leaked(Kind::Fence, FENCES, "from_pool"),
            leaked(Kind::Fence, FENCES, "new"),
            leaked(
                Kind::CommandPool,
                "vulkano-0.35.2/src/command_buffer/pool.rs",
                "new",
            ),
            leaked(Kind::DescriptorLayout, SETS, "new"),
        ];
        recycled(&mut all);
        let kinds = all.map(|found| found.finding.kind);
        let (leaked, allowed) = (FindingKind::Leaked, FindingKind::Allowed);
        assert_eq!(kinds, [allowed, allowed, allowed, leaked, leaked, leaked]);
    }

    fn leaked(place: Place, bytes: u64) -> Found {
        Found::sum(of_sum(FindingKind::Leaked, Layer::DRIVER, place, bytes))
    }

    #[test]
    fn the_limit_is_inclusive_and_holds_for_each_place_by_itself() {
        let all = || {
            vec![
                leaked(Place::cuda(0), 60),
                leaked(Place::cuda(0), 40),
                leaked(Place::cuda(1), 101),
                leaked(Place::cuda(0), 0),
                Found {
                    includes_others: true,
                    ..leaked(Place::cuda(2), 2)
                },
            ]
        };
        let bytes = |found: &[Found]| -> Vec<u64> {
            found.iter().map(|found| found.finding.bytes).collect()
        };
        let mut found = all();
        assert_eq!(tolerate(100, &mut found).len(), 2);
        assert_eq!(bytes(&found), [101, 0, 2]);
        let mut found = all();
        assert_eq!(tolerate(99, &mut found).len(), 2);
        assert_eq!(bytes(&found), [60, 40, 101, 0, 2]);
    }
}
