//! Runs a program with the real harness, and records what the program does.

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, OpenOptions};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use gpu_leak_check::__private::{self as private, Case, Options, origin};
use gpu_leak_check::report::check_report::Report;
use gpu_leak_check::{Check, OnLeak, Scope, allow, hand_over};

use super::allocators::{self, Allocator};
use super::program::{Action, Fate, Program, SEGMENT, SLOTS, Settings, Step, Take};
use super::sites;
use super::trace::{Block, Kind, Owner, Reserved, Run, Session, SumChange, Trace};

/// A program in progress.
struct Execution {
    program: Program,
    trace: Mutex<Trace>,
    /// The number of times that each step was executed.
    counters: Mutex<BTreeMap<usize, u32>>,
    slots: Mutex<[Option<usize>; SLOTS as usize]>,
    lists: Mutex<[VecDeque<usize>; SLOTS as usize]>,
    workers: Mutex<[Option<(Worker, Context)>; SLOTS as usize]>,
    neighbour: Option<Worker>,
}

/// The program in progress. It is a static, because a test's body is a function without arguments.
static CURRENT: Mutex<Option<Arc<Execution>>> = Mutex::new(None);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

type Job = Box<dyn FnOnce() + Send>;

/// A thread that waits for work.
struct Worker {
    jobs: Sender<(Job, Sender<()>)>,
    thread: JoinHandle<()>,
}

impl Worker {
    fn start() -> Self {
        let (jobs, asked) = channel::<(Job, Sender<()>)>();
        let thread = thread::spawn(move || {
            for (job, done) in asked {
                job();
                // Sending fails only if the requester has panicked in the meantime.
                let _ = done.send(());
            }
        });
        Self { jobs, thread }
    }

    fn job(&self, job: Job) {
        let (done, is_done) = channel();
        self.jobs.send((job, done)).expect("a thread that waits");
        is_done.recv().expect("work that does not panic");
    }

    fn end(self) {
        drop(self.jobs);
        self.thread.join().expect("work that does not panic");
    }
}

/// The session that the work of a thread belongs to.
#[derive(Clone, Copy)]
struct Context {
    home: Owner,
    is_allowed: bool,
}

/// Runs `program` as a checked test. Returns what the program did, and the reports about it.
pub(super) fn run(program: &Program, directory: &Path) -> Trace {
    let neighbour = program.has_neighbour.then(Worker::start);
    let mut trace = Trace::default();
    trace.has_neighbour = program.has_neighbour;
    let execution = Arc::new(Execution {
        program: program.clone(),
        trace: Mutex::new(trace),
        counters: Mutex::default(),
        slots: Mutex::default(),
        lists: Mutex::default(),
        workers: Mutex::default(),
        neighbour,
    });
    *lock(&CURRENT) = Some(execution.clone());
    let session = execution.begin_session(Kind::Test, program.settings, None);
    let case = case(program.settings);
    let end = catch_unwind(AssertUnwindSafe(|| private::run(case)));
    execution.end_session(session, end.is_err());
    *lock(&CURRENT) = None;
    execution.clean_up();
    let execution = Arc::into_inner(execution).expect("nothing else runs");
    if let Some(neighbour) = execution.neighbour {
        neighbour.end();
    }
    let mut trace = execution
        .trace
        .into_inner()
        .expect("no panic while it was locked");
    for report in reports(directory) {
        let name = report.test.rsplit(": ").next().unwrap_or_default();
        let number = match name.strip_prefix('s') {
            Some(number) => number.parse().expect("a session's name"),
            None => session,
        };
        trace.sessions[number].report = Some(report);
    }
    trace
}

/// Creates a test with these settings, and keeps it for good. Each program needs its own, because
/// the harness treats a test that is entered twice as a double registration.
fn case(settings: Settings) -> &'static Case {
    let mut case = Case::new("composition::program", origin!(), body_of_the_test);
    case.options = Options {
        tolerance: Some(settings.tolerance),
        reserved_tolerance: Some(settings.reserved_tolerance),
        confirm: Some(settings.confirm),
        rounds: (settings.rounds > 1).then_some(settings.rounds),
        warmup: Some(settings.warmup),
        on_leak: settings.warns.then_some(OnLeak::Warn),
        ..Options::DEFAULT
    };
    Box::leak(Box::new(case))
}

fn body_of_the_test() -> ExitCode {
    let execution = lock(&CURRENT).clone().expect("a program under way");
    let body = &execution.program.body;
    execution.in_run(0, |context| execution.steps(context, body));
    ExitCode::SUCCESS
}

