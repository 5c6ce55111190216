//! An allocator's figures as a table.

use std::fmt;

use crate::allocator::{Stat, StatByPool, Stats};
use crate::bytes::Bytes;

/// The figures of an allocator, formatted as a table like PyTorch's
/// [`memory_summary`](https://docs.pytorch.org/docs/stable/generated/torch.cuda.memory.memory_summary.html).
#[derive(Clone, Debug)]
pub struct Summary {
    /// The name of the device.
    pub device: String,
    /// The figures of its allocator.
    pub stats: Stats,
}

/// A row of the table: its label, its figure, and whether the figure counts bytes.
type SummaryRow = (&'static str, fn(&Stats) -> &StatByPool, bool);

const ROWS: [SummaryRow; 9] = [
    ("allocated memory", |s| &s.allocated_bytes, true),
    ("active memory", |s| &s.active_bytes, true),
    ("requested memory", |s| &s.requested_bytes, true),
    ("reserved memory", |s| &s.reserved_bytes, true),
    ("non-releasable memory", |s| &s.inactive_split_bytes, true),
    ("allocations", |s| &s.allocation, false),
    ("active blocks", |s| &s.active, false),
    ("segments", |s| &s.segment, false),
    ("non-releasable blocks", |s| &s.inactive_split, false),
];

impl fmt::Display for Summary {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { device, stats } = self;
        writeln!(
            out,
            "{device}: memory summary, {} out-of-memory errors, {} retries after emptying the cache",
            stats.num_ooms, stats.num_alloc_retries
        )?;
        rule(out)?;
        line(
            out,
            "",
            ["current", "peak", "total allocated", "total freed"],
        )?;
        for (label, of, bytes) in ROWS {
            let family = of(stats);
            rule(out)?;
            figures(out, label, &family.all, bytes)?;
            figures(out, "  from the large pool", &family.large, bytes)?;
            figures(out, "  from the small pool", &family.small, bytes)?;
        }
        rule(out)
    }
}

fn figures(out: &mut fmt::Formatter<'_>, label: &str, stat: &Stat, bytes: bool) -> fmt::Result {
    let cells = [stat.current, stat.peak, stat.allocated, stat.freed].map(|value| {
        if bytes {
            Bytes(value).to_string()
        } else {
            value.to_string()
        }
    });
    line(out, label, cells)
}

fn line(out: &mut fmt::Formatter<'_>, label: &str, cells: [impl fmt::Display; 4]) -> fmt::Result {
    write!(out, "| {label:<23} |")?;
    for cell in cells {
        write!(out, " {cell:>15} |")?;
    }
    writeln!(out)
}

fn rule(out: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(
        out,
        "|{:-<25}|{:->17}|{:->17}|{:->17}|{:->17}|",
        "", "", "", "", ""
    )
}
