//! The settings of one check: a run's policy and the facts about its test.
//!
//! The policy comes from the environment, then from the attribute, then from `[run]` in the file.
//! Facts come from the attribute, then from an `[[override]]`, then from `[check]`.

mod file;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod settings;
mod variables;

use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use self::file::File;
pub use self::file::nearest as nearest_file;
use self::settings::{GivenSettings, KeptForTheProcess};
pub(crate) use self::settings::{Mode, WithoutGpu};
use self::variables::Variables;

use crate::judge::suppressions::{Pattern, Suppression};
use crate::judge::{Facts, Limits};
use crate::ledger::Layer;
use crate::options::{Allow, OnLeak, Options};
use crate::workspace::Workspace;

#[derive(Clone, Debug)]
pub(crate) struct CheckSettings {
    pub(crate) policy: Policy,
    pub(crate) test: TestFacts,
    /// The entries for resources that may stay: first those of the check, then those of the file.
    pub(crate) suppressions: Vec<Suppression>,
}

/// The settings that a run applies to its checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Policy {
    pub(crate) mode: Mode,
    pub(crate) ci: bool,
    pub(crate) on_leak: OnLeak,
    pub(crate) first_use: OnLeak,
    pub(crate) without_gpu: WithoutGpu,
    pub(crate) settle: Duration,
    /// How long to search for the holders of a leak.
    pub(crate) held_by: Duration,
    /// Whether the report lists the contents of each peak.
    pub(crate) peaks: bool,
}

/// The options that a test sets for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TestFacts {
    /// The facts that affect the judgement.
    pub(crate) judged: Facts,
    pub(crate) parallel: bool,
    pub(crate) isolate: bool,
    pub(crate) needs_gpu: bool,
    pub(crate) warmup: u32,
}

/// The settings if nothing is configured.
impl Default for CheckSettings {
    fn default() -> Self {
        Self::combine(&Variables::default(), &Options::DEFAULT, &[], None, "")
            .expect("there are no options that could be rejected")
    }
}

impl CheckSettings {
    /// Returns the settings for `test`, which belongs to the package at `manifest_dir` and has
    /// these `options` and `allow` entries.
    ///
    /// # Errors
    /// Returns a sentence that names the variable, the location in the file or the option, and says
    /// what is wrong and what is valid.
    pub(crate) fn of(
        test: &str,
        manifest_dir: Option<&str>,
        options: &Options,
        allow: &[Allow],
    ) -> Result<Self, String> {
        let variables = variables::of_this_process()?;
        let file = file_of_this_process(variables, manifest_dir)?;
        Self::combine(variables, options, allow, file, test)
    }

    fn combine(
        variables: &Variables,
        options: &Options,
        allow: &[Allow],
        file: Option<&File>,
        test: &str,
    ) -> Result<Self, String> {
        // The variables and the file were already checked when they were read.
        options.check()?;
        let nothing = File::default();
        let file = file.unwrap_or(&nothing);
        let run = variables.run.or(&GivenSettings::of(options));
        let run = run.or(&file.run);
        let options = options.or(file.options_for(test));
        let policy = Policy {
            ci: variables.ci,
            mode: run.mode.unwrap_or(Mode::Auto),
            on_leak: run.on_leak.unwrap_or(OnLeak::Fail),
            first_use: run.first_use.unwrap_or(OnLeak::Warn),
            without_gpu: run.without_gpu.unwrap_or(WithoutGpu::Run),
            settle: run.settle.unwrap_or(Duration::from_millis(250)),
            held_by: run.held_by.unwrap_or(Duration::from_millis(200)),
            peaks: run.peaks.unwrap_or(false),
        };
        let judged = Facts {
            // The expected leak is exact.
            tolerance: match options.expect {
                Some(_) => 0,
                None => options.tolerance.unwrap_or(0),
            },
            reserved_tolerance: options.reserved_tolerance.unwrap_or(0),
            budget: Limits {
                layer: options.layer.map_or(Ok(Layer::DRIVER), layer_called)?,
                ..limits(&options)
            },
            // The expected leak is known, so a second run would prove nothing.
            confirm: options.confirm.unwrap_or(true) && options.expect.is_none(),
            rounds: match options.expect {
                Some(_) => 1,
                None => variables.rounds.or(options.rounds).unwrap_or(1),
            },
            expect: options.expect,
            whole_program: false,
        };
        let test = TestFacts {
            judged,
            parallel: options.parallel.unwrap_or(false),
            isolate: options.isolate.unwrap_or(false),
            needs_gpu: options.needs_gpu.unwrap_or(true),
            warmup: options.warmup.unwrap_or(0),
        };
        let own = allow.iter().map(suppression);
        let suppressions = own.chain(file.allow.iter().cloned().map(Ok));
        Ok(Self {
            policy,
            test,
            suppressions: suppressions.collect::<Result<_, _>>()?,
        })
    }
}

