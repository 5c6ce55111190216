//! A memory snapshot as PyTorch's tools read it: [memory_viz][1] and `python -m
//! torch.cuda._memory_viz`.
//!
//! Of a recording: what was live at its end, at its addresses, and everything that was taken and
//! given back before. Of run files, which keep no addresses: what checks found left behind, at
//! addresses of its own.
//!
//! A segment is what was taken from the driver, or from whoever stands outermost; blocks are what an
//! allocator has handed out of it. Devices are numbered as CUDA's; others, and the host, come after
//! the last of them.
//!
//! [1]: https://docs.pytorch.org/docs/stable/torch_cuda_memory.html

use std::collections::BTreeMap;

use gpu_leak_check::__command::{Did, Movements, Taken, movements};
use gpu_leak_check::Place;
use gpu_leak_check::report::escape;
use gpu_leak_check::report::model::{Finding, FindingKind, Site};
use serde::Serialize;

use crate::exit::{Failure, Outcome};
use crate::run::Run;

/// So many equal blocks of one finding are drawn one by one.
const APART: u64 = 1000;
/// Where made-up addresses begin, and to what they are aligned, as those of the driver.
const FIRST_ADDRESS: u64 = 0x7f00_0000_0000;
const ALIGNED_TO: u64 = 2 * 1024 * 1024;

#[derive(Debug, Default, Serialize)]
struct Snapshot {
    segments: Vec<Segment>,
    device_traces: Vec<Vec<Entry>>,
    allocator_settings: BTreeMap<String, String>,
    external_annotations: Vec<()>,
}

#[derive(Debug, Serialize)]
struct Segment {
    device: usize,
    address: u64,
    total_size: u64,
    allocated_size: u64,
    active_size: u64,
    requested_size: u64,
    stream: u64,
    segment_type: &'static str,
    segment_pool_id: (u64, u64),
    is_expandable: bool,
    frames: Vec<Frame>,
    blocks: Vec<Block>,
}

#[derive(Debug, Serialize)]
struct Block {
    address: u64,
    size: u64,
    requested_size: u64,
    state: &'static str,
    frames: Vec<Frame>,
}

#[derive(Clone, Debug, Serialize)]
struct Frame {
    name: String,
    filename: String,
    line: u32,
}

#[derive(Debug, Serialize)]
struct Entry {
    action: &'static str,
    addr: u64,
    size: u64,
    stream: u64,
    time_us: u64,
    frames: Vec<Frame>,
    compile_context: &'static str,
    user_metadata: String,
}

pub(super) fn render(run: &Run) -> Outcome<Vec<u8>> {
    let mut snapshot = Snapshot::default();
    let recorded: Result<Vec<_>, _> = run.recordings.iter().map(|it| movements(it)).collect();
    let recorded = recorded.map_err(|why| Failure::usage(why.to_string()))?;
    if recorded.is_empty() {
        let findings: Vec<_> = run.reports().flat_map(|report| &report.findings).collect();
        snapshot.add_findings(&findings);
    }
    let devices = Devices::of(recorded.iter().flat_map(|it| &it.taken).map(|it| it.place));
    for movements in &recorded {
        snapshot.add_recording(movements, &devices);
    }
    let options = serde_pickle::SerOptions::new().proto_v2();
    serde_pickle::to_vec(&snapshot, options)
        .map_err(|why| Failure::usage(format!("the snapshot cannot be written: {why}")))
}

/// The number of each device.
struct Devices(BTreeMap<String, usize>);

impl Devices {
    fn of(places: impl Iterator<Item = Place>) -> Self {
        let mut others = Vec::new();
        let mut numbers = BTreeMap::new();
        for place in places {
            match place.cuda_ordinal() {
                Some(ordinal) => {
                    numbers.insert(place.to_string(), ordinal);
                }
                None => others.push(place.to_string()),
            }
        }
        others.sort_unstable();
        others.dedup();
        let first = numbers.values().max().map_or(0, |last| last + 1);
        numbers.extend(others.into_iter().zip(first..));
        Self(numbers)
    }

    fn number(&self, place: Place) -> usize {
        self.0.get(&place.to_string()).copied().unwrap_or(0)
    }

    fn count(&self) -> usize {
        self.0.values().max().map_or(0, |last| last + 1)
    }
}

impl Snapshot {
    fn add_findings(&mut self, findings: &[&Finding]) {
        let devices = Devices::of(findings.iter().map(|finding| finding.place));
        let mut address = FIRST_ADDRESS;
        // What went over a limit has been given back.
        let is_held = |finding: &&&Finding| finding.kind != FindingKind::OverBudget;
        for finding in findings.iter().filter(is_held) {
            if finding.bytes == 0 {
                continue;
            }
            // A damaged file may tell of more than there are addresses.
            let size = finding.bytes.checked_next_multiple_of(ALIGNED_TO);
            let Some(end) = size.and_then(|size| address.checked_add(size)) else {
                continue;
            };
            let device = devices.number(finding.place);
            self.segments.push(segment_of(finding, device, address));
            address = end;
        }
        self.device_traces.resize_with(devices.count(), Vec::new);
    }

