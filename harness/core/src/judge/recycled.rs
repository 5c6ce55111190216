//! Objects that wgpu keeps for its next use.
//!
//! How many there are depends on what the device was still working on when the next use began, and so
//! differs from run to run. One that is left says nothing; that their number grows in each round does.

use super::finding::Found;
use crate::call_site::libraries::recycles;
use crate::ledger::Kind;
use crate::report::{AllowedBy, FindingKind};

/// What wgpu keeps on Vulkan: command encoders with their buffers, finished fences, semaphores of a queue,
/// descriptor pools, and the render passes and framebuffers of a device.
const RECYCLED: [Kind; 7] = [
    Kind::CommandPool,
    Kind::CommandBuffer,
    Kind::Fence,
    Kind::Semaphore,
    Kind::DescriptorPool,
    Kind::RenderPass,
    Kind::Framebuffer,
];

/// Allows what is left of these objects. What grew is not concerned.
pub(crate) fn allow(found: &mut [Found]) {
    for Found { finding, .. } in found {
        let is_recycled = finding
            .resource
            .is_some_and(|kind| RECYCLED.contains(&kind));
        if finding.kind == FindingKind::Leaked && is_recycled && recycles(&finding.site.frames) {
            finding.kind = FindingKind::Allowed;
            finding.allowed_by = Some(AllowedBy::new(
                "gpu-leak-check",
                "wgpu keeps it for its next use, and how many it keeps depends on what the device is \
                 doing; with `rounds`, what grows in each round is reported",
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
        let mut finding = of_sum(kind, Layer::DRIVER, Place::named("vulkan:0"), 0);
        finding.resource = Some(resource);
        finding.site.frames = vec![Frame {
            owner: Owner::Dependency,
            file: Some(format!(
                "/registry/src/index/{through}-30.0.1/src/command.rs"
            )),
            ..Frame::default()
        }];
        Found::sum(finding)
    }

    #[test]
    fn only_what_wgpu_recycles_and_what_has_not_grown_may_stay() {
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
}
