//! Renders the usage of each device before and after a check as a table.

use std::fmt::{self, Write};

use super::check_report::{DeviceTable, Figure, Purpose, Row, WholeDevice};
use super::escape;
use super::style::Style;
use crate::units::{count, count_change, signed_size, size, size_change};

const HEADERS: [&str; 4] = ["baseline", "after", "difference", "peak"];
/// The smallest gap between two columns.
const GAP: usize = 3;
/// The usual widths of the columns including their gaps. With these widths, most tables of a run
/// are aligned with each other.
const USUAL_WIDTHS: [usize; 4] = [12, 12, 13, 12];

/// Writes one table for each device. All tables have the same columns.
pub(super) fn write(devices: &[DeviceTable], style: Style, out: &mut dyn Write) -> fmt::Result {
    let rows = || devices.iter().flat_map(|device| &device.rows);
    let layer = rows()
        .map(|row| width(&escape::cell(&row.layer)))
        .max()
        .unwrap_or(0);
    let labels = rows().map(|row| width(&label(row, layer)));
    let titles = devices.iter().map(|device| width(&device_title(device)));
    let left = labels.chain(titles).max().unwrap_or(0);
    let mut widths = USUAL_WIDTHS;
    for row in rows() {
        for (column, cell) in widths.iter_mut().zip(cells(row)) {
            *column = (*column).max(width(&cell) + GAP);
        }
    }

    for device in devices.iter().filter(|device| !device.rows.is_empty()) {
        let strong = style.strong();
        write!(out, "\n{strong}{:<left$}{strong:#}", device_title(device))?;
        for (header, width) in HEADERS.iter().zip(widths) {
            write!(out, "{header:>width$}")?;
        }
        writeln!(out)?;
        for row in &device.rows {
            let mut line = format!("{:<left$}", label(row, layer));
            for (at, (cell, width)) in cells(row).iter().zip(widths).enumerate() {
                let mark = if at == 2 && row.after > row.baseline {
                    style.mark()
                } else {
                    Style::PLAIN.mark()
                };
                write!(line, "{mark}{cell:>width$}{mark:#}")?;
            }
            writeln!(out, "{}", line.trim_end())?;
        }
        let dim = style.dim();
        for line in device.whole.iter().flat_map(whole_device) {
            writeln!(out, "  {dim}{line}{dim:#}")?;
        }
    }
    Ok(())
}

/// Returns a line such as `device used +34.0 MiB: driver +2.00 MiB, pool reserve +32.0 MiB`, and a
/// line for the part that cannot be explained. Returns nothing if nothing has changed.
pub fn whole_device(whole: &WholeDevice) -> Vec<String> {
    if whole.after == whole.baseline && whole.unexplained == 0 {
        return Vec::new();
    }
    let difference = size_change(whole.baseline, whole.after);
    let known = whole.parts.iter().map(|part| match part.purpose {
        // This part is not a separate amount, but the result of rounding up the sum of the others.
        Purpose::Pages if part.bytes > 0 => "rounded up to whole pages".to_owned(),
        purpose => format!("{} {}", purpose.name(), signed_size(part.bytes)),
    });
    let known: Vec<_> = known.collect();
    let known = match known.is_empty() {
        true => String::new(),
        false => format!(": {}", known.join(", ")),
    };
    let run = if whole.second_run {
        " in the second run"
    } else {
        ""
    };
    let mut lines = vec![format!("device used {difference}{run}{known}")];
    if whole.unexplained != 0 {
        let hints = whole.hints.iter();
        let hints: String = hints
            .map(|hint| format!("; {}", escape::sentence(hint)))
            .collect();
        lines.push(format!(
            "{} unexplained, as far as this process can tell{hints}",
            signed_size(whole.unexplained)
        ));
    }
    lines
}

/// Returns a title such as `cuda:0 NVIDIA H200 GPU-5f2c0d4e`. The first part of the UUID
/// distinguishes devices with the same name.
pub fn device_title(device: &DeviceTable) -> String {
    let mut title = escape::cell(&device.place.to_string());
    let uuid = device
        .uuid
        .as_deref()
        .map(|uuid| match uuid.match_indices('-').nth(1) {
            Some((end, _)) => &uuid[..end],
            None => uuid,
        });
    for part in [device.name.as_deref(), uuid].into_iter().flatten() {
        title.push(' ');
        title.push_str(&escape::cell(part));
    }
    title
}

/// Returns a label such as `  driver   allocated`.
fn label(row: &Row, layer_width: usize) -> String {
    let figure = match row.figure {
        Figure::Handles => "",
        figure => figure.name(),
    };
    let layer = escape::cell(&row.layer);
    format!("  {layer:<layer_width$}  {figure}")
        .trim_end()
        .to_owned()
}

/// Returns the four figures of a row: before the check, after the check, the difference, and the
/// peak.
pub fn cells(row: &Row) -> [String; 4] {
    let is_count = row.figure == Figure::Handles;
    let amount = if is_count { count } else { size };
    let change = if is_count { count_change } else { size_change };
    [
        amount(row.baseline),
        amount(row.after),
        change(row.baseline, row.after),
        row.peak.map(amount).unwrap_or_default(),
    ]
}

fn width(text: &str) -> usize {
    text.chars().count()
}
