//! At the end of a whole program, what a caching allocator or a library is known to keep for the
//! process is no leak of the program's: it is reported as allowed, and fails nothing.

use super::finding::Found;
use super::input::CheckInput;
use crate::call_site::allocators;
use crate::call_site::libraries::keeps_what_it_takes;
use crate::ledger::Layer;
use crate::report::{AllowedBy, Finding, FindingKind};

/// Marks what is known to stay until the process ends.
pub(crate) fn allow(input: &CheckInput, found: &mut [Found]) {
    if !input.facts.whole_program {
        return;
    }
    for finding in found.iter_mut().map(|found| &mut found.finding) {
        if finding.kind == FindingKind::Leaked
            && let Some(reason) = kept_by(finding)
        {
            finding.kind = FindingKind::Allowed;
            finding.allowed_by = Some(AllowedBy {
                stands_in: "what libraries are known to keep".to_owned(),
                reason,
                owner: None,
                expired: None,
            });
        }
    }
}

fn kept_by(finding: &Finding) -> Option<String> {
    let is_memory = finding.resource.is_some_and(|kind| !kind.is_handle());
    if is_memory
        && finding.layer == Layer::DRIVER
        && let Some(allocator) = allocators::of(&finding.site.frames)
    {
        return Some(format!(
            "kept by {}, the caching allocator of {}, which hands it out in pieces: which of them \
             are in use, only it knows",
            allocator.name, allocator.used_by
        ));
    }
    let library = finding.site.library.as_ref()?;
    keeps_what_it_takes(&library.name).then(|| {
        format!(
            "kept by {} for itself: at the end of a process this fails nothing",
            library.name
        )
    })
}
