//! glibc's descriptor of a thread, which contains the thread's data.

use std::ops::Range;

#[cfg(target_arch = "x86_64")]
use super::memory::PAGE;
use super::memory::{Memory, Pages};

/// Returns where glibc keeps the data of the thread whose descriptor is at `pointer`: the part of
/// the descriptor that holds the data of `pthread_setspecific`, and the table of the thread-locals
/// of libraries.
pub(super) fn data<M: Memory>(pointer: u64, pages: &mut Pages<M>) -> [Range<u64>; 2] {
    // The second word before the table holds the number of libraries for which the table has room.
    let table = pages.word(pointer + 8).unwrap_or(0);
    let room = pages.word(table.wrapping_sub(16)).unwrap_or(0);
    let bytes = 16 * room.min(MOST_LIBRARIES);
    [
        pointer..pointer + SPECIFIC_DATA_END,
        table..table.saturating_add(bytes),
    ]
}

/// The largest number of libraries whose thread-locals are examined.
const MOST_LIBRARIES: u64 = 4096;

/// The offset in glibc's thread descriptor at which the data of `pthread_setspecific` ends. The
/// argument of the thread's first function comes next. It is left out, because it usually points to
/// a block that the thread frees immediately, and that is then reused for something else.
const SPECIFIC_DATA_END: u64 = 0x610;

/// The offset of the thread's id in glibc's thread descriptor.
#[cfg(target_arch = "x86_64")]
const NUMBER: u64 = 0x2d0;

/// Finds glibc's thread descriptor. It is at the far end of the thread's stack, and begins with its
/// own address, the address of its table of thread-locals, and its own address again. The
/// descriptor of the initial thread is elsewhere.
///
/// Other words may look like a descriptor: a list on the stack whose only element is its head, or
/// the stack of another thread in the same mapping. So the descriptor with the thread's id is
/// chosen. If the id is unknown, the last candidate is used.
#[cfg(target_arch = "x86_64")]
pub(super) fn thread_pointer<M: Memory>(
    thread: Option<u32>,
    top: u64,
    end: u64,
    pages: &mut Pages<M>,
) -> Option<u64> {
    let mut candidates = Vec::new();
    let (mut first, mut second) = (0, 0);
    pages.words(top, end, |at, word| {
        let has_a_table = second != 0 && second != word;
        if word != 0 && word == at - 16 && first == word && has_a_table {
            candidates.push(word);
        }
        (first, second) = (second, word);
        true
    });
    let mut is_its = |candidate: &&u64| {
        let number = pages.word(candidate.wrapping_add(NUMBER));
        number.is_some_and(|number| Some(number as u32) == thread)
    };
    let own = candidates.iter().find(&mut is_its);
    own.or(candidates.last()).copied()
}

/// Whether a region contains glibc's descriptor of a thread, usually at its end. Such a region is
/// the stack of a thread, which may have ended.
#[cfg(target_arch = "x86_64")]
pub(super) fn has_descriptor<M: Memory>(region: &Range<u64>, pages: &mut Pages<M>) -> bool {
    let near = region.end.saturating_sub(2 * PAGE).max(region.start);
    let mut is_from = |start| thread_pointer(None, start, region.end, pages).is_some();
    is_from(near) || is_from(region.start)
}

/// On other processors, the stacks of coroutines cannot be distinguished from those of threads.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn has_descriptor<M: Memory>(_region: &Range<u64>, _pages: &mut Pages<M>) -> bool {
    true
}

/// On other processors, this crate does not know the position of the descriptor.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn thread_pointer<M: Memory>(
    _thread: Option<u32>,
    _top: u64,
    _end: u64,
    _pages: &mut Pages<M>,
) -> Option<u64> {
    None
}

#[cfg(target_arch = "x86_64")]
#[cfg(test)]
mod tests {
    use std::ffi::c_void;
    use std::ptr::{null, null_mut};
    use std::sync::Mutex;

