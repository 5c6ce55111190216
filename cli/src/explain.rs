//! `cargo gpu-leak explain`: what a word of a report means, and what to do.

use std::fmt::Write;

use crate::arguments::Explain;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::print;
use crate::render::{width_of_stdout, wrapped};

/// A word of reports.
#[derive(Debug)]
struct Word {
    code: &'static str,
    means: &'static str,
    remedy: &'static str,
}

const fn word(code: &'static str, means: &'static str, remedy: &'static str) -> Word {
    Word {
        code,
        means,
        remedy,
    }
}

/// Words that are more alike than this are shown as near matches.
const ALIKE: f64 = 0.75;

/// Kinds of findings, statuses of checks, codes of reasons, errors of the driver that a free returns.
const WORDS: &[Word] = &[
    word(
        "leaked",
        "Something that the test took is still held at its end, and a second run of the body left the same again.",
        "Free it before the test ends: the report has the line that took it and who called that. If it is meant to stay, say so: #[gpu_leak_check(allow(\"fn:…\", reason = \"…\"))], or an [[allow]] in gpu-leak-check.toml.",
    ),
    word(
        "failed-free",
        "A free or destroy call returned an error, so it freed nothing.",
        "Look whether the resource was freed before, and whether its context is still alive. What a free returns is easily ignored in a Drop.",
    ),
    word(
        "retained",
        "An allocator holds more from the layer below than before, its cache was emptied, and nothing live explains it.",
        "Release the pool or empty its cache before the test ends. If the reserve is meant to stay: #[gpu_leak_check(reserved_tolerance = \"32 MiB\")].",
    ),
    word(
        "grew",
        "With `rounds`, a site held more after every single round.",
        "Free in each round what the round takes: look for a container that only grows.",
    ),
    word(
        "over-budget",
        "A limit of the test was passed: max_allocated, max_reserved or max_allocation_count. The largest parts are listed.",
        "Take less at once, or raise the limit.",
    ),
    word(
        "first-use",
        "The first run of the body left it and the second did not leave more: a static, a library's handle or workspace, a plan cache.",
        "Nothing need be done. To have it fail: GPU_LEAK_CHECK_FIRST_USE=fail. To have it made before every test: #[gpu_leak_check::warmup].",
    ),
    word(
        "deferred",
        "The first run of the body left it, and a later run freed it: it is kept until it is replaced, typically by a static.",
        "Nothing need be done. To have it freed in time, drop it where its last user ends.",
    ),
    word(
        "allowed",
        "It is still held, and an entry of the attribute or of gpu-leak-check.toml, or the code itself, says that it may.",
        "Nothing need be done. `cargo gpu-leak report --deny expired` fails once an entry is past its `until`.",
    ),
    word(
        "inconclusive",
        "The check ran, and what it saw cannot be relied on; the reason has a code of its own.",
        "Look that code up here: poisoned, no-probe, unheard-function.",
    ),
    word(
        "not-measured",
        "Nothing could be seen, so nothing is said: never to be read as clean. The reason has a code of its own.",
        "Look that code up here: no-gpu, unheard. To have it fail: GPU_LEAK_CHECK=require, or --require-measured.",
    ),
    word(
        "aborted",
        "The process ended inside the test: exit, abort, a signal, a timeout.",
        "Run this test alone, in a debugger if need be. Under #[gpu_leak_check(isolate)] it takes no other test down.",
    ),
    word(
        "clean",
        "Everything that the test took was given back.",
        "Nothing need be done.",
    ),
    word(
        "no-gpu",
        "There is no CUDA driver here, or it finds no device.",
        "Run on a machine with an NVIDIA driver and a visible device; look at CUDA_VISIBLE_DEVICES, and in a container at --gpus. `cargo gpu-leak doctor` says what was looked for.",
    ),
    word(
        "unheard",
        "The program uses the CUDA driver, and had it initialised before the harness was in the process, or by calls that it did not hear; or this build hears none, as on musl or under a sanitizer.",
        "Run the program under `cargo gpu-leak exec`, which is there from the beginning; build tests for a target with a dynamic glibc.",
    ),
    word(
        "unheard-function",
        "The program called a form of one of the driver's functions that this release does not know, so something may have been made or freed unseen. The report names it.",
        "Update gpu-leak-check. If it is the newest release, tell its authors of the name.",
    ),
    word(
        "unheard-library",
        "A library was loaded while the check ran, and was bound to the CUDA driver past the harness. The report names it.",
        "Load it before the check begins, in a #[gpu_leak_check::warmup], or run the program under `cargo gpu-leak exec`.",
    ),
    word(
        "harness-failed",
        "The harness itself failed while it heard a call of the driver: nothing after that can be relied on.",
        "Tell its authors of the message that stands in the program's output.",
    ),
    word(
        "poisoned",
        "A context was broken before the check began: every call in it fails, frees too. The report names the test that broke it, if it is known.",
        "Mend that test: an illegal address, an assertion in a kernel. Under #[gpu_leak_check(isolate)] it breaks only its own process.",
    ),
    word(
        "no-probe",
        "Memory was taken through a caching allocator that the check cannot look into: whether its blocks are in use, only a probe can tell.",
        "Register a Probe for that allocator: the report names it, the crate's documentation shows how.",
    ),
    word(
        "shared",
        "An allocator that only a probe looks into has handed out more than before, and something beside this check could have taken it: the sum has no owner. By itself that fails no test.",
        "Have the allocator report its blocks (gpu_leak_check::observe), or give the test a process of its own: #[gpu_leak_check(isolate)], nextest.",
    ),
    word(
        "not-repeatable",
        "The test left something, and its body could not be run a second time, so whether each run leaves it again is not known.",
        "Let the body be one that can run twice, or say that it cannot: #[gpu_leak_check(confirm = false)] judges the first run alone.",
    ),
    word(
        "ambiguous-free",
        "An address that was freed was live at two places, and the report of its free did not say which of them it meant.",
        "Let the Source that reports it say that its addresses are per place, and name the place in its frees.",
    ),
    word(
        "process-ended",
        "The process of an isolated test ended inside the test; the report says by which signal or exit code.",
        "Look at the test's own output, and run it alone.",
    ),
    word(
        "off",
        "Checks are switched off: GPU_LEAK_CHECK=off, or `mode = \"off\"` in gpu-leak-check.toml.",
        "Unset it.",
    ),
    word(
        "only-warned",
        "The check found something that fails a test, and the run's policy lets it pass: `on_leak` is \"warn\".",
        "Mend it, then take the option away. `cargo gpu-leak report --deny warned` fails on it until then.",
    ),
    word(
        "flaky",
        "The runner tried the test again, and its attempts came to different results; the last one decides.",
        "Look at the report of the attempt that failed: what is freed on another thread, or made once, depends on timing. A longer `settle` or a #[gpu_leak_check::warmup] may be all that is missing.",
    ),
    word(
        "late",
        "What a check found was freed after its verdict, which stays.",
        "A longer `settle` waits for what is on its way; better, join the thread or await the task that frees it.",
    ),
    word(
        "lost",
        "A check came to its end, and its verdict could not be written: the disk was full, or the folder could not be written.",
        "Make room, or set GPU_LEAK_CHECK_OUTPUT to a folder that can be written, and run the test again.",
    ),
    word(
        "CUDA_ERROR_INVALID_VALUE",
        "The driver does not know what it was asked to free: it was freed before, or never taken.",
        "Look for two owners of one pointer or handle.",
    ),
    word(
        "CUDA_ERROR_INVALID_HANDLE",
        "The handle is not, or is no longer, one of the driver's.",
        "Look for two owners of one handle, and for a context that was destroyed before it.",
    ),
    word(
        "CUDA_ERROR_INVALID_CONTEXT",
        "No context is current on this thread, or a destroyed one is: as in a Drop on another thread.",
        "Make the context current before the free.",
    ),
    word(
        "CUDA_ERROR_CONTEXT_IS_DESTROYED",
        "The context was destroyed before what was made in it; its memory went with it.",
        "Let whoever frees hold the context.",
    ),
    word(
        "CUDA_ERROR_DEINITIALIZED",
        "The driver is being shut down: a static's destructor runs after it.",
        "Free before main ends.",
    ),
    word(
        "CUDA_ERROR_ILLEGAL_ADDRESS",
        "A kernel touched memory that is not its own. The context is broken: every later call in it fails.",
        "Find the kernel by compute-sanitizer; the failing frees are a consequence.",
    ),
    word(
        "CUDA_ERROR_LAUNCH_FAILED",
        "A kernel failed, and broke its context: every later call in it fails.",
        "Find the kernel by compute-sanitizer; the failing frees are a consequence.",
    ),
    word(
        "CUDA_ERROR_ASSERT",
        "An assertion in a kernel failed, and broke its context: every later call in it fails.",
        "Look at the assertion's own message; the failing frees are a consequence.",
    ),
    word(
        "CUDA_ERROR_MISALIGNED_ADDRESS",
        "A kernel read or wrote at an address that is no multiple of the size, and broke its context: every later call in it fails.",
        "Find the kernel by compute-sanitizer; the failing frees are a consequence.",
    ),
    word(
        "CUDA_ERROR_ILLEGAL_INSTRUCTION",
        "A kernel ran something that is no instruction, and broke its context: every later call in it fails.",
        "Find the kernel by compute-sanitizer; the failing frees are a consequence.",
    ),
    word(
        "CUDA_ERROR_OUT_OF_MEMORY",
        "The device, or the limit set for it, has no room for what was asked for. Nothing was taken by that call.",
        "Look at the report's table for who holds most; a test before it may have left something.",
    ),
    word(
        "CUDA_ERROR_NOT_INITIALIZED",
        "The driver was not initialised when the call was made, or no longer is.",
        "Free before main ends, and make the device before what lives on it.",
    ),
    word(
        "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
        "The call may not be made while a stream is captured.",
        "Free after the capture has ended.",
    ),
];