macro_rules! limits {
    ($($(#[$doc:meta])* $option:ident: $limit:ident,)*) => {
        /// Returns the budgets that the options set.
        fn limits(options: &Options) -> Limits {
            Limits { $($option: options.$option,)* ..Limits::default() }
        }
    };
}
gpu_leak_check_options::budgets!(limits);

/// Returns the layer with this name, which is `driver`, `allocator:NAME`, or an allocator's name
/// alone.
fn layer_called(name: &str) -> Result<Layer, String> {
    match gpu_leak_check_options::layer(name)? {
        "driver" => Ok(Layer::DRIVER),
        allocator => Layer::try_allocator(allocator)
            .ok_or_else(|| format!("too many allocators: cannot add {allocator:?}")),
    }
}

/// Converts an `allow` entry of an attribute.
fn suppression(allow: &Allow) -> Result<Suppression, String> {
    if !gpu_leak_check_options::is_reason(allow.reason) {
        return Err(format!(
            "the entry {:?} needs a reason that is not empty",
            allow.pattern
        ));
    }
    let (word, text) = allow.pattern.split_once(':').unwrap_or(("", allow.pattern));
    Ok(Suppression {
        kind: allow.kind,
        up_to: allow.up_to,
        reason: allow.reason.to_owned(),
        ..Suppression::of_pattern(Pattern::new(word, text)?)
    })
}

/// The list of suppressions for whole programs that is shipped with this crate.
const KEPT_FOR_THE_PROCESS: &str = include_str!("kept-for-the-process.toml");

/// Returns the suppressions for resources that libraries are known to keep as long as the process
/// runs. These are the entries of the shipped list; none if the run's settings disable the list.
pub(crate) fn kept_for_the_process() -> Vec<Suppression> {
    let variables = variables::of_this_process().ok();
    let file = variables.and_then(|it| file_of_this_process(it, None).ok()?);
    let runs = [variables.map(|it| &it.run), file.map(|it| &it.run)];
    let mut given = runs.into_iter().flatten();
    match given.find_map(|run| run.kept_for_the_process) {
        Some(KeptForTheProcess::Fail) => Vec::new(),
        Some(KeptForTheProcess::Allow) | None => shipped(),
    }
}

fn shipped() -> Vec<Suppression> {
    let shown = "the shipped kept-for-the-process.toml";
    // A test verifies that the list can be read.
    File::of_text(KEPT_FOR_THE_PROCESS, shown).map_or_else(|_| Vec::new(), |file| file.allow)
}

/// Checks the environment variables of this process.
///
/// # Errors
/// Returns a sentence that names the variable, the problem and the valid values.
pub fn variables() -> Result<(), String> {
    variables::of_this_process().map(|_| ())
}

/// Returns the `[[allow]]` entries of the configuration file at `path`, which need not be the file
/// that this process uses. Reports call the file `shown`.
///
/// # Errors
///
/// Returns a message of the form `file:line:column: what is wrong`, or one that says why the file
/// cannot be read.
pub fn allow_entries(path: &Path, shown: &str) -> Result<Vec<Suppression>, String> {
    File::read(path, shown).map(|file| file.allow)
}

/// The settings that concern a whole run, for the command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunSettings {
    /// Whether a check without a result fails.
    pub require: bool,
    /// Whether the settings allow a run in which nothing is judged, because checks are off or are
    /// skipped without a GPU.
    pub may_check_nothing: bool,
    /// Whether the conditions of `strict` fail the run.
    pub strict: bool,
    /// Whether tests without the attribute are checked too.
    pub every_test: bool,
}

/// Returns the settings of a run. `file` is the path of the configuration file, if there is one,
/// and its name in messages.
///
/// # Errors
/// Returns a description of what is wrong with a variable or in the file, with its location.
pub fn run_settings(file: Option<(&Path, &str)>) -> Result<RunSettings, String> {
    let variables = variables::of_this_process()?;
    let file = match file {
        Some((path, shown)) => File::read(path, shown)?,
        None => File::default(),
    };
    let run = variables.run.or(&file.run);
    Ok(RunSettings {
        require: run.mode == Some(Mode::Require),
        may_check_nothing: run.mode == Some(Mode::Off) || run.without_gpu == Some(WithoutGpu::Skip),
        strict: run.strict == Some(true),
        every_test: file.every_test,
    })
}

/// Returns the patterns of those `[[override]]` tables in the file at `path` that match none of
/// `tests`, each with its location.
///
/// # Errors
/// Returns a description of what is wrong in the file, with its location.
pub fn unmatched_overrides(
    path: &Path,
    shown: &str,
    tests: &[&str],
) -> Result<Vec<(String, String)>, String> {
    let mut overrides = File::read(path, shown)?.overrides;
    overrides.retain(|it| !tests.iter().any(|test| it.test.matches(test)));
    let located = overrides.into_iter();
    Ok(located
        .map(|it| (it.stands_in, it.test.to_string()))
        .collect())
}

/// Returns the name of the configuration file in use, as reports show it.
pub(crate) fn file_in_use(manifest_dir: Option<&str>) -> Option<&'static str> {
    let variables = variables::of_this_process().ok()?;
    let file = file_of_this_process(variables, manifest_dir).ok()??;
    Some(&file.shown)
}

/// Returns the file that the first check of the process finds. It applies to the whole process,
/// because all tests of a program belong to one package.
fn file_of_this_process(
    variables: &Variables,
    manifest_dir: Option<&str>,
) -> Result<Option<&'static File>, String> {
    static READ: OnceLock<Result<Option<File>, String>> = OnceLock::new();
    let read = READ.get_or_init(|| {
        let Some(path) = file::find(variables.config.as_deref(), manifest_dir)? else {
            return Ok(None);
        };
        let shown = path.to_string_lossy();
        File::read(&path, Workspace::current().relative(&shown)).map(Some)
    });
    read.as_ref().map(Option::as_ref).map_err(Clone::clone)
}

#[cfg(test)]
mod tests;
