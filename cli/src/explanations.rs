//! The terms that reports use, and what they mean.

/// A term that reports use, with hyphens for its spaces.
#[derive(Debug)]
pub(crate) struct Explanation {
    pub(crate) code: &'static str,
    pub(crate) means: &'static str,
    pub(crate) remedy: &'static str,
}

const fn explanation(code: &'static str, means: &'static str, remedy: &'static str) -> Explanation {
    Explanation {
        code,
        means,
        remedy,
    }
}

/// Kinds of findings, statuses of checks, codes of reasons, and errors that a free can return.
pub(crate) const EXPLANATIONS: &[Explanation] = &[
    explanation(
        "leaked",
        "Something that the test allocated is still held at its end, and a second run of the body left the same again.",
        "Free it before the test ends: the report has the line that allocated it, and the callers. \
         If it is meant to stay, allow it: #[gpu_leak_check(allow(\"fn:optim::Adam::step\", \
         reason = \"why it may stay\"))], or an [[allow]] in gpu-leak-check.toml.",
    ),
    explanation(
        "failed-free",
        "A free or destroy call returned an error, so it freed nothing.",
        "Check whether the resource was freed before, and whether its context is still alive. A Drop implementation easily ignores what a free returns.",
    ),
    explanation(
        "retained",
        "An allocator holds more memory of the layer below than before the test, although its \
         cache was emptied and no live allocation explains it.",
        "Release the pool or empty its cache before the test ends. If the reserve is meant to stay: #[gpu_leak_check(reserved_tolerance = \"32 MiB\")].",
    ),
    explanation(
        "grew",
        "With `rounds`, a call site held more after every single round; under `exec --every`, at each of the last five snapshots.",
        "Free in each round what the round allocates: look for a container that only grows.",
    ),
    explanation(
        "over-budget",
        "The test exceeded a limit: max_allocated, max_total_allocated, max_reserved or max_allocation_count. The largest parts are listed.",
        "Allocate less, or raise the limit.",
    ),
    explanation(
        "first-use",
        "The first run of the body left it, and the second run left no more: typically a static, \
         a library's handle or workspace, or a cache of plans. Under `--every-test`, which runs nothing twice: \
         a static holds it when the test's process ends.",
        "Nothing needs to be done. To make it a failure: GPU_LEAK_CHECK_FIRST_USE=fail. To create it before every test: #[gpu_leak_check::warmup].",
    ),
    explanation(
        "deferred",
        "The first run of the body left it, and a later run freed it: something, typically a \
         static, holds it until it is replaced.",
        "Nothing needs to be done. To free it before the test ends, drop it after its last use.",
    ),
    explanation(
        "allowed",
        "It is still held, and an entry of the attribute or of gpu-leak-check.toml, or the code itself, allows that.",
        "Nothing needs to be done. `cargo gpu-leak report --deny expired` fails once an entry is past its `until`.",
    ),
    explanation(
        "inconclusive",
        "The check ran, but its result is not reliable: there may be a leak, or none. The reason has a code of its \
         own, which the summary has in parentheses: 1 inconclusive (no probe).",
        "Run `cargo gpu-leak explain` with that code, for example poisoned, no-probe or \
         unheard-function.",
    ),
    explanation(
        "not-measured",
        "Nothing could be measured, so it is unknown whether the test leaks. The reason has a \
         code of its own.",
        "Run `cargo gpu-leak explain` with that code, for example no-gpu or unheard. To make it a \
         failure: GPU_LEAK_CHECK=require, or `cargo gpu-leak test --strict`.",
    ),
    explanation(
        "aborted",
        "The process ended inside the test: by exit, abort, a signal or a timeout.",
        "Run this test by itself, in a debugger if necessary. With #[gpu_leak_check(isolate)] it \
         ends no other test.",
    ),
    explanation(
        "clean",
        "Everything that the test allocated was freed.",
        "Nothing needs to be done.",
    ),
    explanation(
        "no-gpu",
        "There is no usable CUDA driver here, or it finds no device.",
        "Run on a machine with an NVIDIA driver and a visible device; check CUDA_VISIBLE_DEVICES, and in a container --gpus. `cargo gpu-leak doctor` shows what was found.",
    ),
    explanation(
        "backend",
        "The check intercepted no call to CUDA or Vulkan, and the process has loaded a library of another \
         graphics API (OpenGL, EGL), whose calls are not watched: wgpu falls back to OpenGL where it \
         finds no Vulkan driver.",
        "Run the test on Vulkan: for wgpu with `Backends::VULKAN` or WGPU_BACKEND=vulkan. lavapipe is a Vulkan driver that runs on the CPU.",
    ),
    explanation(
        "unheard",
        "The program uses the CUDA driver, but initialised it before the harness was loaded, or through \
         calls that the harness did not intercept; or this build cannot intercept any, as on musl or under a sanitizer.",
        "Run the program under `cargo gpu-leak exec`, which watches it from the start; build tests for a target that links glibc dynamically.",
    ),
    explanation(
        "unheard-function",
        "The program called a driver function that this release does not intercept: a variant that it does not \
         know, such as a `cuMemAlloc_v3` of a later CUDA, or one that more drivers and layers provide than it tells \
         apart. The report names the function. What was allocated or freed by such calls was not seen, so leaks may \
         be missing, and what seems to be left may have been freed. In a test, what is left in the driver's layer is \
         therefore not judged: a note says how much that is. The calls of the whole process count, from the beginning \
         of the check to its end; a look-up alone does not.",
        "Update gpu-leak-check. If it is the newest release, report the name of the function to its authors. If many \
         Vulkan devices or layers are in use, run the check with fewer.",
    ),
    explanation(
        "unheard-library",
        "A library was loaded during the check, and its calls to the CUDA driver bypass the harness. The report names it.",
        "Load it before the check begins, in a #[gpu_leak_check::warmup], or run the program under `cargo gpu-leak exec`.",
    ),
    explanation(
        "harness-failed",
        "The harness itself panicked while handling a driver call, so nothing after that is \
         reliable.",
        "Report the message in the program's output to the authors of gpu-leak-check.",
    ),
    explanation(
        "poisoned",
        "A context was broken before the check began: every call in it fails, including frees. The report names the test that broke it, if that is known.",
        "Fix that test: typical causes are an illegal address or an assertion in a kernel. With #[gpu_leak_check(isolate)] it breaks only its own process.",
    ),
    explanation(
        "no-probe",
        "A caching allocator took memory from the driver during the test and has not given it back. The allocator \
         hands this memory out in parts, and only a probe can tell which of them are in use, so what is left may be \
         a leak or the allocator's cache. The report names the allocator.",
        "Register a probe for that allocator. The crate gpu-leak-cubecl has one for cubecl, which burn uses; the \
         documentation of gpu_leak_check::probe::Probe shows how to write another. Or empty the allocator's cache \
         before the test ends: if no part of the memory is in use, nothing is left.",
    ),
    explanation(
        "shared",
        "The probe of an allocator reads a sum, which is higher than before the test, and another check, test or \
         thread could use the allocator meanwhile. A sum does not say who allocated the difference, so it may be a \
         leak of this test. Unlike other reasons, this one fails no test when `CI` is set; it does with \
         GPU_LEAK_CHECK=require, and `cargo gpu-leak test --strict` fails on it.",
        "Run the test in its own process, with #[gpu_leak_check(isolate)] or nextest, or run one test at a time, with \
         `cargo test -- --test-threads=1`. Or have the allocator report its blocks (gpu_leak_check::observe), which \
         have owners.",
    ),
    explanation(
        "not-repeatable",
        "The test left something, and its body could not be run a second time, so it is unknown whether every run leaves it.",
        "Make the body repeatable, or declare that it is not: #[gpu_leak_check(confirm = false)] \
         judges only the first run.",
    ),
    explanation(
        "ambiguous-free",
        "An allocator reported an address again while it was still live, and then freed it, so it is unknown which of \
         the two blocks is still held.",
        "Report each free before the address is given out again, and give all instances of an allocator that share a \
         Source different addresses. If each device has its own address space, report through a PlacedSource, whose \
         frees name the device.",
    ),
    explanation(
        "unfinished",
        "The check did not run to its end: a warm-up failed, or the future of an async block was \
         dropped before it completed.",
        "Find out why the test itself failed; await the block's future until it completes.",
    ),
    explanation(
        "process-ended",
        "The process of an isolated test ended inside the test; the report has the signal or exit code.",
        "Read the test's output, and run the test by itself.",
    ),
    explanation(
        "off",
        "Checks are switched off: GPU_LEAK_CHECK=off, or `mode = \"off\"` in gpu-leak-check.toml.",
        "Unset it.",
    ),
    explanation(
        "only-warned",
        "The check has a finding that fails a test, but the policy of the run lets it pass: `on_leak` is \"warn\".",
        "Fix it, then remove the option. Until then, `cargo gpu-leak report --deny warned` fails on it.",
    ),
    explanation(
        "unchecked",
        "A test used a GPU, or an allocator that reports, outside every check, in a program that has checked tests. Tests that proptest! or a macro_rules! makes inside a checked module are such tests.",
        "Put #[gpu_leak_check] on the test, or inside the macro, or run `cargo gpu-leak test --every-test`. `--deny unchecked` fails on it.",
    ),
    explanation(
        "unmatched",
        "An entry or an override of gpu-leak-check.toml matches nothing in the run, or a budget \
         names a layer in which nothing was allocated, so it limits nothing.",
        "Remove it or correct the name: the report lists the layers that were seen. `--deny unmatched` fails on it.",
    ),
    explanation(
        "expired",
        "An [[allow]] entry is past its `until` date. It still applies.",
        "Ask its `owner`, then remove the entry or extend the date. `--deny expired` fails on it.",
    ),
    explanation(
        "held-by",
        "The static, thread-local or stack that still leads to what leaked, found when the check failed; or the library \
         that allocated it from the driver, with the function of the library that was called. `nothing any more` means \
         that nothing leads to it, so the program has lost track of it; `only` means that nothing leads to the heap \
         blocks that contain its address, as in a cycle. `unknown` is followed by the reason.",
        "Clear that place before the test ends, or drop what it holds. A library holds it for its caller: look at what it was asked to do.",
    ),
    explanation(
        "called-by",
        "The callers of the line that a finding points at, the nearest first, up to the test.",
        "Follow them from the line towards the test: one of these functions should free what is left, or drop it.",
    ),
    explanation(
        "allocated",
        "In the table of a report: the bytes that this layer handed out and that are not freed. Below a failed free: \
         where the resource that was to be freed was allocated.",
        "Compare `baseline` and `after`: what was added between them is what the findings are about.",
    ),
    explanation(
        "others",
        "Where others from the same line were freed, in the run that confirms the leak. With `allocated by`, they had other callers than the leak.",
        "Compare the two paths: the one that leaks lacks this free.",
    ),
    explanation(
        "was-in",
        "The program's own heap blocks contained the address of what leaks: where they were allocated, and where they \
         were freed, in the run that confirms the leak. Nothing has led to it since.",
        "Look there first: whatever owned it was dropped or cleared here without the free.",
    ),
    explanation(
        "with-it",
        "What else was created by the function that created what leaks, and where that was freed, in the run that confirms \
         the leak. It is printed if nothing from the same line was freed. Or what else is left because the same library \
         calls created it, such as the events of a buffer.",
        "Look there first: a `Drop` or a `close` that frees one of two is a common mistake.",
    ),
    explanation(
        "also",
        "Further places that allocated a large part of what exceeded a limit.",
        "Allocate less there, or raise the limit.",
    ),
    explanation(
        "reuse",
        "Allocations of one size at one line, each of which was freed before the next was made. They do not raise the peak, but each costs a call.",
        "Allocate one buffer before the loop and use it each time: the report says how many allocations that saves.",
    ),
    explanation(
        "thread",
        "What is left was allocated by a thread that does not belong to the test, while nothing else could run.",
        "Join the thread before the test ends, or assign its allocations to the right test with `Scope`.",
    ),
    explanation(
        "order",
        "The order in which everything on this line was allocated and freed, in the run that confirms the leak; `#3` is the third that the line allocated. It is printed if all of it is known and there were at most twelve such calls.",
        "Look at the calls just before and after those that allocated what is left: a replacement, a retry, an early return, a list of which all but one are freed.",
    ),
    explanation(
        "when",
        "When it was allocated: the positions of the allocating calls among all calls of the test that allocated or freed something. It is printed if the order is not known.",
        "What is left of the first calls is often set-up; what is left of the last calls often should have been dropped at the end of the test.",
    ),
    explanation(
        "rounds",
        "With `rounds`, what a call site held more after each round.",
        "Free in each round what the round allocates.",
    ),
    explanation(
        "confirmed",
        "What further runs of the body showed: how much they left again, or that the body could not be run again \
         (`not confirmed`). Without this line, no second run was requested.",
        "What every run leaves is a leak. What only the first run leaves is `first-use`.",
    ),
    explanation(
        "known",
        "What this library is known to keep, and how long. In the output of `diff`: a finding that both runs have.",
        "Nothing needs to be done, unless the library should release it earlier.",
    ),
    explanation(
        "note",
        "Another fact about a finding or about the run, such as the entry that allows it, or the reserve that it keeps from being released.",
        "Read it with the finding: a note alone fails nothing.",
    ),
    explanation(
        "layer",
        "One allocator seen by itself: the driver, a pool of the driver, or an allocator that reports or has a probe. Each is a row in the table of a report. An allocator takes its memory from the layer below, so the same bytes may be in several rows.",
        "Begin at the layer of the finding. `max_allocated` and other limits apply to the layer that the option `layer` names.",
    ),
    explanation(
        "baseline",
        "In the table of a report: what a layer held when the check began. It is not judged.",
        "Compare it with `after`.",
    ),
    explanation(
        "after",
        "In the table of a report: what a layer holds at the end of the test, after caches were emptied and frees in flight were awaited.",
        "Compare it with `baseline`: `difference` is what the test added.",
    ),
    explanation(
        "difference",
        "In the table of a report: `after` minus `baseline`, which is what the test added.",
        "The findings above the table say which lines it comes from.",
    ),
    explanation(
        "peak",
        "In the table of a report: the most that a layer held at any one time during the test, including what it held before. At an exceeded limit: the call that reached the peak, where the listed lines were live at once.",
        "To list what was live then, line by line: `cargo gpu-leak test --peaks`. To limit it: #[gpu_leak_check(max_allocated = \"64 MiB\")].",
    ),
    explanation(
        "reserved",
        "In the table of a report: the bytes of the layer below that an allocator or a pool holds, in use or not.",
        "If it stays higher than `baseline`, something in it is still in use, or the allocator keeps it: see `retained`.",
    ),
    explanation(
        "handles",
        "In the table of a report: how many objects other than memory exist, such as streams, events, modules and contexts.",
        "If there are more than at `baseline`, a finding names the line that created them.",
    ),
    explanation(
        "device-used",
        "By how much the memory in use on the whole device changed, and what is known of that: what the layers account for, rounded up to whole pages. What is unexplained is the driver's own: loaded code, kernel stacks. It does not affect the result.",
        "Nothing needs to be done.",
    ),
    explanation(
        "fingerprint",
        "Identifies a finding across runs: computed from the functions of its stack and the kind of resource, not from line numbers.",
        "`cargo gpu-leak diff` compares runs by it, and an [[allow]] can name it: fingerprint = \"…\".",
    ),
    explanation(
        "again",
        "The command that runs this test or program by itself.",
        "Copy it to reproduce the report.",
    ),
    explanation(
        "help",
        "What to do about the findings of a report.",
        "Try the first line first: it is about the worst finding.",
    ),
    explanation(
        "denied",
        "The command fails because of this, although it failed no test: `--deny`, `--strict` or `strict = true` in gpu-leak-check.toml asks for it.",
        "The word after it says what is denied: explain that one, such as `unmatched` or `unchecked`.",
    ),
    explanation(
        "flaky",
        "The test runner retried the test, and its attempts had different results; the last one decides.",
        "Look at the report of the attempt that failed: what is freed on another thread, or created only once, depends on timing. A longer `settle` or a #[gpu_leak_check::warmup] may be all that is needed.",
    ),
    explanation(
        "late",
        "What a check found was freed after its verdict, which does not change.",
        "Join the thread or await the task that frees it, or set a longer `settle`.",
    ),
    explanation(
        "skipped",
        "The body of the test did not run, because there is no GPU and `without_gpu` is \"skip\".",
        "Nothing needs to be done. A test of an allocator that needs no GPU runs with #[gpu_leak_check(needs_gpu = false)].",
    ),
    explanation(
        "outside-every-check",
        "A thread that belongs to no test allocated something while a check ran: a thread of an unchecked test, or a \
         thread or a thread pool that is older than the test. Its owner is unknown, so it fails no test.",
        "Put #[gpu_leak_check] on the unchecked tests. For a thread that works for a checked test, `Scope` assigns its \
         allocations to that test, or #[gpu_leak_check(isolate)] runs the test in its own process.",
    ),
    explanation(
        "lost",
        "A check ended, but its verdict could not be written: the disk was full, or the directory is not writable.",
        "Free disk space, or set GPU_LEAK_CHECK_OUTPUT to a writable directory, and run the test \
         again.",
    ),
    explanation(
        "new",
        "In the output of `diff`: a finding of the second run that the first one did not have. `--deny new` compares \
         with an earlier run in the same way.",
        "It came with a change between the two runs: fix it, or allow it.",
    ),
    explanation(
        "grown",
        "In the output of `diff`: a finding of both runs, with more bytes or a higher count in the second.",
        "Compare what the two runs did there; more tests that leave the same also count.",
    ),
    explanation(
        "not-measured-again",
        "In the output of `diff`: a finding of the first run, whose tests did not all run and give a result in the second.",
        "Run these tests again: until then it is unknown whether it is fixed.",
    ),
    explanation(
        "fixed",
        "In the output of `diff`: a finding of the first run that the second one, which measured all of its tests, does not have.",
        "Nothing needs to be done. If an [[allow]] was about it, remove the entry.",
    ),
    explanation(
        "CUDA_ERROR_INVALID_VALUE",
        "The driver does not know what it was asked to free: it was freed before, or never allocated.",
        "Look for two owners of one pointer or handle.",
    ),
    explanation(
        "CUDA_ERROR_INVALID_HANDLE",
        "The handle is not, or is no longer, valid.",
        "Look for two owners of one handle, and for a context that was destroyed before the handle.",
    ),
    explanation(
        "CUDA_ERROR_INVALID_CONTEXT",
        "No context is current on this thread, or a destroyed one is: for example in a Drop on another thread.",
        "Make the context current before the free.",
    ),
    explanation(
        "CUDA_ERROR_CONTEXT_IS_DESTROYED",
        "The context was destroyed before the resource, and its memory was freed with it.",
        "Keep the context alive until everything in it has been freed.",
    ),
    explanation(
        "CUDA_ERROR_DEINITIALIZED",
        "The driver is shutting down: for example, the destructor of a static runs too late.",
        "Free before main ends.",
    ),
    explanation(
        "CUDA_ERROR_ILLEGAL_ADDRESS",
        "A kernel accessed an invalid address. The context is broken: every later call in it fails.",
        "Find the kernel with compute-sanitizer; the failing frees are a consequence.",
    ),
    explanation(
        "CUDA_ERROR_LAUNCH_FAILED",
        "A kernel failed, and broke its context: every later call in it fails.",
        "Find the kernel with compute-sanitizer; the failing frees are a consequence.",
    ),
    explanation(
        "CUDA_ERROR_ASSERT",
        "An assertion in a kernel failed, and broke its context: every later call in it fails.",
        "Look at the assertion's own message; the failing frees are a consequence.",
    ),
    explanation(
        "CUDA_ERROR_MISALIGNED_ADDRESS",
        "A kernel accessed an address that is not a multiple of the size of the access, and broke its context: every later call in it fails.",
        "Find the kernel with compute-sanitizer; the failing frees are a consequence.",
    ),
    explanation(
        "CUDA_ERROR_ILLEGAL_INSTRUCTION",
        "A kernel executed an invalid instruction, and broke its context: every later call in it fails.",
        "Find the kernel with compute-sanitizer; the failing frees are a consequence.",
    ),
    explanation(
        "CUDA_ERROR_OUT_OF_MEMORY",
        "The device, or the limit set for it, does not have enough memory left. The call \
         allocated nothing.",
        "The table in the report shows what holds the most; an earlier test may have left \
         something behind.",
    ),
    explanation(
        "CUDA_ERROR_NOT_INITIALIZED",
        "The driver was not yet initialised when the call was made, or had already been shut down.",
        "Free before main ends, and create the device before anything that uses it.",
    ),
    explanation(
        "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
        "The call is not allowed while a stream is being captured.",
        "Free after the capture has ended.",
    ),
];

/// The numbers of the driver's errors among them, as logs print them.
pub(crate) const DRIVER_ERRORS: [(&str, &str); 7] = [
    ("1", "CUDA_ERROR_INVALID_VALUE"),
    ("3", "CUDA_ERROR_NOT_INITIALIZED"),
    ("201", "CUDA_ERROR_INVALID_CONTEXT"),
    ("400", "CUDA_ERROR_INVALID_HANDLE"),
    ("700", "CUDA_ERROR_ILLEGAL_ADDRESS"),
    ("709", "CUDA_ERROR_CONTEXT_IS_DESTROYED"),
    ("900", "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"),
];

/// The explanation of a term, whatever the case of its letters.
pub(crate) fn of(code: &str) -> Option<&'static Explanation> {
    let mut all = EXPLANATIONS.iter();
    all.find(|it| it.code.eq_ignore_ascii_case(code))
}
