//! The threads of this process, and the used parts of their stacks, which `roots.rs` makes roots of
//! the search.

use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use std::{fs, thread};

use rustc_hash::{FxBuildHasher, FxHashMap};

use super::budget::Budget;
use super::descriptor::{self, thread_pointer};
use super::memory::{Memory, Pages};
use crate::{Program, ReturnAddresses, WaitingThread};

/// The largest part of a stack that is searched.
const LARGEST: u64 = 64 << 20;

/// The walks of an earlier search: for each thread, the words of its stack that the walk read, with
/// their addresses, and the result. All bits of the words are inverted, because the search also
/// reads this memory, and a register that a function has saved may contain the address of a leak.
type Walks = FxHashMap<WaitingThread, (Vec<(u64, u64)>, ReturnAddresses)>;

/// A waiting thread, or the thread that searches.
#[derive(Debug)]
pub(super) struct Thread {
    /// The thread's id in `/proc/self/task`.
    pub(super) id: Option<u32>,
    /// The address to which the thread's system call returns.
    pub(super) instruction: u64,
    /// The path and the contents of the kernel's file that describes the thread's system call;
    /// `None` for the thread that searches.
    call: Option<(PathBuf, String)>,
    /// The used part of the thread's stack, from its innermost to its outermost frame.
    pub(super) stack: Range<u64>,
    /// The thread pointer, if known. The thread-locals are below it.
    pub(super) pointer: Option<u64>,
}

impl Thread {
    /// Whether this is the thread that searches.
    pub(super) fn is_own(&self) -> bool {
        self.call.is_none()
    }

    /// Returns where the C library keeps the thread's data, if known.
    pub(super) fn data<M: Memory>(&self, pages: &mut Pages<M>) -> [Range<u64>; 2] {
        let pointer = self.pointer;
        pointer.map_or([0..0, 0..0], |pointer| descriptor::data(pointer, pages))
    }

    /// Returns the return addresses on the stack of this thread, as [`returns`] does for every
    /// thread. Adds the walk to `walks`.
    fn returns<M: Memory>(
        &self,
        earlier: &Walks,
        walks: &mut Walks,
        program: Program<'_>,
        pages: &mut Pages<M>,
    ) -> Option<ReturnAddresses> {
        let Some((file, before)) = &self.call else {
            return Some(ReturnAddresses {
                found: program.own_stack.to_vec(),
                complete: true,
            });
        };
        let waiting = WaitingThread {
            instruction: self.instruction,
            stack_pointer: self.stack.start,
            end: self.stack.end,
        };
        let known = earlier.get(&waiting).filter(|(read, _)| {
            let mut read = read.iter();
            read.all(|&(at, word)| pages.word(at) == Some(!word))
        });
        let (read, walked) = known.cloned().unwrap_or_else(|| {
            let mut read = Vec::new();
            let walked = (program.waiting_stack)(waiting, &mut |at| {
                let word = pages.word(at)?;
                if self.stack.contains(&at) {
                    read.push((at, !word));
                }
                Some(word)
            });
            (read, walked)
        });
        if small_file(file).is_none_or(|now| now != *before) {
            return None;
        }
        // A walk that read nothing was not possible at that time, so it is not kept.
        if !read.is_empty() {
            walks.insert(waiting, (read, walked.clone()));
        }
        Some(walked)
    }
}

/// Returns the return addresses on the stack of each thread, innermost first and each with its
/// stack slot, and whether the list is complete. Other words that look like return addresses may be
/// left over from earlier calls. The result is `None` for a thread that has continued, because the
/// data that was read may then mix several states.
///
/// Most threads wait for the whole life of a program, so their stacks are not walked again in a
/// later search, as long as the words that the walk read are unchanged. The return addresses alone
/// would not suffice: a saved frame pointer decides where the next return address is, and the old
/// one may be left over.
pub(super) fn returns<M: Memory>(
    threads: &[Thread],
    program: Program<'_>,
    pages: &mut Pages<M>,
) -> Vec<Option<ReturnAddresses>> {
    static WALKS: Mutex<Walks> = Mutex::new(Walks::with_hasher(FxBuildHasher));
    let walks = || WALKS.lock().unwrap_or_else(PoisonError::into_inner);
    let earlier = std::mem::take(&mut *walks());
    let mut kept = Walks::default();
    let each = threads.iter();
    let all = each
        .map(|thread| thread.returns(&earlier, &mut kept, program, pages))
        .collect();
    // At the time limit, a walk ends early.
    if !pages.is_spent() {
        *walks() = kept;
    }
    all
}