/// The whole of `explain`.
pub(crate) fn explain(asked: &Explain) -> Outcome<Exit> {
    let text = match &asked.code {
        None => all(),
        Some(code) => one(code, width_of_stdout()).map_err(Failure::usage)?,
    };
    print(&text);
    Ok(Exit::Clean)
}

fn one(code: &str, width: usize) -> Result<String, String> {
    let code = code.trim();
    let found = WORDS
        .iter()
        .find(|word| word.code.eq_ignore_ascii_case(code));
    let Some(word) = found else {
        return Err(unknown(code));
    };
    let mut lines = vec![word.code.to_owned(), String::new()];
    lines.extend(wrapped(word.means, 2, 2, width));
    lines.push(String::new());
    lines.extend(wrapped(word.remedy, 2, 2, width));
    Ok(lines.join("\n") + "\n")
}

fn unknown(code: &str) -> String {
    let likeness =
        |word: &&Word| strsim::jaro_winkler(&word.code.to_lowercase(), &code.to_lowercase());
    let mut near: Vec<_> = WORDS.iter().filter(|word| likeness(word) > ALIKE).collect();
    near.sort_by(|left, right| likeness(right).total_cmp(&likeness(left)));
    let near: Vec<_> = near.iter().take(3).map(|word| word.code).collect();
    let code = gpu_leak_check::report::escape::name(code);
    if near.is_empty() {
        return format!("no report says `{code}`; `cargo gpu-leak explain` lists what they say");
    }
    format!("no report says `{code}`; near it: {}", near.join(", "))
}