/// Returns the reports of the checks since the last call.
fn reports(directory: &Path) -> Vec<Report> {
    let Some(file) = run_file(directory) else {
        return Vec::new();
    };
    let lines = fs::read_to_string(&file).expect("a run file");
    // Empties the file, so that the next program reads only its own reports.
    let opened = OpenOptions::new().write(true).open(&file);
    opened.and_then(|file| file.set_len(0)).expect("a run file");
    // Parses the lines as reports, because for a `Record` serde would buffer a copy before it knows
    // the variant.
    let verdicts = lines
        .lines()
        .filter(|line| line.contains(r#""record":"verdict""#));
    let reports = verdicts.map(|line| serde_json::from_str(line).expect("a report"));
    reports.collect()
}

/// Returns the only run file below `directory`.
fn run_file(directory: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(directory)
        .ok()?
        .flatten()
        .map(|entry| entry.path());
    let mut found = entries.filter_map(|path| match path.is_dir() {
        true => run_file(&path),
        false => path
            .extension()
            .is_some_and(|it| it == "jsonl")
            .then_some(path),
    });
    found.next()
}

/// Blocks that are freed when the body that allocated them ends.
struct Guards<'a> {
    execution: &'a Execution,
    blocks: Vec<usize>,
}

impl Drop for Guards<'_> {
    fn drop(&mut self) {
        for block in self.blocks.drain(..) {
            self.execution.free(block);
        }
    }
}