/// Returns the threads of this process, and whether the list and its data are complete. `region`
/// returns the mapping that contains an address. Part of `budget` may be spent waiting for threads
/// that are running.
pub(super) fn of_this_process<M: Memory>(
    program: Program<'_>,
    pages: &mut Pages<M>,
    budget: Budget,
    region: impl Fn(u64) -> Option<Range<u64>>,
) -> (Vec<Thread>, bool) {
    listed_in(Path::new("/proc/self/task"), program, pages, budget, region)
}

/// Does the work of [`of_this_process`], with the directory in which the kernel lists the threads.
fn listed_in<M: Memory>(
    tasks: &Path,
    program: Program<'_>,
    pages: &mut Pages<M>,
    budget: Budget,
    region: impl Fn(u64) -> Option<Range<u64>>,
) -> (Vec<Thread>, bool) {
    let mut threads = Vec::new();
    let Ok(entries) = fs::read_dir(tasks) else {
        return (threads, false);
    };
    let this = fs::read_link("/proc/thread-self").unwrap_or_default();
    let mut complete = true;
    let patience = budget.part(LONGEST_WAIT);
    for entry in entries.flatten() {
        if pages.is_spent() {
            return (threads, false);
        }
        let id: Option<u32> = entry.file_name().to_str().and_then(|id| id.parse().ok());
        let is_own = this.file_name() == Some(&entry.file_name());
        let mut call = None;
        if !is_own {
            let file = entry.path().join("syscall");
            let Some(contents) = waiting_call(|| small_file(&file), patience) else {
                // A thread that has ended in the meantime has no stack. The kernel of a sandbox may
                // list threads without describing their system calls.
                complete &= !entry.path().exists();
                continue;
            };
            call = Some((file, contents));
        }
        let place = match &call {
            None => program.own_stack.first().copied(),
            Some((_, contents)) => waits_at(contents),
        };
        let Some((top, instruction, mapping)) =
            place.and_then(|(top, instruction)| Some((top, instruction, region(top)?)))
        else {
            complete = false;
            continue;
        };
        let end = mapping.end.min(top.saturating_add(LARGEST));
        let is_first = id == Some(std::process::id());
        let pointer = match is_first {
            true => program.first_thread,
            false => thread_pointer(id, top, end, pages),
        };
        // If a stack is larger than `LARGEST`, the rest of it is not searched. Thread-locals whose
        // addresses are unknown are not searched either.
        complete &= pointer.is_some() && (!is_first || end == mapping.end);
        threads.push(Thread {
            id,
            instruction,
            call,
            stack: top..pointer.filter(|_| !is_first).unwrap_or(end),
            pointer,
        });
    }
    (threads, complete)
}

/// Returns the name of the thread with this id in `/proc/self/task`; empty if it has ended.
pub(super) fn name(id: u32) -> String {
    if id == std::process::id() {
        return "main".to_owned();
    }
    let name = fs::read(format!("/proc/self/task/{id}/comm")).unwrap_or_default();
    let name = String::from_utf8_lossy(name.trim_ascii_end());
    // A long name may be cut off inside a character.
    let whole = name.trim_end_matches(char::REPLACEMENT_CHARACTER);
    whole.to_owned()
}

/// Reads a file of the kernel that has one short line.
fn small_file(path: &Path) -> Option<String> {
    let mut line = [0; 256];
    let length = File::open(path).ok()?.read(&mut line).ok()?;
    Some(str::from_utf8(&line[..length]).ok()?.to_owned())
}

