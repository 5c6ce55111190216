//! Tests of the snapshots for PyTorch's viewer.

use gpu_leak_check::report::check_report::{Budget, Finding, FindingKind, Limit};

use super::rendered;
use crate::render::Format;
use crate::render::sample::{self, MIB};

#[test]
fn a_snapshots_totals_are_those_of_the_findings() {
    let reserve = Finding {
        resource: None,
        each: None,
        ..sample::finding(FindingKind::Retained, "pool", 1, 32 * MIB)
    };
    let leak = sample::finding(FindingKind::Leaked, "optim::Adam::step", 2, MIB / 2);
    let over = |kind| Finding {
        budget: Some(Budget {
            limit: Limit::MaxAllocated,
            allowed: 1,
            reached: 7 * MIB,
            when: None,
            reusable: Vec::new(),
            shares: Vec::new(),
        }),
        ..sample::finding(kind, "peak", 1, 7 * MIB)
    };
    // The limit was exceeded in all runs of a body, and only in its first run.
    let [over, once] = [FindingKind::OverBudget, FindingKind::FirstUse].map(over);
    let run = sample::run(vec![sample::with("trains", &[leak, reserve, over, once])]);
    let snapshot = unpickled(&rendered(&run, Format::Snapshot, 0));
    let segments = &snapshot["segments"];
    assert_eq!(sum(segments, "total_size"), 33 * MIB);
    assert_eq!(sum(segments, "allocated_size"), MIB);
    for segment in segments.as_array().expect("segments") {
        assert_eq!(
            sum(&segment["blocks"], "size"),
            segment["total_size"].as_u64().expect("bytes")
        );
    }
    let frame = &segments[0]["blocks"][1]["frames"][0];
    assert_eq!(frame["name"], "optim::Adam::step");
    assert_eq!(frame["filename"], "src/optim.rs");
    assert_eq!(frame["line"], 88);
    assert_eq!(snapshot["device_traces"], serde_json::json!([[]]));
}

fn sum(segments: &serde_json::Value, of: &str) -> u64 {
    let segments = segments.as_array().expect("segments").iter();
    segments.filter_map(|segment| segment[of].as_u64()).sum()
}

/// Returns the contents of a snapshot: its parts by name.
pub(super) fn unpickled(bytes: &[u8]) -> serde_json::Value {
    serde_pickle::from_slice(bytes, serde_pickle::DeOptions::new()).expect("a pickle")
}
