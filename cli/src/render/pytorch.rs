//! A memory snapshot as PyTorch's tools read it: [memory_viz][1] and `python -m
//! torch.cuda._memory_viz`. The snapshot of a recording contains everything that was live at the
//! end, at its addresses, and every earlier allocation and free. Run files contain no addresses, so
//! their snapshots contain the findings at made-up addresses.
//!
//! A segment is an allocation from the outermost layer, usually the driver. Blocks are the parts of
//! a segment that an allocator has handed out. CUDA devices keep their numbers. Other devices and
//! the host are numbered after the last CUDA device.
//!
//! [1]: https://docs.pytorch.org/docs/stable/torch_cuda_memory.html

use std::collections::BTreeMap;

use gpu_leak_check::__command::{Movements, RecordedAllocation, StepKind, movements};
use gpu_leak_check::Place;
use gpu_leak_check::report::check_report::{Finding, FindingKind, Site};
use gpu_leak_check::report::escape;
use serde::Serialize;

use crate::exit::{ExitResult, Failure};
use crate::run::Run;

/// Up to this count, equal blocks of one finding are written as separate blocks.
const MAX_BLOCKS: u64 = 1000;
/// The first made-up address, and the alignment of all of them, which is the driver's.
const FIRST_ADDRESS: u64 = 0x7f00_0000_0000;
const ALIGNED_TO: u64 = 2 * 1024 * 1024;

#[derive(Debug, Default, Serialize)]
struct Snapshot {
    segments: Vec<Segment>,
    device_traces: Vec<Vec<TraceEntry>>,
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
struct TraceEntry {
    action: &'static str,
    addr: u64,
    size: u64,
    stream: u64,
    time_us: u64,
    frames: Vec<Frame>,
    compile_context: &'static str,
    user_metadata: String,
}

impl Segment {
    /// Creates a segment with its blocks. The active blocks have `held` bytes in total.
    fn new(device: usize, address: u64, bytes: u64, held: u64, blocks: Vec<Block>) -> Self {
        Self {
            device,
            address,
            total_size: bytes,
            allocated_size: held,
            active_size: held,
            requested_size: held,
            stream: 0,
            // PyTorch has two classes of segments: up to 2 MiB, and larger.
            segment_type: match bytes {
                ..=ALIGNED_TO => "small",
                _ => "large",
            },
            segment_pool_id: (0, 0),
            is_expandable: false,
            frames: Vec::new(),
            blocks,
        }
    }
}

impl Block {
    fn active(address: u64, size: u64, frames: Vec<Frame>) -> Self {
        Self {
            address,
            size,
            requested_size: size,
            state: "active_allocated",
            frames,
        }
    }