    use super::super::memory::{OwnMemory, PAGE, Pages};
    use super::super::tests::{Synthetic, unlimited};
    use super::{NUMBER, data, thread_pointer};

    /// The argument usually points to a block that has been freed and reused for something else, so
    /// it must not be searched.
    #[expect(unsafe_code, reason = "starts a thread whose argument is known")]
    #[test]
    fn the_searched_data_of_a_thread_ends_before_the_argument_that_it_began_with() {
        const ARGUMENT: u64 = 0x5eed_0000_0001;
        const DATA: u64 = 0x5eed_0000_0002;
        /// The last key whose data is in the descriptor.
        const LAST_KEY: libc::pthread_key_t = 31;

        /// The values among `DATA` and `ARGUMENT` that are in the searched data, and those that are
        /// in the words after it.
        static FOUND: Mutex<[Vec<u64>; 2]> = Mutex::new([Vec::new(), Vec::new()]);

        extern "C" fn search(_: *mut c_void) -> *mut c_void {
            let mut key = 0;
            while key < LAST_KEY {
                // SAFETY: the key has no destructor.
                unsafe { libc::pthread_key_create(&raw mut key, None) };
            }
            // SAFETY: nothing dereferences the data of the key.
            unsafe { libc::pthread_setspecific(LAST_KEY, DATA as *const c_void) };
            let mut pages = Pages::new(OwnMemory::open().expect("memory"), unlimited());
            // SAFETY: the function only returns the address of the descriptor.
            let pointer = unsafe { libc::pthread_self() };
            let [searched, _] = data(pointer, &mut pages);
            let next = searched.end..searched.end + 128;
            let found = [searched, next].map(|range| {
                let mut words = Vec::new();
                pages.words(range.start, range.end, |_, word| {
                    words.extend([ARGUMENT, DATA].contains(&word).then_some(word));
                    true
                });
                words
            });
            *FOUND.lock().expect("no panic") = found;
            null_mut()
        }

        let mut thread = 0;
        // SAFETY: the attributes are the default ones, and the function does not use its argument.
        let error = unsafe {
            libc::pthread_create(&raw mut thread, null(), search, ARGUMENT as *mut c_void)
        };
        assert_eq!(error, 0);
        // SAFETY: the thread was started above and is joined once.
        unsafe { libc::pthread_join(thread, null_mut()) };
        assert_eq!(*FOUND.lock().expect("no panic"), [[DATA], [ARGUMENT]]);
    }

    #[test]
    fn a_list_on_the_stack_that_points_to_itself_is_not_a_thread_descriptor() {
        let (stack, descriptor) = (PAGE, 2 * PAGE + 512);
        let mut memory = Synthetic::default();
        memory.put(stack + PAGE - 8, 0);
        for list in [stack, stack + 128] {
            memory.put(list, list);
            memory.put(list + 16, list);
        }
        // The middle word may have any value.
        memory.put(stack + 8, stack);
        memory.put(stack + 136, 7);
        memory.put(descriptor, descriptor);
        memory.put(descriptor + 8, 0x7f0c_0000);
        memory.put(descriptor + 16, descriptor);
        let mut pages = Pages::new(memory.clone(), unlimited());
        let found = thread_pointer(Some(7), stack, 4 * PAGE, &mut pages);
        assert_eq!(found, Some(descriptor));
        // The stack of another thread comes next.
        let next = 3 * PAGE + 512;
        memory.put(next, next);
        memory.put(next + 8, 0x7f0c_0000);
        memory.put(next + 16, next);
        memory.put(next + NUMBER, 8);
        memory.put(descriptor + NUMBER, 7);
        let mut pages = Pages::new(memory, unlimited());
        let found = thread_pointer(Some(7), stack, 4 * PAGE, &mut pages);
        assert_eq!(found, Some(descriptor));
    }
}