    fn add_recording(&mut self, movements: &Movements, devices: &Devices) {
        let taken = &movements.taken;
        let mut has_inside = vec![false; taken.len()];
        let mut inside: Vec<Vec<&Taken>> = vec![Vec::new(); taken.len()];
        for one in taken {
            if let Some(segment) = one.inside {
                has_inside[segment] = true;
                if one.is_live {
                    inside[segment].push(one);
                }
            }
        }
        let outermost = taken.iter().enumerate();
        for (number, one) in outermost.filter(|(_, it)| it.is_live && it.inside.is_none()) {
            let blocks = std::mem::take(&mut inside[number]);
            let device = devices.number(one.place);
            let segment = recorded_segment(one, blocks, has_inside[number], device);
            self.segments.push(segment);
        }
        let traces = devices.count().max(self.device_traces.len());
        self.device_traces.resize_with(traces, Vec::new);
        for step in &movements.steps {
            let one = &taken[step.taken];
            let trace = &mut self.device_traces[devices.number(one.place)];
            let mut add = |action| trace.push(entry(action, one, step.at_us));
            let is_segment = one.inside.is_none();
            let is_block = !is_segment || !has_inside[step.taken];
            match step.did {
                Did::Take => {
                    if is_segment {
                        add("segment_alloc");
                    }
                    if is_block {
                        add("alloc");
                    }
                }
                Did::BeginRelease if is_block => add("free_requested"),
                Did::BeginRelease => {}
                Did::Release => {
                    if is_block {
                        add("free_completed");
                    }
                    if is_segment {
                        add("segment_free");
                    }
                }
            }
        }
    }
}

/// A finding as a segment of its own.
fn segment_of(finding: &Finding, device: usize, address: u64) -> Segment {
    let frames = frames(&finding.site);
    let is_reserve = finding.kind == FindingKind::Retained;
    let (count, each) = match finding.each {
        Some(each)
            if each > 0
                && finding.count <= APART
                && each.checked_mul(finding.count) == Some(finding.bytes) =>
        {
            (finding.count, each)
        }
        _ => (1, finding.bytes),
    };
    let block = |number: u64| Block {
        address: address.saturating_add(number * each),
        size: each,
        requested_size: if is_reserve { 0 } else { each },
        state: if is_reserve { INACTIVE } else { ACTIVE },
        frames: if is_reserve {
            Vec::new()
        } else {
            frames.clone()
        },
    };
    let held = if is_reserve { 0 } else { finding.bytes };
    Segment {
        device,
        address,
        total_size: finding.bytes,
        allocated_size: held,
        active_size: held,
        requested_size: held,
        stream: 0,
        segment_type: size_class(finding.bytes),
        segment_pool_id: (0, 0),
        is_expandable: false,
        blocks: (0..count).map(block).collect(),
        frames,
    }
}

const ACTIVE: &str = "active_allocated";
const INACTIVE: &str = "inactive";

/// What was taken from the outermost layer, with what was handed out of it, and the gaps between.
fn recorded_segment<'a>(
    outer: &'a Taken,
    mut inside: Vec<&'a Taken>,
    is_cut_up: bool,
    device: usize,
) -> Segment {
    inside.sort_by_key(|taken| taken.address);
    if !is_cut_up {
        inside = vec![outer];
    }
    let end = outer.address.saturating_add(outer.bytes);
    let mut at = outer.address;
    let mut blocks = Vec::new();
    let mut held = 0;
    let gap = |from: u64, to: u64| Block {
        address: from,
        size: to - from,
        requested_size: 0,
        state: INACTIVE,
        frames: Vec::new(),
    };
    for taken in inside {
        // Of blocks in blocks, as an allocator on an allocator has them, the outer one is shown.
        if taken.address < at {
            continue;
        }
        if taken.address > at {
            blocks.push(gap(at, taken.address));
        }
        blocks.push(Block {
            address: taken.address,
            size: taken.bytes,
            requested_size: taken.bytes,
            state: ACTIVE,
            frames: frames(&taken.site),
        });
        held = taken.bytes.saturating_add(held);
        at = taken.address.saturating_add(taken.bytes);
    }
    if at < end {
        blocks.push(gap(at, end));
    }
    Segment {
        device,
        address: outer.address,
        total_size: outer.bytes,
        allocated_size: held,
        active_size: held,
        requested_size: held,
        stream: outer.stream,
        segment_type: size_class(outer.bytes),
        segment_pool_id: (0, 0),
        is_expandable: false,
        frames: frames(&outer.site),
        blocks,
    }
}

fn entry(action: &'static str, taken: &Taken, time_us: u64) -> Entry {
    Entry {
        action,
        addr: taken.address,
        size: taken.bytes,
        stream: taken.stream,
        time_us,
        frames: frames(&taken.site),
        compile_context: "N/A",
        user_metadata: format!("{} {}", taken.layer, taken.kind.name()),
    }
}

/// PyTorch's two: up to 2 MiB, and larger.
const fn size_class(bytes: u64) -> &'static str {
    if bytes <= ALIGNED_TO {
        "small"
    } else {
        "large"
    }
}

fn frames(site: &Site) -> Vec<Frame> {
    let frames = site.frames.iter();
    let shown = |text: Option<&str>| escape::sentence(text.unwrap_or("??"));
    frames
        .map(|frame| Frame {
            name: shown(frame.function.as_deref().or(frame.module.as_deref())),
            filename: shown(frame.file.as_deref().or(frame.module.as_deref())),
            line: frame.line.unwrap_or(0),
        })
        .collect()
}