    fn inactive(address: u64, size: u64) -> Self {
        Self {
            address,
            size,
            requested_size: 0,
            state: "inactive",
            frames: Vec::new(),
        }
    }
}

pub(super) fn render(run: &Run) -> ExitResult<Vec<u8>> {
    let mut snapshot = Snapshot::default();
    let recorded: Result<Vec<_>, _> = run.recordings.iter().map(|it| movements(it)).collect();
    let recorded = recorded.map_err(|why| Failure::usage(why.to_string()))?;
    if recorded.is_empty() {
        let findings: Vec<_> = run.reports().flat_map(|report| &report.findings).collect();
        snapshot.add_findings(&findings);
    }
    let devices = Devices::of(
        recorded
            .iter()
            .flat_map(|it| &it.allocations)
            .map(|it| it.place),
    );
    for movements in &recorded {
        snapshot.add_recording(movements, &devices);
    }
    let options = serde_pickle::SerOptions::new().proto_v2();
    serde_pickle::to_vec(&snapshot, options)
        .map_err(|why| Failure::cannot_write("the snapshot", why))
}

/// The index of each device, by the name of its place.
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
        // The finding of an exceeded budget describes a peak, not memory that is still held.
        let is_held = |finding: &&&Finding| finding.budget.is_none();
        for finding in findings.iter().filter(is_held) {
            if finding.bytes == 0 {
                continue;
            }
            // The findings of a damaged file may have more bytes than there are addresses.
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
        let allocations = &movements.allocations;
        let mut has_inside = vec![false; allocations.len()];
        let mut inside: Vec<Vec<&RecordedAllocation>> = vec![Vec::new(); allocations.len()];
        for one in allocations {
            if let Some(segment) = one.inside {
                has_inside[segment] = true;
                if one.is_live {
                    inside[segment].push(one);
                }
            }
        }
        let outermost = allocations.iter().enumerate();
        for (number, one) in outermost.filter(|(_, it)| it.is_live && it.inside.is_none()) {
            let blocks = std::mem::take(&mut inside[number]);
            let device = devices.number(one.place);
            let segment = recorded_segment(one, blocks, has_inside[number], device);
            self.segments.push(segment);
        }
        let traces = devices.count().max(self.device_traces.len());
        self.device_traces.resize_with(traces, Vec::new);
        for step in &movements.steps {
            let one = &allocations[step.allocation];
            let trace = &mut self.device_traces[devices.number(one.place)];
            let mut add = |action| trace.push(entry(action, one, step.at_us));
            let is_segment = one.inside.is_none();
            let is_block = !is_segment || !has_inside[step.allocation];
            match step.kind {
                StepKind::Allocate => {
                    if is_segment {
                        add("segment_alloc");
                    }
                    if is_block {
                        add("alloc");
                    }
                }
                StepKind::BeginFree if is_block => add("free_requested"),
                StepKind::BeginFree => {}
                StepKind::Free => {
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

/// Returns the segment of a finding.
fn segment_of(finding: &Finding, device: usize, address: u64) -> Segment {
    let frames = frames(&finding.site);
    let is_reserve = finding.kind == FindingKind::Retained;
    let (count, each) = match finding.each {
        Some(each)
            if each > 0
                && finding.count <= MAX_BLOCKS
                && each.checked_mul(finding.count) == Some(finding.bytes) =>
        {
            (finding.count, each)
        }
        _ => (1, finding.bytes),
    };
    let block = |number: u64| {
        let address = address.saturating_add(number * each);
        match is_reserve {
            true => Block::inactive(address, each),
            false => Block::active(address, each, frames.clone()),
        }
    };
    let held = if is_reserve { 0 } else { finding.bytes };
    let blocks = (0..count).map(block).collect();
    Segment {
        frames,
        ..Segment::new(device, address, finding.bytes, held, blocks)
    }
}

/// Returns the segment of an allocation from the outermost layer, with the blocks that were handed
/// out of it and the gaps between them.
fn recorded_segment<'a>(
    outer: &'a RecordedAllocation,
    mut inside: Vec<&'a RecordedAllocation>,
    is_divided: bool,
    device: usize,
) -> Segment {
    inside.sort_by_key(|it| it.address);
    if !is_divided {
        inside = vec![outer];
    }
    let end = outer.address.saturating_add(outer.bytes);
    let mut at = outer.address;
    let mut blocks = Vec::new();
    let mut held = 0;
    for block in inside {
        // Where an allocator is built on another one, only the outer block is shown.
        if block.address < at {
            continue;
        }
        if block.address > at {
            blocks.push(Block::inactive(at, block.address - at));
        }
        blocks.push(Block::active(
            block.address,
            block.bytes,
            frames(&block.site),
        ));
        held = block.bytes.saturating_add(held);
        at = block.address.saturating_add(block.bytes);
    }
    if at < end {
        blocks.push(Block::inactive(at, end - at));
    }
    Segment {
        stream: outer.stream,
        frames: frames(&outer.site),
        ..Segment::new(device, outer.address, outer.bytes, held, blocks)
    }
}

fn entry(action: &'static str, allocation: &RecordedAllocation, time_us: u64) -> TraceEntry {
    TraceEntry {
        action,
        addr: allocation.address,
        size: allocation.bytes,
        stream: allocation.stream,
        time_us,
        frames: frames(&allocation.site),
        compile_context: "N/A",
        user_metadata: format!("{} {}", allocation.layer, allocation.kind.name()),
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
