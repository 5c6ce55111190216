//! Checks of a block inside a test.

use std::panic::{Location, resume_unwind};
use std::time::Duration;

use super::blind;
use super::body::{End, run_here, run_here_async};
use super::naming::subject_at;
use super::outcome::{self, Checked};
use super::session::{Session, check, check_async, refuse};
use super::turn::{self, Caller};
use crate::config::{CheckSettings, Mode};
use crate::options::{Allow, OnLeak, Options, Size, value_of};
use crate::report::check_report::{CheckStatus, Report};

/// A check of a block inside a test or in a program without tests.
///
/// ```
/// use gpu_leak_check::Check;
///
/// let loss = Check::new("one step").tolerance("1 KiB").run(|| {
///     // what is allocated here is freed here
///     0.5
/// });
/// # assert_eq!(loss, 0.5);
/// ```
///
/// The block is judged like a test, by the same rules and options, and a finding fails the test
/// around it. The block runs on the calling thread. Resources that this thread's thread-locals or
/// the block's return value still hold when the block ends count as live.
#[derive(Clone, Debug)]
#[must_use = "the check begins only in `run`"]
pub struct Check {
    name: String,
    options: Options,
    allow: Vec<Allow>,
    at: &'static Location<'static>,
}

/// Defines the methods of [`Check`] that set an option.
macro_rules! setters {
    (
        facts { $($(#[$fact_doc:meta])* $fact:ident: $fact_kind:ident = $fact_example:literal,)* }
        process { $($process:tt)* }
        policy { $($(#[$doc:meta])* $name:ident: $kind:ident = $example:literal,)* }
        $($elsewhere:tt)*
    ) => {
        impl Check {
            $(setter! { $(#[$fact_doc])* $fact: $fact_kind })*
            $(setter! { $(#[$doc])* $name: $kind })*
        }
    };
}

macro_rules! setter {
    ($(#[$doc:meta])* $name:ident: size) => {
        $(#[$doc])*
        pub fn $name(mut self, bytes: impl Into<Size>) -> Self {
            self.options.$name = Some(bytes.into().0);
            self
        }
    };
    ($(#[$doc:meta])* $name:ident: $kind:ident) => {
        $(#[$doc])*
        pub fn $name(mut self, $name: value_of!($kind)) -> Self {
            self.options.$name = Some($name);
            self
        }
    };
}

gpu_leak_check_options::options!(setters);

impl Check {
    /// Creates a check with this name and no options.
    #[track_caller]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            options: Options::DEFAULT,
            allow: Vec::new(),
            at: Location::caller(),
        }
    }

    /// Allows resources that match `pattern` to stay. The pattern has the syntax of the attribute's
    /// `allow`. Reports show the reason. Each call adds one entry.
    pub fn allow(mut self, pattern: &'static str, reason: &'static str) -> Self {
        self.allow.push(Allow {
            pattern,
            reason,
            kind: None,
            up_to: None,
        });
        self
    }

    /// Fails the block unless it leaks exactly this many resources: allocations and objects
    /// together. The block runs once.
    pub fn expect_count(mut self, count: u64) -> Self {
        self.options.expect.get_or_insert_default().count = Some(count);
        self
    }

    /// Fails the block unless it leaks exactly this many bytes. The block runs once.
    pub fn expect_bytes(mut self, bytes: impl Into<Size>) -> Self {
        self.options.expect.get_or_insert_default().bytes = Some(bytes.into().0);
        self
    }

    /// Runs the block, fails if it leaked, and returns the value of its last run.
    ///
    /// # Panics
    ///
    /// Panics if the block panics, if the check fails (with the report), or if the run's settings
    /// are invalid.
    pub fn run<T>(self, block: impl FnMut() -> T) -> T {
        self.run_by(|_| {}, block).0
    }

    /// Runs the block as [`run`](Self::run) does, and also returns the report.
    ///
    /// ```
    /// use gpu_leak_check::Check;
    ///
    /// let ((), report) = Check::new("one step").peaks(true).run_reporting(|| { /* … */ });
    /// for peak in &report.peaks {
    ///     println!("{}", peak.sentence());
    ///     for line in &peak.lines {
    ///         println!("{} bytes at {}", line.bytes, line.at);
    ///     }
    /// }
    /// ```
    ///
    /// # Panics
    ///
    /// The conditions are those of [`run`](Self::run).
    pub fn run_reporting<T>(self, block: impl FnMut() -> T) -> (T, Report) {
        let about = subject_at(&self.name, self.at);
        let (value, report) = self.run_by(|_| {}, block);
        let not_judged = || Report {
            reason: Some(blind::switched_off().reason),
            ..Report::about(about, CheckStatus::NotMeasured)
        };
        (value, report.unwrap_or_else(not_judged))
    }

    /// Runs a block that cannot run twice, fails if it leaked, and returns its value. One-time
    /// set-up counts as leaked, because no second run can show the difference between set-up and a
    /// leak. Rounds and warm-up runs that are configured elsewhere are ignored.
    ///
    /// ```
    /// use gpu_leak_check::Check;
    ///
    /// let model = String::from("weights");
    /// let name = Check::new("hand over").run_once(move || model);
    /// # assert_eq!(name, "weights");
    /// ```
    ///
    /// # Panics
    ///
    /// The conditions are those of [`run`](Self::run).
    pub fn run_once<T>(self, block: impl FnOnce() -> T) -> T {
        let once = |settings: &mut CheckSettings| {
            settings.test.judged.confirm = false;
            (settings.test.judged.rounds, settings.test.warmup) = (1, 0);
        };
        let mut block = Some(block);
        self.run_by(once, || {
            block.take().expect("the closure is called only once")()
        })
        .0
    }

    /// Runs the block with settings that `adapt` may change. Returns no report if checks are
    /// switched off.
    fn run_by<T>(
        self,
        adapt: impl FnOnce(&mut CheckSettings),
        mut block: impl FnMut() -> T,
    ) -> (T, Option<Report>) {
        let mut returned = None;
        let Some(session) = self.begin(adapt) else {
            return (block(), None);
        };
        let body = |scope| run_here(scope, &mut block, |value| drop(returned.replace(value)));
        let report = end_block(check(session, body));
        let value = returned.expect("the block returned, because it did not panic");
        (value, report)
    }

    /// Runs an async block as [`run`](Self::run) runs a block. The block runs in the task that
    /// awaits this future. The compiler does not accept this future in `tokio::spawn`, because it
    /// cannot prove that the future of an async closure is [`Send`]. At the end of each run, the
    /// thread that polls the future is blocked while the check waits for frees in flight.
    ///
    /// ```
    /// # use gpu_leak_check::Check;
    /// # async fn test() {
    /// let loss = Check::new("one step").run_async(async || 0.5).await;
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// The conditions are those of [`run`](Self::run).
    pub async fn run_async<T>(self, mut block: impl AsyncFnMut() -> T) -> T {
        let mut returned = None;
        let Some(session) = self.begin(|_| {}) else {
            return block().await;
        };
        let body = async |scope| {
            run_here_async(scope, &mut block, |value| drop(returned.replace(value))).await
        };
        end_block(check_async(session, body).await);
        returned.expect("the block returned, because it did not panic")
    }

    /// Begins a session for this block, with settings that `adapt` may change. Returns `None` if
    /// checks are switched off.
    fn begin(&self, adapt: impl FnOnce(&mut CheckSettings)) -> Option<Session> {
        let subject = subject_at(&self.name, self.at);
        let mut settings = CheckSettings::of(&subject.test, None, &self.options, &self.allow)
            .unwrap_or_else(|why| refuse(&subject, why));
        adapt(&mut settings);
        if settings.policy.mode == Mode::Off {
            return None;
        }
        let turn = turn::take(&settings.test, Caller::Program);
        Some(Session::new(subject, settings, turn))
    }
}

/// Reports the check of a block and returns its report, if there is one. If the block itself
/// panicked, resumes that panic.
fn end_block(checked: Result<Checked, End>) -> Option<Report> {
    let (end, report) = match checked {
        Ok(checked) => {
            let (end, report) = outcome::report(checked);
            (end, Some(report))
        }
        Err(end) => (end, None),
    };
    match end {
        End::Passed => {}
        End::Panicked(payload) => resume_unwind(payload),
        End::Failed(_) => unreachable!("a block has no exit code"),
    }
    report
}

/// Runs `body` up to `rounds` times, and fails if a call site holds more after each round than
/// before it. Growth can be detected only in at least three rounds; with one round, this is an
/// ordinary check.
///
/// ```
/// use gpu_leak_check::assert_no_growth;
///
/// assert_no_growth(5, || { /* one iteration */ });
/// ```
///
/// # Panics
///
/// Panics if the check fails (with the report), if the body panics, if `rounds` is 0 or 2, or if
/// the run's settings are invalid.
#[track_caller]
pub fn assert_no_growth(rounds: u32, body: impl FnMut()) {
    Check::new("assert_no_growth").rounds(rounds).run(body);
}
