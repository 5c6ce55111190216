//! Faults on request. The variable `FAKE_CUDA`, a comma-separated list, and the function
//! `fake_cuda_set_fault` add to one plan.
//!
//! | word | what happens |
//! | --- | --- |
//! | `fail:NAME=CODE`, `fail:NAME=CODE@N` | every call of NAME, or the Nth from now, does nothing and returns CODE |
//! | `poison`, `poison:NAME`, `poison:NAME@N` | the first kernel launch, or that call, breaks its context for good: error 700 from then on |
//! | `delay:NAME`, `delay:NAME@N` | the first, or Nth, call waits between its effect and its return until `fake_cuda_release` |
//! | `oom_after:BYTES` | a device hands out no more than BYTES at a time |
//! | `launch_grows:BYTES` | the first kernel launch in a context takes BYTES of its device, in whole pages, for as long as the context lives |
//! | `no_pools` | the devices do not support stream-ordered memory |
//! | `version:12040` | `cuDriverGetVersion` returns this version |
//!
//! An unknown word ends the process, because a test with a misspelt fault would test nothing.

use std::collections::HashMap;
use std::ffi::CStr;
use std::io::Write as _;
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};

use crate::context;
use crate::error::Error;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Fail(Error),
    Poison,
    Hold,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    api: String,
    action: Action,
    /// The number of the failing call, counted from now on. If `None`, every call fails.
    at: Option<u64>,
    calls: u64,
}

/// All requested faults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    rules: Vec<Rule>,
    pub(crate) oom_after: Option<u64>,
    pub(crate) launch_grows: Option<u64>,
    pub(crate) no_pools: bool,
    pub(crate) version: Option<u32>,
}

/// The faults of one call.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Planned {
    pub(crate) error: Option<Error>,
    pub(crate) hold: bool,
}

static PLAN: LazyLock<Mutex<Plan>> = LazyLock::new(|| {
    let mut plan = Plan::default();
    if let Ok(words) = std::env::var("FAKE_CUDA") {
        plan.add(&words)
            .unwrap_or_else(|problem| give_up(&format!("FAKE_CUDA: {problem}")));
    }
    Mutex::new(plan)
});

/// Locks the plan, to read it or to add to it.
pub(crate) fn plan() -> MutexGuard<'static, Plan> {
    PLAN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends the process with a one-line message, because a test requested something impossible.
pub(crate) fn give_up(problem: &str) -> ! {
    // The process must abort even if stderr is closed.
    let _ = writeln!(std::io::stderr(), "fake driver: {problem}");
    std::process::abort();
}

/// `FAKE_CUDA_DEVICES`: the number of devices of the machine, 1 if unset.
pub(crate) fn device_count() -> usize {
    static COUNT: LazyLock<usize> = LazyLock::new(|| match std::env::var("FAKE_CUDA_DEVICES") {
        Ok(count) => count.parse().unwrap_or_else(|_| {
            give_up(&format!(
                "FAKE_CUDA_DEVICES: `{count}` is not a number of devices"
            ))
        }),
        Err(_) => 1,
    });
    *COUNT
}

/// Counts a call, and returns the faults planned for it.
pub(crate) fn planned(name: &CStr) -> Planned {
    let mut planned = Planned::default();
    let mut poisons = false;
    let mut plan = plan();
    for rule in &mut plan.rules {
        if rule.api.as_bytes() != name.to_bytes() {
            continue;
        }
        rule.calls += 1;
        if rule.at.is_some_and(|at| at != rule.calls) {
            continue;
        }
        match rule.action {
            Action::Fail(error) => planned.error = Some(error),
            Action::Poison => poisons = true,
            Action::Hold => planned.hold = true,
        }
    }
    drop(plan);
    if poisons {
        context::poison_current(Error::ILLEGAL_ADDRESS);
    }
    planned
}

impl Plan {
    /// Adds the faults in a comma-separated list. If a word is invalid, returns a message about it;
    /// the faults before it stay added.
    pub(crate) fn add(&mut self, words: &str) -> Result<(), String> {
        words
            .split(',')
            .map(str::trim)
            .filter(|word| !word.is_empty())
            .try_for_each(|word| self.add_word(word))
    }