/// The total time for which running threads are queried again, and the pause between two queries. A
/// thread that is about to wait or to end may first have to get a processor.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(1);

/// Calls `read`, which returns a description of a thread's system call, until the thread is in a
/// system call or `patience` has run out. Returns the last result; `None` if the thread has ended.
fn waiting_call(read: impl Fn() -> Option<String>, patience: Budget) -> Option<String> {
    let mut call = read()?;
    while waits_at(&call).is_none() && !patience.is_spent() {
        thread::sleep(PAUSE);
        call = read()?;
    }
    Some(call)
}

/// Parses a line such as `202 0x7f… 0x80 … 0x7ffd3c8f1a48 0x7f0c5a2e1b6f`: the number and arguments
/// of a system call, the stack pointer and the instruction pointer. Returns the two pointers in
/// this order. The file of a running thread has no such line.
fn waits_at(call: &str) -> Option<(u64, u64)> {
    let mut fields = call.split_ascii_whitespace().rev();
    let mut number = || u64::from_str_radix(fields.next()?.strip_prefix("0x")?, 16).ok();
    let (place, stack) = (number()?, number()?);
    Some((stack, place))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::fs;
    use std::time::Duration;

    use super::super::budget::Budget;
    use super::super::memory::{PAGE, Pages};
    use super::super::tests::RULES;
    use super::super::tests::{READS, Synthetic, reads, unlimited};
    use super::{LONGEST_WAIT, Thread, Walks, waits_at};
    use crate::{Program, ReturnAddresses};

    #[test]
    fn a_thread_that_waits_has_a_stack_pointer_and_a_place() {
        let waits = "202 0x7f0c 0x80 0x0 0x0 0x0 0x0 0x7ffd3c8f1a48 0x7f0c5a2e1b6f\n";
        let expected = Some((0x7ffd_3c8f_1a48, 0x7f0c_5a2e_1b6f));
        assert_eq!(waits_at(waits), expected);
        assert_eq!(waits_at("-1 0x7ffd3c8f1a48 0x7f0c5a2e1b6f\n"), expected);
        assert_eq!(waits_at("running\n"), None);
        assert_eq!(waits_at(""), None);
    }

    #[test]
    fn a_running_thread_is_read_again_for_a_part_of_the_time() {
        let says = |last: Option<&'static str>| {
            READS.set(0);
            let read = || match READS.replace(READS.get() + 1) {
                0..10 => Some("running\n".to_owned()),
                _ => last.map(str::to_owned),
            };
            let said = super::waiting_call(read, reads(96).part(LONGEST_WAIT));
            (said, READS.get())
        };
        assert_eq!(says(None), (None, 11), "it has ended");
        let waits = "0 0x1 0x2\n";
        assert_eq!(says(Some(waits)), (Some(waits.to_owned()), 11));
        let runs = "running\n";
        assert_eq!(says(Some(runs)), (Some(runs.to_owned()), 12));
    }

    /// Returns a thread that waits at instruction 7. The file `/proc/self/comm` stands for the
    /// description of its system call, which was `call` when the thread was found.
    fn waiting(call: String) -> Thread {
        Thread {
            id: None,
            instruction: 7,
            call: Some(("/proc/self/comm".into(), call)),
            stack: STACK..STACK + PAGE,
            pointer: None,
        }
    }

    const STACK: u64 = 5 * PAGE;

    fn comm() -> String {
        fs::read_to_string("/proc/self/comm").expect("a name")
    }

    #[test]
    fn no_stack_is_reported_for_a_thread_that_has_continued() {
        let returns = |call: String| {
            let mut pages = Pages::new(Synthetic::default(), unlimited());
            let (earlier, mut walks) = (Walks::default(), Walks::default());
            waiting(call).returns(&earlier, &mut walks, program(&[]), &mut pages)
        };
        assert_eq!(returns(comm()), Some(ReturnAddresses::default()));
        assert_eq!(returns("another call".to_owned()), None);
    }

    #[test]
    fn a_stack_is_walked_again_only_if_a_word_that_decided_the_walk_or_the_call_has_changed() {
        /// A walk that finds two return addresses, the second one through a saved frame pointer.
        fn walk(word: &mut dyn FnMut(u64) -> Option<u64>) -> ReturnAddresses {
            WALKS.set(WALKS.get() + 1);
            let mut read = |at| (at, word(at).unwrap_or_default());
            let (_, frame_pointer) = read(FRAME_POINTER);
            ReturnAddresses {
                found: vec![read(STACK + 8), read(frame_pointer + 8)],
                complete: true,
            }
        }
        const FRAME_POINTER: u64 = STACK + 16;
        thread_local! {
            static WALKS: Cell<u32> = const { Cell::new(0) };
        }

        let memory = |changed: u64| {
            let mut memory = Synthetic::default();
            for at in (STACK..STACK + 128).step_by(8) {
                let word = if at == FRAME_POINTER { STACK + 64 } else { 1 };
                memory.put(at, word + if at == changed { 8 } else { 0 });
            }
            memory
        };
        let mut walks = Walks::default();
        let mut is_walked = |instruction, changed| {
            let mut pages = Pages::new(memory(changed), unlimited());
            let thread = Thread {
                instruction,
                ..waiting(comm())
            };
            let program = Program {
                waiting_stack: |_, word| walk(word),
                ..program(&[])
            };
            WALKS.set(0);
            let (earlier, mut after) = (walks.clone(), Walks::default());
            let found = thread.returns(&earlier, &mut after, program, &mut pages);
            if earlier.is_empty() {
                walks = after;
            }
            let is_walked = WALKS.get() == 1;
            let anew = walk(&mut |at| pages.word(at));
            assert_eq!(found, Some(anew), "{changed:#x}");
            is_walked
        };
        assert!(is_walked(7, 0));
        for at in (STACK..STACK + 128).step_by(8) {
            let decides = [STACK + 8, FRAME_POINTER, STACK + 72].contains(&at);
            assert_eq!(is_walked(7, at), decides, "{at:#x}");
        }
        assert!(is_walked(8, 0));
    }

    fn program(own_stack: &[(u64, u64)]) -> Program<'_> {
        Program {
            mappings: &[],
            names: RULES,
            first_thread: None,
            own_stack,
            is_drivers_thread: |_| false,
            allocators_words: &[],
            waiting_stack: |_, _| ReturnAddresses::default(),
        }
    }

    #[test]
    fn a_live_thread_whose_call_is_unknown_is_missing_and_one_that_has_ended_is_not() {
        let lists = |live: bool| {
            let tasks = std::env::temp_dir().join(format!("tasks-{}-{live}", std::process::id()));
            fs::create_dir_all(&tasks).expect("a directory");
            // The kernel has listed the thread, but its directory no longer exists.
            let thread = tasks.join("7");
            match live {
                true => fs::create_dir_all(thread).expect("a directory"),
                false => std::os::unix::fs::symlink("nowhere", thread).expect("a link"),
            }
            let mut pages = Pages::new(Synthetic::default(), unlimited());
            let budget = Budget::new(Duration::ZERO);
            let listed = super::listed_in(&tasks, program(&[]), &mut pages, budget, |_| None);
            fs::remove_dir_all(&tasks).expect("a directory");
            (listed.0.len(), listed.1)
        };
        assert_eq!((lists(true), lists(false)), ((0, false), (0, true)));
    }

    #[test]
    fn the_searching_thread_is_searched_from_its_innermost_known_frame_on() {
        let slot = 5 * PAGE;
        let stack = [(slot, 0)];
        let mut pages = Pages::new(Synthetic::default(), unlimited());
        let budget = Budget::new(Duration::ZERO);
        let region = |at| Some(at..at + PAGE);
        let (threads, _) = super::of_this_process(program(&stack), &mut pages, budget, region);
        let own: Vec<_> = threads.iter().filter(|it| it.is_own()).collect();
        assert_eq!(own.len(), 1);
        assert_eq!(own[0].stack.start, slot);
    }
}
