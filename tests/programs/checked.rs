//! A program whose `main` is checked, for `attribute::program`. Its argument selects what it does.

#[expect(dead_code, reason = "the tests of this package use all of it")]
#[path = "../soundness/allocators.rs"]
mod allocators;
#[expect(dead_code, reason = "the tests of this package use all of it")]
#[path = "../soundness/driver.rs"]
mod driver;
#[path = "../soundness/remains.rs"]
mod remains;

use std::process::ExitCode;

use gpu_leak_check::Place;
use gpu_leak_check::gpu_leak_check;
use gpu_leak_check::observe::Source;

static SOURCE: Source = Source::new("program", &[]);

fn leak() {
    use std::sync::atomic::{AtomicU64, Ordering};
    static ADDRESS: AtomicU64 = AtomicU64::new(1);
    let address = ADDRESS.fetch_add(1, Ordering::Relaxed);
    SOURCE.allocated(Place::named("program:0"), address, 64);
}

#[gpu_leak_check]
fn main() -> Result<ExitCode, String> {
    match std::env::args().nth(1).as_deref() {
        Some("leak") => leak(),
        Some("leave") => {
            let what = std::env::args().nth(2);
            let mut all = remains::ALL.iter();
            let known = all.find(|(name, _)| what.as_deref() == Some(name));
            known.ok_or("there is no leftover with this name")?.1();
        }
        Some("code") => return Ok(ExitCode::from(7)),
        Some("panic") => panic!("the program's own panic"),
        Some("error") => {
            leak();
            return Err("the program's own error".to_owned());
        }
        _ => {
            SOURCE.allocated(Place::named("program:0"), u64::MAX, 64);
            SOURCE.freed(u64::MAX);
        }
    }
    Ok(ExitCode::SUCCESS)
}
