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
        "Something that the test allocated was still live when the test ended, and a second run \
         of the body left just as much behind.",
        "Free it before the test ends: the report shows the line that allocated it and the \
         callers. If it is meant to stay, allow it: \
         #[gpu_leak_check(allow(\"fn:optim::Adam::step\", reason = \"why it may stay\"))], or an \
         [[allow]] entry in gpu-leak-check.toml.",
    ),
    explanation(
        "failed-free",
        "A free or destroy call returned an error, so it freed nothing.",
        "Check whether the resource had already been freed, and whether its context still exists. \
         A Drop implementation often ignores the error code of a free.",
    ),
    explanation(
        "retained",
        "An allocator holds more memory than it did before the test, even though its cache was \
         emptied and no live allocation accounts for the difference.",
        "Release the pool or empty its cache before the test ends. If the reserved memory is \
         meant to stay: #[gpu_leak_check(reserved_tolerance = \"32 MiB\")].",
    ),
    explanation(
        "grew",
        "With `rounds`: a call site held more memory after every round than after the round \
         before. With `exec --every`: it held more at each of the last five snapshots.",
        "Free everything that a round allocates before that round ends. Look for a container that \
         grows and is never cleared.",
    ),
    explanation(
        "over-budget",
        "The test exceeded a limit: max_allocated, max_total_allocated, max_reserved or \
         max_allocation_count. The report lists the largest contributions.",
        "Allocate less, or raise the limit.",
    ),
    explanation(
        "first-use",
        "The first run of the body left an allocation, and the second run did not leave another. \
         Typical causes are a static, a library handle or workspace, or a cache of plans. Under \
         `--every-test`, which runs no test twice: a static held the allocation when the test's \
         process ended.",
        "Nothing needs to be done. To make it a failure, set GPU_LEAK_CHECK_FIRST_USE=fail. To \
         create the resource before the first check, use #[gpu_leak_check::warmup].",
    ),
    explanation(
        "deferred",
        "The first run of the body left an allocation, and a later run freed it. Typically a \
         static holds the value until the next run replaces it.",
        "Nothing needs to be done. To free the allocation before the test ends, drop the value \
         after its last use.",
    ),
    explanation(
        "allowed",
        "The allocation is still live, but it is allowed to be: by the attribute, by an entry in \
         gpu-leak-check.toml, or by a call in the code itself.",
        "Nothing needs to be done. `cargo gpu-leak report --deny expired` fails once an entry is \
         past its `until` date.",
    ),
    explanation(
        "inconclusive",
        "The check ran, but its result is not reliable: the test may or may not leak. The summary \
         shows the code of the reason in parentheses: 1 inconclusive (no probe).",
        "Run `cargo gpu-leak explain` with that code, for example poisoned, no-probe or \
         unheard-function.",
    ),
    explanation(
        "not-measured",
        "The check could not measure anything, so it is not known whether the test leaks. The \
         summary shows the code of the reason in parentheses.",
        "Run `cargo gpu-leak explain` with that code, for example no-gpu or unheard. To make it a \
         failure, use GPU_LEAK_CHECK=require or `cargo gpu-leak test --strict`.",
    ),
    explanation(
        "unexpected",
        "The test has the option `expect`, and it left behind more or less than the option says.",
        "Find out what has changed. If the new amount is intended, change the option. One-time \
         set-up counts too, because the body runs once: `warmup = 1` excludes it.",
    ),
    explanation(
        "aborted",
        "The process ended inside the test, because of exit, abort, a signal or a timeout.",
        "Run this test by itself, in a debugger if necessary. With #[gpu_leak_check(isolate)], the \
         other tests continue.",
    ),
    explanation(
        "clean",
        "Everything that the test allocated was freed.",
        "Nothing needs to be done.",
    ),
    explanation(
        "no-gpu",
        "There is no usable CUDA driver on this machine, or the driver finds no device.",
        "Run on a machine with an NVIDIA driver and a visible device. Check CUDA_VISIBLE_DEVICES \
         and, in a container, the option --gpus. `cargo gpu-leak doctor` shows what was found.",
    ),
    explanation(
        "backend",
        "The check intercepted no call to CUDA or Vulkan, and the process has loaded a library of \
         another graphics API (OpenGL or EGL), whose calls are not watched. wgpu falls back to \
         OpenGL if it finds no Vulkan driver.",
        "Run the test on Vulkan; for wgpu, use `Backends::VULKAN` or WGPU_BACKEND=vulkan. \
         lavapipe is a Vulkan driver that runs on the CPU.",
    ),
    explanation(
        "unheard",
        "The program uses the CUDA driver, but initialised it before the harness was loaded, or \
         through calls that the harness did not intercept; or this build cannot intercept any \
         calls, which is the case on musl and under sanitizers.",
        "Run the program under `cargo gpu-leak exec`, which watches it from the start. Build \
         tests for a target that links glibc dynamically.",
    ),
    explanation(
        "unheard-function",
        "The program called a driver function that this release does not intercept. The function \
         is either a variant that this release does not know, such as a `cuMemAlloc_v3` of a \
         later CUDA release, or a Vulkan function with more implementations in the process, by \
         drivers and layers, than this release can tell apart. The report names the function. Memory that such calls allocated or freed \
         was not seen, so leaks may be missing, and memory that looks live may have been freed. \
         In a test, live memory in the driver's layer is therefore not judged; a note says how \
         much there is. Calls from anywhere in the process count, from the beginning of the check \
         to its end. Looking up a function without calling it does not count.",
        "Update gpu-leak-check. If this is the newest release, report the name of the function to \
         the authors. If many Vulkan devices or layers are in use, run the check with fewer.",
    ),
    explanation(
        "unheard-library",
        "A library was loaded during the check, and its calls to the CUDA driver bypass the \
         harness. The report names the library.",
        "Load the library before the check begins, in a #[gpu_leak_check::warmup], or run the \
         program under `cargo gpu-leak exec`.",
    ),
    explanation(
        "harness-failed",
        "The harness itself panicked while handling a driver call, so nothing after that point is \
         reliable.",
        "Report the panic message from the program's output to the authors of gpu-leak-check.",
    ),
    explanation(
        "poisoned",
        "A context was broken before the check began: every call in that context fails, including \
         frees. The report names the test that broke it, if that is known.",
        "Fix that test first. Typical causes are an illegal address or a failed assertion in a \
         kernel. With #[gpu_leak_check(isolate)], the test breaks only its own process.",
    ),
    explanation(
        "no-probe",
        "A caching allocator took memory from the driver during the test and has not returned it. \
         The allocator divides this memory into smaller blocks, and only a probe can tell which \
         blocks are in use, so the memory may be a leak or just the allocator's cache. The report \
         names the allocator.",
        "Register a probe for that allocator. The crate gpu-leak-cubecl has one for cubecl, which \
         burn uses; the documentation of gpu_leak_check::probe::Probe shows how to write another. \
         Alternatively, empty the allocator's cache before the test ends: if no block is in use, \
         the allocator then returns all of the memory.",
    ),
    explanation(
        "shared",
        "An allocator has handed out more memory than before the test, and the blocks that it \
         reports do not account for the difference. Only the total that its probe reads is known, \
         and a total does not show who allocated. It is judged if nothing but the test could run. \
         Here, another check ran at the same time, or another test or a thread that an earlier \
         test left could run, so the difference may or may not be a leak of this test. Unlike \
         other reasons for `inconclusive`, this one does not fail a test when `CI` is set, but it \
         does with GPU_LEAK_CHECK=require and with `cargo gpu-leak test --strict`.",
        "Run the test in its own process, with #[gpu_leak_check(isolate)], nextest, or `cargo test \
         NAME -- --exact`: then the difference can be judged. Running one test at a time, with \
         `cargo test -- --test-threads=1`, is enough if no test leaves a thread running. \
         Alternatively, have the allocator report its blocks (gpu_leak_check::observe): unlike a \
         total, each block has an owner.",
    ),
    explanation(
        "not-repeatable",
        "The test left an allocation, but its body could not be run a second time, so it is not \
         known whether every run leaves it behind.",
        "Make the body repeatable, or declare that it is not: with #[gpu_leak_check(confirm = \
         false)], only the first run is judged.",
    ),
    explanation(
        "ambiguous-free",
        "An allocator reported an address as allocated while a block at that address was still \
         live, and later reported a single free of that address. It is not known which of the two \
         blocks is still live.",
        "Report each free before the address is handed out again, and give different addresses to \
         all instances of an allocator that share a Source. If each device has its own address \
         space, report through a PlacedSource, whose frees name the device.",
    ),
    explanation(
        "expectation",
        "The test left behind more or less than its `expect` option says.",
        "Find out what has changed. If the new amount is intended, change the option.",
    ),
    explanation(
        "settings",
        "The options of the test, a configuration file or an environment variable are wrong, so \
         the test failed before its body ran.",
        "Correct what the message names, and run the test again.",
    ),
    explanation(
        "unfinished",
        "The check did not run to completion: a warm-up failed, a probe panicked, or the future \
         of an async block was dropped before it completed.",
        "Find out why the test itself failed. If the block's future was dropped, await it to completion.",
    ),
    explanation(
        "process-ended",
        "The process of an isolated test ended inside the test. The report shows the signal or \
         the exit code.",
        "Read the test's output, and run the test by itself.",
    ),
    explanation(
        "off",
        "Checks are switched off: GPU_LEAK_CHECK=off, or `mode = \"off\"` in gpu-leak-check.toml.",
        "Remove that setting.",
    ),
    explanation(
        "only-warned",
        "The check has a finding that would fail the test, but the run's setting `on_leak` is \
         \"warn\".",
        "Fix the leak, then remove the setting. Until then, `cargo gpu-leak report --deny warned` \
         fails because of it.",
    ),
    explanation(
        "unchecked",
        "In a program that has checked tests, a test without a check used a GPU, or an allocator \
         that reports its blocks. This includes tests that proptest! or a macro_rules! macro \
         generates inside a checked module.",
        "Put #[gpu_leak_check] on the test, or inside the macro, or run `cargo gpu-leak test \
         --every-test`. `--deny unchecked` makes this a failure.",
    ),
    explanation(
        "unmatched",
        "An [[allow]] or [[override]] in gpu-leak-check.toml matches nothing in the run, or a \
         budget names a layer in which nothing was allocated.",
        "Remove it or correct the name: the report lists the layers that were seen. `--deny \
         unmatched` makes this a failure.",
    ),
    explanation(
        "expired",
        "An [[allow]] entry is past its `until` date. The entry still applies.",
        "Ask its `owner`, then remove the entry or extend the date. `--deny expired` makes this a \
         failure.",
    ),
    explanation(
        "held-by",
        "The static, thread-local or stack that still points to the leaked memory, found when the \
         check failed; or the library that allocated the memory from the driver, with the library \
         function that the program called. `nothing any more` means that nothing points to the \
         memory, so the program has lost track of it. `only` means that nothing points to the heap \
         blocks that contain its address, as in a reference cycle. `unknown` is followed by the \
         reason.",
        "Clear that static, thread-local or variable before the test ends, or drop the value that \
         it holds. If a library holds the memory, it does so on behalf of its caller: look at the \
         call that the program made.",
    ),
    explanation(
        "called-by",
        "The callers of the line in the finding, the nearest first, up to the test.",
        "Follow them from the line towards the test: one of these functions should have freed or \
         dropped the allocation.",
    ),
    explanation(
        "allocated",
        "In the table of a report: the bytes that this layer has handed out and that have not \
         been freed. Below a failed free: where the resource was allocated.",
        "Compare `baseline` and `after`: the findings are about the difference between them.",
    ),
    explanation(
        "others",
        "Where other allocations from the same line were freed, in the run that confirms the \
         leak. `allocated by` means that these allocations had different callers from the leak.",
        "Compare the two paths: the one that leaks does not reach this free.",
    ),
    explanation(
        "was-in",
        "Heap blocks of the program that contained the address of the leaked memory: where they \
         were allocated and where they were freed, in the run that confirms the leak. Since they \
         were freed, nothing has referred to the memory.",
        "Look there first: the owner was dropped or cleared here without freeing the memory.",
    ),
    explanation(
        "with-it",
        "Other resources that the same function created, and where they were freed, in the run \
         that confirms the leak. This line appears if nothing from the leaking line itself was \
         freed. It can also list other resources that are still live because the same library \
         call created them, such as the events of a buffer.",
        "Look there first: a `Drop` or `close` that frees only one of two resources is a common \
         mistake.",
    ),
    explanation(
        "also",
        "Other places that allocated a large part of the memory that exceeded a limit.",
        "Allocate less there, or raise the limit.",
    ),
    explanation(
        "reuse",
        "Allocations of the same size at the same line, each of which was freed before the next \
         one was made. They do not raise the peak, but each one takes time.",
        "Allocate one buffer before the loop and reuse it: the report shows how many allocations \
         that saves.",
    ),
    explanation(
        "thread",
        "The allocation was made by a thread that does not belong to the test, while no other \
         test could run. It is therefore counted as the test's.",
        "Join the thread before the test ends, or assign its allocations to the right test with \
         `Scope`.",
    ),
    explanation(
        "order",
        "The order in which all allocations of the leaking source line were made and freed, in \
         the run that confirms the leak; `#3` is the third of these allocations. This line \
         appears only if the whole order is known and consists of at most twelve calls.",
        "Look at the calls just before and after those that leaked: a replaced value, a retry, an \
         early return, or a list whose elements are all freed except one.",
    ),
    explanation(
        "when",
        "When the leaked resources were allocated: the positions of the allocating calls among all \
         calls of the test that allocated or freed something. This line appears if there is no \
         `order` line.",
        "Allocations that leak from the first calls are often one-time set-up; those that leak \
         from the last calls often should have been dropped at the end of the test.",
    ),
    explanation(
        "rounds",
        "With `rounds`: by how much the memory held by a call site rose in each round.",
        "Free everything that a round allocates before that round ends.",
    ),
    explanation(
        "confirmed",
        "What further runs of the body showed: how much they left, or that the body could not be \
         run again (`not confirmed`). Without this line, no second run was requested.",
        "An allocation that every run leaves behind is a leak. One that only the first run leaves \
         behind is `first-use`.",
    ),
    explanation(
        "known",
        "Memory that this library is known to keep, and for how long. In the output of `diff`: a \
         finding that both runs have.",
        "Nothing needs to be done, unless the library should release the memory earlier.",
    ),
    explanation(
        "note",
        "Another fact about a finding or about the run, such as the entry that allows the \
         finding, or the reserved memory that a leak keeps from being released.",
        "Read it together with the finding: a note alone never fails a test.",
    ),
    explanation(
        "layer",
        "One allocator considered by itself: the driver, one of the driver's pools, or an \
         allocator that reports its blocks or has a probe. Each layer is a row in the table of a \
         report. An allocator takes its memory from the layer below, so the same bytes may be \
         counted in several rows.",
        "Begin with the layer of the finding. `max_allocated` and other limits apply to the layer \
         that the option `layer` names.",
    ),
    explanation(
        "baseline",
        "In the table of a report: how much a layer held when the check began. The baseline is \
         not judged.",
        "Compare it with `after`.",
    ),
    explanation(
        "after",
        "In the table of a report: how much a layer held at the end of the test, after caches had \
         been emptied and frees in flight had completed.",
        "Compare it with `baseline`: `difference` shows how much the test added.",
    ),
    explanation(
        "difference",
        "In the table of a report: `after` minus `baseline`, which is how much the test added.",
        "The findings above the table show which lines allocated it.",
    ),
    explanation(
        "peak",
        "In the table of a report: the most that a layer held at any time during the test, \
         including the baseline. In an over-budget finding: the call that reached the peak, and \
         the lines whose allocations were live at that moment.",
        "To list what was live at the peak, line by line: `cargo gpu-leak test --peaks`. To limit \
         the peak: #[gpu_leak_check(max_allocated = \"64 MiB\")].",
    ),
    explanation(
        "reserved",
        "In the table of a report: the bytes that an allocator or a pool has taken from the layer \
         below, whether in use or not.",
        "If this stays above `baseline`, part of it is still in use, or the allocator keeps it: \
         see `retained`.",
    ),
    explanation(
        "handles",
        "In the table of a report: the number of objects other than memory, such as streams, \
         events, modules and contexts.",
        "If this number is higher in `after` than in `baseline`, a finding names the line that created the \
         additional objects.",
    ),
    explanation(
        "device-used",
        "How much the memory in use on the whole device changed, and how much of this change the \
         layers account for, rounded up to whole pages. The unexplained rest belongs to the \
         driver itself: loaded code and kernel stacks. It does not affect the result.",
        "Nothing needs to be done.",
    ),
    explanation(
        "fingerprint",
        "Identifies a finding across runs. It is computed from the functions of the finding's \
         stack and the kind of resource, not from line numbers.",
        "`cargo gpu-leak diff` uses it to compare runs, and an [[allow]] entry can contain it: \
         fingerprint = \"…\".",
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
        "The command fails because of this, although no test failed: `--deny`, `--strict` or \
         `strict = true` in gpu-leak-check.toml requires it.",
        "The next word says what was denied. Run `cargo gpu-leak explain` with \
         that word, for example `unmatched` or `unchecked`.",
    ),
    explanation(
        "unmeasured",
        "A check could not measure, a file of the run could not be read, or nothing was checked.",
        "The rest of the line says why. If a reason is in parentheses, run `cargo gpu-leak explain` \
         with it.",
    ),
    explanation(
        "unexplained",
        "The part of the change in a device's used memory that nothing in this process accounts for: \
         it is due to the driver's own overhead or to other processes.",
        "Nothing: it does not affect the result.",
    ),
    explanation(
        "place",
        "The location of the call is unknown, because its stack contains only functions of CUDA's own \
         libraries.",
        "Look at `held by`, which names the function of the library that was called.",
    ),
    explanation(
        "flaky",
        "The test runner retried the test, and its attempts had different results. The last \
         attempt decides.",
        "Look at the report of the attempt that failed. The results of attempts usually differ \
         because of timing: another thread may free memory too late, or one attempt may create \
         one-time resources that the next one finds already in place. A longer `settle` or a \
         #[gpu_leak_check::warmup] may be enough.",
    ),
    explanation(
        "late",
        "A check reported a resource as leaked, and the resource was freed after the verdict. The \
         verdict does not change.",
        "Join the thread or await the task that frees the resource, or set a longer `settle`.",
    ),
    explanation(
        "skipped",
        "The body of the test did not run, because there is no GPU and `without_gpu` is \"skip\".",
        "Nothing needs to be done. If a test needs no GPU, #[gpu_leak_check(needs_gpu = false)] \
         makes it run anyway.",
    ),
    explanation(
        "outside-every-check",
        "While a check ran, a thread that belongs to no checked test allocated something. Either \
         an unchecked test started the thread, or the thread or its pool is older than the \
         checked test. Because the owner is unknown, no test fails.",
        "Put #[gpu_leak_check] on the unchecked tests. If the thread works for a checked test, \
         assign its allocations to that test with `Scope`, or run the test in its own process \
         with #[gpu_leak_check(isolate)].",
    ),
    explanation(
        "lost",
        "A check ended, but its verdict could not be written: the disk was full, or the directory \
         is not writable.",
        "Free disk space, or set GPU_LEAK_CHECK_OUTPUT to a writable directory, and run the test \
         again.",
    ),
    explanation(
        "new",
        "In the output of `diff`: a finding that the second run has and the first run does not, or \
         that failed no test in the first run. `--deny new` looks for findings that an earlier run \
         does not have.",
        "A change between the two runs introduced it: fix the leak, or allow it.",
    ),
    explanation(
        "grown",
        "In the output of `diff`: a finding that both runs have, with more bytes or a higher \
         count in the second. If it fails tests, more in one of them is enough.",
        "Compare what the two runs did at that line. The finding also grows if more tests leave \
         the same allocation.",
    ),
    explanation(
        "not-measured-again",
        "In the output of `diff`: a finding of the first run, some of whose tests did not run or gave \
         no result in the second.",
        "Run these tests again. Until then, it is not known whether the leak is fixed.",
    ),
    explanation(
        "fixed",
        "In the output of `diff`: a finding that the first run has and the second run does not, \
         although the second run measured all of its tests.",
        "Nothing needs to be done. If an [[allow]] entry was about this finding, remove the \
         entry.",
    ),
    explanation(
        "CUDA_ERROR_INVALID_VALUE",
        "The driver does not recognise the address or handle that it was asked to free: the \
         resource has already been freed, or was never allocated.",
        "Look for two owners of one pointer or handle.",
    ),
    explanation(
        "CUDA_ERROR_INVALID_HANDLE",
        "The handle is invalid, or is no longer valid.",
        "Look for two owners of one handle, and for a context that was destroyed before the \
         handle.",
    ),
    explanation(
        "CUDA_ERROR_INVALID_CONTEXT",
        "This thread has no current context, or its current context has been destroyed. A typical \
         case is a Drop that runs on another thread.",
        "Make the context current before the free.",
    ),
    explanation(
        "CUDA_ERROR_CONTEXT_IS_DESTROYED",
        "The context was destroyed before the resource, and its memory was freed with it.",
        "Keep the context alive until everything in it has been freed.",
    ),
    explanation(
        "CUDA_ERROR_DEINITIALIZED",
        "The driver is shutting down. A typical case is a static whose destructor runs too late.",
        "Free the resource before main ends.",
    ),
    explanation(
        "CUDA_ERROR_ILLEGAL_ADDRESS",
        "A kernel accessed an invalid address. The context is broken: every later call in it \
         fails.",
        "Find the kernel with compute-sanitizer. The failing frees are a consequence.",
    ),
    explanation(
        "CUDA_ERROR_LAUNCH_FAILED",
        "A kernel failed and broke its context: every later call in that context fails.",
        "Find the kernel with compute-sanitizer. The failing frees are a consequence.",
    ),
    explanation(
        "CUDA_ERROR_ASSERT",
        "An assertion in a kernel failed and broke its context: every later call in that context \
         fails.",
        "Look at the assertion's own message. The failing frees are a consequence.",
    ),
    explanation(
        "CUDA_ERROR_MISALIGNED_ADDRESS",
        "A kernel accessed an address that is not a multiple of the size of the access, and broke \
         its context: every later call in that context fails.",
        "Find the kernel with compute-sanitizer. The failing frees are a consequence.",
    ),
    explanation(
        "CUDA_ERROR_ILLEGAL_INSTRUCTION",
        "A kernel executed an invalid instruction and broke its context: every later call in that \
         context fails.",
        "Find the kernel with compute-sanitizer. The failing frees are a consequence.",
    ),
    explanation(
        "CUDA_ERROR_OUT_OF_MEMORY",
        "The device does not have enough free memory, or the limit set for it has been reached. \
         The call allocated nothing.",
        "The table in the report shows which layer holds the most. An earlier test may have left \
         memory behind.",
    ),
    explanation(
        "CUDA_ERROR_NOT_INITIALIZED",
        "The driver was not yet initialised when the call was made, or had already been shut \
         down.",
        "Create the device before anything that uses it, and free everything before main ends.",
    ),
    explanation(
        "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
        "The call is not allowed while a stream is being captured.",
        "Free the resource after the capture has ended.",
    ),
];

/// The numbers of the driver's errors among these terms, as logs print them.
pub(crate) const DRIVER_ERRORS: [(&str, &str); 7] = [
    ("1", "CUDA_ERROR_INVALID_VALUE"),
    ("3", "CUDA_ERROR_NOT_INITIALIZED"),
    ("201", "CUDA_ERROR_INVALID_CONTEXT"),
    ("400", "CUDA_ERROR_INVALID_HANDLE"),
    ("700", "CUDA_ERROR_ILLEGAL_ADDRESS"),
    ("709", "CUDA_ERROR_CONTEXT_IS_DESTROYED"),
    ("900", "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"),
];

/// Returns the explanation of a term, ignoring the case of its letters.
pub(crate) fn of(code: &str) -> Option<&'static Explanation> {
    let mut all = EXPLANATIONS.iter();
    all.find(|it| it.code.eq_ignore_ascii_case(code))
}
