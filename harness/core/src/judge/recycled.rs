//! Objects that a library keeps in order to reuse them.
//!
//! The number of these objects depends on how much work the device had not finished when the
//! library was used again, or on how many threads worked at once. So it differs from run to run. A
//! single remaining object proves nothing, but growth in each round does.

use super::finding::Found;
use crate::call_site::mentions;
use crate::ledger::Kind;
use crate::report::{AllowedBy, FindingKind, Frame, Owner};

/// A kind of object that a library keeps.
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

/// Allows these objects to stay, unless their number grew.
pub(crate) fn allow(found: &mut [Found]) {
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
                    "{library} keeps such objects for reuse, and how many depends on timing; use \
                     `rounds` to detect growth"
                ),
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::allow;
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
        allow(&mut all);
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
        allow(&mut all);
        let kinds = all.map(|found| found.finding.kind);
        let (leaked, allowed) = (FindingKind::Leaked, FindingKind::Allowed);
        assert_eq!(kinds, [allowed, allowed, allowed, leaked, leaked, leaked]);
    }
}