fn all() -> String {
    let mut text = String::new();
    for word in WORDS {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}", word.code);
    }
    text
}

#[cfg(test)]
mod tests {
    use gpu_leak_check::report::Code;
    use gpu_leak_check::report::model::{CheckStatus, FindingKind};

    use super::{WORDS, all, one};

    #[test]
    fn every_kind_of_finding_and_every_status_is_explained() {
        let statuses = [
            CheckStatus::Inconclusive,
            CheckStatus::NotMeasured,
            CheckStatus::Aborted,
            CheckStatus::Clean,
        ];
        let kinds = FindingKind::ALL.iter().copied().map(CheckStatus::Found);
        for status in kinds.chain(statuses) {
            assert!(one(status.name(), 80).is_ok(), "{}", status.name());
        }
    }

    #[test]
    fn every_reason_a_check_may_give_is_explained() {
        for code in Code::ALL {
            assert!(one(code.name(), 80).is_ok(), "{}", code.name());
        }
    }

    #[test]
    fn a_word_is_explained_once() {
        let mut codes: Vec<_> = WORDS.iter().map(|word| word.code).collect();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), WORDS.len(), "{}", all());
    }

    #[test]
    fn an_unknown_word_gets_its_nearest() {
        let message = one("unherd", 80).expect_err("unknown");
        assert!(message.contains("near it: unheard"), "{message}");
        let message = one("xyzzy", 80).expect_err("unknown");
        assert!(message.contains("lists what they say"), "{message}");
    }

    #[test]
    fn an_explanation_says_what_and_what_to_do() {
        insta::assert_snapshot!(one("cuda_error_invalid_context", 60).expect("known"));
    }
}
