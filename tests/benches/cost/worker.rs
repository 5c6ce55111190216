//! The process of one variant: the code of the worker, and its parent's end of the pipe.

#![expect(clippy::print_stdout, reason = "answers go to standard output")]

use std::ffi::OsString;
use std::hint::black_box;
use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use gpu_leak_check::ledger::{self, StackId};
use gpu_leak_check::observe::Source;
use gpu_leak_check::{__bench, Place};

use crate::calls::Device;
use crate::empty;
use crate::orders::{Order, Variant};
use crate::processor;

/// The stack depth at which the calls are made.
const DEPTH: usize = 24;
/// The number of threads that call the driver at once.
const THREADS: usize = 16;
/// The pause before a call. It is shorter than a table look-up, so any tool would cost at least as
/// much.
pub(crate) const PAUSE: Duration = Duration::from_nanos(25);
/// The number of untimed calls before the timed ones. They refill the pool, which the previous
/// scope has emptied, and the processor's caches.
const FIRST_CALLS: u64 = 500;
/// The distance between the addresses of simulated records, which is typical of an allocator's
/// small blocks.
const STRIDE: u64 = 512;

static RECORDS: Source = Source::new("benchmark", &[]);

/// A worker, as its parent sees it.
#[derive(Debug)]
pub(crate) struct Worker {
    variant: Variant,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    child: Child,
}

impl Worker {
    pub(crate) fn start(
        variant: Variant,
        environment: &[(String, OsString)],
    ) -> Result<Self, String> {
        let mut child = Command::new(this_program()?)
            .args(["--worker", variant.name()])
            .envs(environment.iter().cloned())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| error.to_string())?;
        let (orders, answers) = (child.stdin.take(), child.stdout.take());
        Ok(Self {
            variant,
            orders,
            answers: BufReader::new(answers.ok_or("no pipe from the worker")?),
            child,
        })
    }

    /// Gives an order and waits for the answer.
    pub(crate) fn ask(&mut self, order: Order) -> Result<String, String> {
        let ended = |_: io::Error| format!("the worker `{}` has ended", self.variant.name());
        let pipe = self.orders.as_mut().ok_or("no pipe to the worker")?;
        writeln!(pipe, "{order}").map_err(ended)?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer).map_err(ended)?;
        if answer.is_empty() {
            return Err(format!(
                "the worker `{}` ended instead of answering `{order}`",
                self.variant.name()
            ));
        }
        Ok(answer.trim_end().to_owned())
    }

    /// Gives an order whose answer is in nanoseconds.
    pub(crate) fn time(&mut self, order: Order) -> Result<f64, String> {
        let answer = self.ask(order)?;
        answer
            .parse()
            .map_err(|_| format!("`{answer}` is not a time"))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // A worker ends when there are no more orders.
        drop(self.orders.take());
        let _ = self.child.wait();
    }
}

pub(crate) fn this_program() -> Result<PathBuf, String> {
    std::env::current_exe().map_err(|error| error.to_string())
}

/// Carries out the orders that arrive on standard input, until it is closed.
pub(crate) fn serve(variant: &str) -> Result<(), String> {
    let variant = Variant::named(variant)?;
    watch(variant)?;
    let device = Device::open();
    for line in io::stdin().lock().lines() {
        let line = line.map_err(|error| error.to_string())?;
        println!("{}", obey(variant, &device, line.parse()?)?);
    }
    Ok(())
}

/// Runs the program alone, as a test with one check would. Returns the time that its loop took.
pub(crate) fn run_program(variant: &str) -> Result<(), String> {
    let variant = Variant::named(variant)?;
    watch(variant)?;
    let device = Device::open();
    let mut nanoseconds = 0;
    in_scope(variant, || {
        let start = Instant::now();
        device.program();
        nanoseconds = start.elapsed().as_nanos();
    });
    println!("{nanoseconds}");
    Ok(())
}

fn watch(variant: Variant) -> Result<(), String> {
    match variant {
        Variant::Plain => __bench::without_listening(),
        Variant::Empty => {
            __bench::without_listening();
            return empty::subscribe();
        }
        Variant::WithoutStacks => {
            __bench::without_stacks();
            __bench::start();
        }
        Variant::Ours => __bench::start(),
    }
    Ok(())
}

