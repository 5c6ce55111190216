//! The programs of PyTorch users who asked where their memory went, with the bytes at each step.
//!
//! ```text
//! cargo run --example seed_programs -- [--device embedded|cuda:0] [--program NAME] [--json FILE]
//! ```
//!
//! The figures equal those of PyTorch (`kernels/tests/reference`). `--json` writes them in the
//! format of that reference.
#![expect(clippy::print_stdout, reason = "the table is the program's purpose")]

use std::error::Error;

use gpu_leak_examples::{device_named, option};
use gpu_leak_kernels::programs::{PROGRAMS, Program, Row};
use serde_json::json;

/// On an embedded device, a program that needs more memory than this runs only if `--program` names
/// it, because it would keep the CPU busy for a minute and fill the host's memory.
const LARGE: u64 = 256 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let device_name = option("--device")?.unwrap_or_else(|| "embedded".to_owned());
    let device = device_named(&device_name)?;
    let named = option("--program")?;
    let programs: Vec<&Program> = match &named {
        Some(name) => vec![Program::named(name).ok_or_else(|| {
            let known: Vec<_> = PROGRAMS.iter().map(|program| program.name).collect();
            format!("no program `{name}`; the programs are {}", known.join(", "))
        })?],
        None => PROGRAMS.iter().collect(),
    };

    let mut rows = Vec::new();
    for program in programs {
        let too_large = device.as_embedded().is_some() && program.bytes > LARGE;
        if too_large && named.is_none() {
            println!(
                "{}: left out on the embedded device: it needs {} MiB; to run it, name it with \
                 --program",
                program.name,
                program.bytes >> 20
            );
            continue;
        }
        let read = program.run(&device)?;
        print_table(program.name, &read);
        rows.extend(read);
    }
    if let Some(file) = option("--json")? {
        std::fs::write(
            &file,
            serde_json::to_string_pretty(&as_json(&device, &rows))?,
        )?;
    }
    Ok(())
}

fn print_table(program: &str, rows: &[Row]) {
    println!(
        "\n{program:<24} {:>14} {:>14} {:>14}",
        "allocated", "reserved", "peak"
    );
    for row in rows {
        println!(
            "  {:<22} {:>14} {:>14} {:>14}",
            row.step, row.allocated, row.reserved, row.peak_allocated
        );
    }
}

fn as_json(device: &gpu_leak_kernels::Device, rows: &[Row]) -> serde_json::Value {
    let rows: Vec<_> = rows
        .iter()
        .map(|row| {
            json!({
                "program": row.program,
                "step": row.step,
                "allocated": row.allocated,
                "reserved": row.reserved,
                "peak_allocated": row.peak_allocated,
                "segments": row.segments,
                "active_blocks": row.active_blocks,
            })
        })
        .collect();
    json!({
        "meta": {
            "library": concat!("gpu-leak-kernels ", env!("CARGO_PKG_VERSION")),
            "device": device.to_string(),
            "note": "the peak is the highest since the program began",
        },
        "rows": rows,
    })
}