impl Execution {
    fn trace(&self) -> MutexGuard<'_, Trace> {
        lock(&self.trace)
    }

    fn begin_session(&self, kind: Kind, settings: Settings, parent: Option<usize>) -> usize {
        let mut trace = self.trace();
        trace.sessions.push(Session {
            kind,
            settings,
            parent,
            is_allowed: false,
            is_caught: false,
            runs: Vec::new(),
            report: None,
            panicked: false,
            is_over: false,
        });
        trace.sessions.len() - 1
    }

    fn end_session(&self, session: usize, panicked: bool) {
        let session = &mut self.trace().sessions[session];
        session.panicked = panicked;
        session.is_over = true;
    }

    /// Performs one run of the body of `session`.
    fn in_run(&self, session: usize, body: impl FnOnce(Context)) {
        let run = {
            let mut trace = self.trace();
            let began = trace.tick();
            let run = trace.runs.len();
            let before = trace
                .runs
                .iter()
                .filter(|run| run.session == session)
                .count();
            let is_warm_up = before < trace.sessions[session].settings.warmup as usize;
            trace.runs.push(Run {
                session,
                began,
                ended: None,
                panicked: false,
            });
            if !is_warm_up {
                trace.sessions[session].runs.push(run);
            }
            run
        };
        // Reports a block, because a check without any event has measured nothing.
        let address = allocators::fresh(1);
        Allocator::Second.allocated(0, address, 1);
        Allocator::Second.freed(0, address, 1);
        let context = Context {
            home: Owner::Run(run),
            is_allowed: self.trace().sessions[session].is_allowed,
        };
        let end = catch_unwind(AssertUnwindSafe(|| body(context)));
        let mut trace = self.trace();
        let now = trace.tick();
        trace.runs[run].ended = Some(now);
        trace.runs[run].panicked = end.is_err();
        drop(trace);
        go_on(end);
    }

    fn steps(&self, context: Context, steps: &[Step]) {
        let mut guards = Guards {
            execution: self,
            blocks: Vec::new(),
        };
        for step in steps {
            let mut counters = lock(&self.counters);
            let executed = counters.entry(step.number).or_default();
            *executed += 1;
            let execution = *executed;
            drop(counters);
            if step.when.is(execution) {
                self.step(context, &step.action, &mut guards);
            }
        }
    }

    fn step(&self, context: Context, action: &Action, guards: &mut Guards<'_>) {
        match action {
            Action::Take(take) => self.take(context, take, guards),
            Action::Alias {
                allocator,
                site,
                bytes,
                freed,
            } => {
                let take = Take {
                    allocator: *allocator,
                    place: 0,
                    bytes: *bytes,
                    site: *site,
                    in_newest: false,
                    fate: Fate::Lost,
                };
                self.alias(context, &take, *freed);
            }
            Action::FreeOldest { list } => {
                let oldest = lock(&self.lists)[usize::from(*list)].pop_front();
                if let Some(oldest) = oldest {
                    self.free(oldest);
                }
            }
            Action::ChangeSum { sum, bytes, back } => {
                let mut trace = self.trace();
                let (by, at) = (trace.owner(context.home), trace.tick());
                sum.add(*bytes);
                if *back {
                    sum.subtract(*bytes);
                } else {
                    let bytes = i64::try_from(*bytes).expect("a small number");
                    trace.sum_changes.push(SumChange {
                        sum: *sum,
                        by,
                        at,
                        bytes,
                    });
                }
            }
            Action::Reserve { bytes } => _ = self.reserve(context, *bytes),
            Action::Check {
                settings,
                caught,
                body,
            } => self.check(context, *settings, *caught, body),
            Action::Scope {
                finished,
                asserted,
                caught,
                body,
            } => self.scope(context, (*finished, *asserted), *caught, body),
            Action::Repeat { times, body } => {
                for _ in 0..*times {
                    self.steps(context, body);
                }
            }
            Action::Thread { body } => {
                let (execution, body) = (self.shared(), body.clone());
                let thread = thread::spawn(move || execution.steps(context, &body));
                go_on(thread.join());
            }
            Action::StartWorker { slot } => {
                let worker = &mut lock(&self.workers)[usize::from(*slot)];
                worker.get_or_insert_with(|| (Worker::start(), context));
            }
            Action::OnWorker { slot, body } => {
                let workers = lock(&self.workers);
                if let Some((worker, home)) = &workers[usize::from(*slot)] {
                    worker.job(self.job(*home, body));
                }
            }
            Action::Allow { body } => {
                let allowed = Context {
                    is_allowed: true,
                    ..context
                };
                allow("the table is shared", || self.steps(allowed, body));
            }
            Action::Unscoped { body } => {
                let nobody = Context {
                    home: Owner::Nobody,
                    is_allowed: false,
                };
                Scope::none().in_scope(|| self.steps(nobody, body));
            }
            Action::AskNeighbour { body } => {
                if let Some(neighbour) = &self.neighbour {
                    let context = Context {
                        home: Owner::Neighbour,
                        is_allowed: false,
                    };
                    neighbour.job(self.job(context, body));
                }
            }
            Action::Panic => resume_unwind(Box::new("the program's own panic")),
        }
    }

    /// Returns the program in progress, for use on another thread.
    fn shared(&self) -> Arc<Self> {
        lock(&CURRENT).clone().expect("a program under way")
    }

    fn job(&self, context: Context, body: &[Step]) -> Job {
        let (execution, body) = (self.shared(), body.to_vec());
        Box::new(move || execution.steps(context, &body))
    }

    fn check(&self, context: Context, settings: Settings, caught: bool, body: &[Step]) {
        let session = self.begin_inside(Kind::Check, settings, context);
        let mut check = Check::new(format!("s{session}"))
            .tolerance(settings.tolerance)
            .reserved_tolerance(settings.reserved_tolerance)
            .warmup(settings.warmup);
        // Only `false` is set, because `true` contradicts `rounds`.
        if !settings.confirm {
            check = check.confirm(false);
        }
        if settings.rounds > 1 {
            check = check.rounds(settings.rounds);
        }
        if settings.warns {
            check = check.on_leak(OnLeak::Warn);
        }
        let run = || self.in_run(session, |context| self.steps(context, body));
        let end = catch_unwind(AssertUnwindSafe(|| check.run(run)));
        self.end_session(session, end.is_err());
        self.trace().sessions[session].is_caught = caught;
        if !caught {
            go_on(end);
        }
    }

    fn scope(
        &self,
        context: Context,
        (finished, asserted): (bool, bool),
        caught: bool,
        body: &[Step],
    ) {
        let settings = Settings {
            confirm: false,
            ..Settings::DEFAULT
        };
        let session = self.begin_inside(Kind::Scope, settings, context);
        let scope = Scope::open(format!("s{session}"));
        let run = || self.in_run(session, |context| self.steps(context, body));
        let mut end = catch_unwind(AssertUnwindSafe(|| scope.in_scope(run)));
        if end.is_ok() && finished {
            let report = scope.finish();
            self.trace().sessions[session].report = Some(report.clone());
            if asserted {
                end = catch_unwind(AssertUnwindSafe(|| report.assert_clean()));
            }
        }
        self.end_session(session, end.is_err());
        self.trace().sessions[session].is_caught = caught;
        if !caught {
            go_on(end);
        }
    }

    fn begin_inside(&self, kind: Kind, settings: Settings, context: Context) -> usize {
        let Owner::Run(parent) = context.home else {
            unreachable!("no check stands outside the test");
        };
        let session = self.begin_session(kind, settings, Some(parent));
        self.trace().sessions[session].is_allowed = context.is_allowed;
        session
    }

    fn take(&self, context: Context, take: &Take, guards: &mut Guards<'_>) {
        let mut block = None;
        sites::at(take.site, || block = Some(self.allocate(context, take)));
        let block = block.expect("a site does its work");
        match take.fate {
            Fate::Dropped => guards.blocks.push(block),
            Fate::Lost => {}
            Fate::Replaces { slot } => {
                let before = lock(&self.slots)[usize::from(slot)].replace(block);
                if let Some(before) = before {
                    self.free(before);
                }
            }
            Fate::Stored { list } => lock(&self.lists)[usize::from(list)].push_back(block),
            Fate::HandedOver => {
                let mut trace = self.trace();
                let now = trace.tick();
                let block = &mut trace.blocks[block];
                block.handed_over = Some(now);
                let address = block.address;
                drop(trace);
                hand_over(address);
            }
        }
    }

    /// Creates a block and returns its number.
    fn allocate(&self, context: Context, take: &Take) -> usize {
        let address = match take.allocator {
            Allocator::Pool => {
                let newest = take.in_newest.then(|| allocators::in_newest(take.bytes));
                newest
                    .flatten()
                    .unwrap_or_else(|| self.reserve(context, SEGMENT))
            }
            _ => allocators::fresh(take.bytes),
        };
        take.allocator.allocated(take.place, address, take.bytes);
        self.note_block(context, take.allocator, take.place, address, take)
    }

    fn note_block(
        &self,
        context: Context,
        allocator: Allocator,
        place: u8,
        address: u64,
        take: &Take,
    ) -> usize {
        let mut trace = self.trace();
        let owner = trace.owner(context.home);
        let made = trace.tick();
        // What is allowed outside any scope has no owner.
        let has_no_owner = context.is_allowed && matches!(context.home, Owner::Nobody);
        trace.blocks.push(Block {
            allocator,
            place: allocator.place_number(place),
            address,
            bytes: take.bytes,
            site: take.site,
            owner,
            made,
            freed: None,
            is_allowed: context.is_allowed,
            handed_over: has_no_owner.then_some(made),
            ambiguous: None,
        });
        trace.blocks.len() - 1
    }

    /// Reports the same address in both places, and then frees it in place 0 or does not free it.
    fn alias(&self, context: Context, take: &Take, freed: bool) {
        let Take {
            allocator,
            bytes,
            site,
            ..
        } = *take;
        let address = allocators::fresh(bytes);
        let mut blocks = [0; 2];
        for (block, place) in blocks.iter_mut().zip([0, 1]) {
            sites::at(site, || {
                allocator.allocated(place, address, bytes);
                *block = self.note_block(context, allocator, place, address, take);
            });
        }
        if !freed {
            return;
        }
        if allocator == Allocator::Placed {
            self.free(blocks[0]);
            return;
        }
        // It is unknown which of the two blocks was freed.
        allocator.freed(0, address, bytes);
        let mut trace = self.trace();
        let now = trace.tick();
        for block in blocks {
            trace.blocks[block].ambiguous = Some(now);
        }
    }

    /// Makes the pool allocate a segment, and returns its address.
    fn reserve(&self, context: Context, bytes: u64) -> u64 {
        let address = allocators::reserve(bytes);
        let mut trace = self.trace();
        let (by, at) = (trace.owner(context.home), trace.tick());
        trace.segments.push(Reserved {
            address,
            bytes,
            by,
            at,
        });
        address
    }

    fn free(&self, block: usize) {
        let mut trace = self.trace();
        let now = trace.tick();
        let block = &mut trace.blocks[block];
        block.freed = Some(now);
        let (allocator, place) = (block.allocator, block.place);
        let (address, bytes) = (block.address, block.bytes);
        drop(trace);
        allocator.freed(place, address, bytes);
    }

    /// Ends the program's threads and frees what the program has left, so that the next program
    /// starts from nothing.
    fn clean_up(&self) {
        for (worker, _) in std::mem::take(&mut *lock(&self.workers))
            .into_iter()
            .flatten()
        {
            worker.end();
        }
        for block in &self.trace().blocks {
            if block.freed.is_none() {
                block
                    .allocator
                    .freed(block.place, block.address, block.bytes);
            }
        }
        allocators::reset();
    }
}

fn go_on(end: Result<(), Box<dyn Any + Send>>) {
    if let Err(payload) = end {
        resume_unwind(payload);
    }
}