fn obey(variant: Variant, device: &Device, order: Order) -> Result<String, String> {
    Ok(match order {
        Order::Device => device.description(),
        Order::Processor(number) => {
            processor::stay_on(number).map_err(|error| error.to_string())?;
            number.to_string()
        }
        Order::PoolPairs(count) => block(variant, device, count, || device.pool_pair()),
        Order::EventPairs(count) => block(variant, device, count, || device.event_pair()),
        Order::Program => block(variant, device, 1, || device.program()),
        Order::ThreadPairs(count) => on_threads(variant, count, device, || ()),
        Order::PausedThreadPairs(count) => {
            let steps = steps_of(PAUSE);
            on_threads(variant, count, device, || pause(steps))
        }
        Order::FirstCheck => {
            let start = Instant::now();
            __bench::start();
            in_scope(variant, || ());
            start.elapsed().as_nanos().to_string()
        }
        Order::Scopes(count) => {
            // The budget excludes readings of the device, because the driver spends that time, not
            // the harness.
            __bench::without_device_readings();
            let start = Instant::now();
            for _ in 0..count {
                in_scope(variant, || ());
            }
            start.elapsed().as_nanos().to_string()
        }
        Order::Fill(count) => {
            static FILLED: AtomicU64 = AtomicU64::new(0);
            let first = FILLED.fetch_add(count, Ordering::Relaxed);
            for number in first..first + count {
                RECORDS.allocated(Place::cuda(0), (number + 1) * STRIDE, STRIDE);
            }
            count.to_string()
        }
        Order::LongestStack => longest_stack().to_string(),
        Order::Report(count) => report(device, count),
    })
}

/// Returns the nanoseconds of `count` calls, deep in the stack and inside a scope.
fn block(variant: Variant, device: &Device, count: u64, mut call: impl FnMut()) -> String {
    let mut nanoseconds = 0;
    in_scope(variant, || {
        at_depth(&mut || {
            for _ in 0..FIRST_CALLS.min(count) {
                call();
            }
            device.synchronize();
            let start = Instant::now();
            for _ in 0..count {
                call();
            }
            nanoseconds = start.elapsed().as_nanos();
        });
    });
    device.synchronize();
    nanoseconds.to_string()
}

/// Returns the nanoseconds of `count` pairs of calls, on as many threads as a typical training
/// process has. The result is the mean of the threads' times. Each thread measures its own time.
fn on_threads(
    variant: Variant,
    count: u64,
    device: &Device,
    before_call: impl Fn() + Sync,
) -> String {
    let mut mean = 0;
    in_scope(variant, || {
        let ready = Barrier::new(THREADS);
        let one = || {
            device.enter();
            (0..FIRST_CALLS.min(count)).for_each(|_| device.pair_of_thread(&before_call));
            ready.wait();
            let start = Instant::now();
            (0..count).for_each(|_| device.pair_of_thread(&before_call));
            start.elapsed().as_nanos()
        };
        let sum: u128 = thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(one)).collect();
            let times = threads.into_iter();
            times.map(|thread| thread.join().expect("a thread")).sum()
        });
        mean = sum / THREADS as u128;
    });
    device.synchronize();
    mean.to_string()
}

/// Returns how many steps of a [`pause`] take this long.
fn steps_of(length: Duration) -> u64 {
    const MANY: u64 = 10_000_000;
    let start = Instant::now();
    pause(MANY);
    (length.as_nanos() as u64 * MANY).div_ceil(start.elapsed().as_nanos().max(1) as u64)
}

/// Does nothing for this number of steps. It touches neither the memory of other threads nor the
/// driver.
fn pause(steps: u64) {
    for step in 0..steps {
        black_box(step);
    }
}

/// Returns the nanoseconds of a scope that leaves this number of resources behind, including its
/// report. Each resource has a different call path.
fn report(device: &Device, count: u64) -> String {
    let mut left = Vec::new();
    let start = Instant::now();
    let reported = __bench::reported(|| {
        for way in 0..count as usize {
            descend(way, &mut || left.push(device.event()));
        }
    });
    let nanoseconds = start.elapsed().as_nanos();
    assert!(reported.contains("leaked: "), "{reported}");
    left.into_iter().for_each(|event| device.destroy(event));
    nanoseconds.to_string()
}

/// Runs `body` in a checked scope, if the variant has checks.
fn in_scope(variant: Variant, body: impl FnOnce()) {
    match variant {
        Variant::Plain | Variant::Empty => body(),
        Variant::WithoutStacks | Variant::Ours => {
            assert!(__bench::leaves_nothing(body), "the scope is not clean");
        }
    }
}

/// Runs `body` with [`DEPTH`] frames above it.
fn at_depth(body: &mut dyn FnMut()) {
    let mut here = 0;
    backtrace::trace(|_| {
        here += 1;
        true
    });
    descend(DEPTH.saturating_sub(here), body);
}

#[inline(never)]
fn descend(levels: usize, body: &mut dyn FnMut()) {
    if levels == 0 {
        body();
    } else {
        descend(levels - 1, body);
    }
    // Without work after the call, the compiler could turn the call into a jump, without a frame.
    black_box(());
}

/// Returns the number of frames of the longest stack that the ledger knows.
fn longest_stack() -> usize {
    let stacks = ledger::live().stacks();
    let lengths = (1..).map(|number| stacks.frames(StackId(number)).len());
    lengths.take_while(|length| *length != 0).max().unwrap_or(0)
}