    fn add_word(&mut self, word: &str) -> Result<(), String> {
        let (verb, rest) = word.split_once(':').unwrap_or((word, ""));
        match verb {
            "fail" => {
                let (api, rest) = rest
                    .split_once('=')
                    .ok_or_else(|| format!("`{word}` has no `=CODE`"))?;
                let (code, at) = split_at_sign(rest, word)?;
                self.rule(api, Action::Fail(Error(number(code, word)?)), at)?;
            }
            "delay" => {
                let (api, at) = split_at_sign(rest, word)?;
                self.rule(api, Action::Hold, at.or(Some(1)))?;
            }
            "poison" if rest.is_empty() => self.rule("cuLaunchKernel", Action::Poison, Some(1))?,
            "poison" => {
                let (api, at) = split_at_sign(rest, word)?;
                self.rule(api, Action::Poison, at.or(Some(1)))?;
            }
            "oom_after" => self.oom_after = Some(number(rest, word)?),
            "launch_grows" => self.launch_grows = Some(number(rest, word)?),
            "version" => self.version = Some(number(rest, word)?),
            "no_pools" if rest.is_empty() => self.no_pools = true,
            _ => return Err(format!("`{word}` is not a fault of this driver")),
        }
        Ok(())
    }

    fn rule(&mut self, api: &str, action: Action, at: Option<u64>) -> Result<(), String> {
        if !crate::entries().any(|entry| entry.name == api) {
            return Err(format!(
                "`{api}` is not a function of this driver; versions are part of the name, as in `cuMemFree_v2`"
            ));
        }
        self.rules.push(Rule {
            api: api.to_owned(),
            action,
            at,
            calls: 0,
        });
        Ok(())
    }
}

fn split_at_sign<'a>(text: &'a str, word: &str) -> Result<(&'a str, Option<u64>), String> {
    match text.split_once('@') {
        Some((before, count)) => Ok((before, Some(number(count, word)?))),
        None => Ok((text, None)),
    }
}

fn number<T: std::str::FromStr>(text: &str, word: &str) -> Result<T, String> {
    text.parse()
        .map_err(|_| format!("`{text}` in `{word}` is not a number"))
}

/// For each function, the threads that wait between the effect of a call and its return, and the
/// permits to continue.
#[derive(Debug, Default)]
struct Held {
    waiting: u32,
    permits: u32,
}

static HELD: LazyLock<Mutex<HashMap<Vec<u8>, Held>>> = LazyLock::new(Mutex::default);
static CHANGED: Condvar = Condvar::new();

fn held() -> MutexGuard<'static, HashMap<Vec<u8>, Held>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Holds the calling thread until [`release`].
pub(crate) fn hold(name: &CStr) {
    let mut held = held();
    held.entry(name.to_bytes().to_vec()).or_default().waiting += 1;
    CHANGED.notify_all();
    loop {
        let entry = held.entry(name.to_bytes().to_vec()).or_default();
        if entry.permits > 0 {
            entry.permits -= 1;
            entry.waiting -= 1;
            return;
        }
        held = CHANGED.wait(held).unwrap_or_else(PoisonError::into_inner);
    }
}

/// Blocks until a thread is held in `name`, whose effect has happened but which has not returned.
pub(crate) fn wait_held(name: &CStr) {
    let mut held = held();
    while held
        .get(name.to_bytes())
        .is_none_or(|entry| entry.waiting == 0)
    {
        held = CHANGED.wait(held).unwrap_or_else(PoisonError::into_inner);
    }
}

/// Lets one thread that is held in `name` continue.
pub(crate) fn release(name: &CStr) {
    held().entry(name.to_bytes().to_vec()).or_default().permits += 1;
    CHANGED.notify_all();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &str) -> Result<Plan, String> {
        let mut plan = Plan::default();
        plan.add(words).map(|()| plan)
    }

    #[test]
    fn every_word_of_the_table_is_understood() {
        let plan = parsed(
            "fail:cuMemFree_v2=1@3, fail:cuMemAlloc_v2=2,oom_after:4096,launch_grows:1,no_pools,version:12040,delay:cuMemFree_v2,poison,\
             poison:cuMemcpyHtoD_v2@2",
        )
        .unwrap();
        assert_eq!(plan.rules.len(), 5);
        assert_eq!(plan.rules[0].at, Some(3));
        assert_eq!(plan.rules[1].at, None);
        assert_eq!(
            (plan.oom_after, plan.version, plan.no_pools),
            (Some(4096), Some(12040), true)
        );
        assert_eq!(plan.launch_grows, Some(1));
    }

    #[test]
    fn a_word_that_means_nothing_is_refused_by_name() {
        for (words, part) in [
            ("fail:cuMemFree_v2", "`fail:cuMemFree_v2` has no `=CODE`"),
            ("fail:cuMemFreee=1", "`cuMemFreee` is not a function"),
            (
                "fail:cuMemFree_v2=x",
                "`x` in `fail:cuMemFree_v2=x` is not a number",
            ),
            ("oom", "`oom` is not a fault"),
        ] {
            let problem = parsed(words).unwrap_err();
            assert!(problem.contains(part), "{problem}");
        }
    }
}
