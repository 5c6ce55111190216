//! Tests that this unwinder and the exact unwinder agree, no matter where a backtrace is captured.

use std::cell::{Cell, RefCell};
use std::ffi::{c_int, c_void};
use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::LazyLock;

use super::super::exact_walk;
use super::{Frames, Registers, StackWalk};
use crate::ledger::Stacks;
use crate::ledger::event::StackId;

/// Asserts that both unwinders agree on the caller's stack, and returns its depth.
#[inline(never)]
fn compare() -> usize {
    let here = Registers::new();
    let mut walk = StackWalk::begin(&here, &STACKS).expect("this thread's stack is known");
    let predicted = walk.predicted();
    let mut quick = Frames::new();
    let caller = walk.frames(&mut quick).expect("the walk finds callers");
    let exact = exact_walk(caller, None);
    assert_eq!(quick.as_slice(), exact.as_slice());
    let backtrace = STACKS.intern(quick.as_slice());
    match predicted {
        Some(predicted) => {
            PREDICTED.set(PREDICTED.get() + 1);
            assert_eq!(predicted, backtrace);
        }
        None => walk.keep(backtrace),
    }
    black_box(quick.count)
}

static STACKS: LazyLock<Stacks> = LazyLock::new(Stacks::default);

thread_local! {
    /// How many walks of this thread were predicted.
    static PREDICTED: Cell<u32> = const { Cell::new(0) };
}

/// Compares twice: the first walk fills the caches, and the second walk uses them.
fn compare_twice() {
    for _ in 0..2 {
        assert!(compare() > 3);
    }
}

#[inline(never)]
fn recursion(depth: usize) {
    if depth == 0 {
        compare_twice();
    } else {
        recursion(depth - 1);
    }
    black_box(depth);
}

#[test]
fn at_every_depth() {
    for depth in 0..100 {
        recursion(depth);
    }
}

/// Walks at one of two lines, with a value in a register that callees may save.
#[inline(never)]
fn at_two_lines(round: u64) {
    let mut changes = black_box(round);
    let depth = match round % 3 {
        0 => compare(),
        _ => compare() + 1,
    };
    assert!(depth > 3);
    changes = changes.rotate_left(7);
    black_box(changes);
}

#[test]
fn a_sequence_of_walks_is_predicted_when_it_is_repeated() {
    let in_turn = || (0..30).for_each(at_two_lines);
    in_turn();
    PREDICTED.set(0);
    in_turn();
    assert!(PREDICTED.get() > 15, "{}", PREDICTED.get());
}

#[test]
fn through_the_c_library() {
    unsafe extern "C" fn order(_: *const c_void, _: *const c_void) -> c_int {
        compare_twice();
        0
    }
    let mut numbers = [3_u64, 1, 2];
    // SAFETY: there are three elements of eight bytes each, and `order` has the signature of a
    // callback.
    unsafe { libc::qsort(numbers.as_mut_ptr().cast(), 3, 8, Some(order)) };
}

#[test]
fn with_frames_of_any_size_and_alignment() {
    #[repr(align(256))]
    struct Aligned([u8; 4096]);

    #[inline(never)]
    fn aligned(then: &dyn Fn()) {
        let mut block = Aligned([1; 4096]);
        black_box(&mut block);
        then();
        black_box(block.0[7]);
    }

    #[inline(never)]
    fn large(then: &dyn Fn()) {
        let mut block = [1_u8; 300_000];
        black_box(&mut block);
        then();
        black_box(block[7]);
    }

    large(&|| aligned(&|| large(&compare_twice)));
}

#[test]
fn while_a_panic_unwinds() {
    struct Compares;
    impl Drop for Compares {
        fn drop(&mut self) {
            compare_twice();
        }
    }
    let end = catch_unwind(AssertUnwindSafe(|| {
        let _compares = Compares;
        resume_unwind(Box::new(7));
    }));
    assert!(end.is_err());
}

#[test]
fn while_a_thread_ends() {
    struct AtTheEnd(std::sync::mpsc::Sender<usize>);
    impl Drop for AtTheEnd {
        fn drop(&mut self) {
            let _ = self.0.send(compare());
        }
    }
    thread_local! {
        static LAST: RefCell<Option<AtTheEnd>> = const { RefCell::new(None) };
    }
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::spawn(move || LAST.with(|last| *last.borrow_mut() = Some(AtTheEnd(send))));
    assert!(receive.recv().expect("both unwinders agree") > 1);
}

#[test]
fn a_separate_stack_is_not_walked() {
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    static ANSWER: AtomicU32 = AtomicU32::new(0);

    extern "C" fn elsewhere() {
        let walked = StackWalk::begin(&Registers::new(), &STACKS).is_some();
        ANSWER.store(1 + u32::from(walked), Relaxed);
    }

    let mut stack = vec![0_u128; 1 << 14];
    // SAFETY: `getcontext` may fill in a zeroed context. The new context runs `elsewhere` on a
    // stack that outlives it, and then returns here, where `swapcontext` has filled in `home`.
    unsafe {
        let mut home: libc::ucontext_t = std::mem::zeroed();
        let mut fibre: libc::ucontext_t = std::mem::zeroed();
        assert_eq!(libc::getcontext(&raw mut fibre), 0);
        fibre.uc_stack.ss_sp = stack.as_mut_ptr().cast();
        fibre.uc_stack.ss_size = size_of_val(&*stack);
        fibre.uc_link = &raw mut home;
        libc::makecontext(&raw mut fibre, elsewhere, 0);
        assert_eq!(libc::swapcontext(&raw mut home, &raw const fibre), 0);
    }
    assert_eq!(ANSWER.load(Relaxed), 1);
}

#[test]
fn a_walk_is_kept_only_with_the_backtrace_that_its_steps_found() {
    /// Keeps this walk with a backtrace of other frames, and returns what was predicted before.
    #[inline(never)]
    fn keeps(backtrace: StackId) -> Option<StackId> {
        let here = Registers::new();
        let mut walk = StackWalk::begin(&here, &STACKS).expect("this thread's stack is known");
        let predicted = walk.predicted();
        walk.frames(&mut Frames::new())
            .expect("the walk finds callers");
        walk.keep(backtrace);
        predicted
    }
    let other = STACKS.intern(&[1, 2]);
    // If a loop were unrolled, each iteration would be a different call site.
    for _ in 0..black_box(20) {
        assert_eq!(keeps(other), None);
    }
}

/// framehop cannot determine the position of the caller of a function that realigns its stack as
/// GCC does, and guesses. The guess may be a backtrace that another recursion has.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_guess_is_not_taken_for_another_backtrace() {
    use std::arch::naked_asm;

    /// Calls `recurses` with a stack pointer that is lower by `bytes`.
    #[unsafe(naked)]
    extern "C" fn lower(depth: u64, then: extern "C" fn(), bytes: u64) {
        naked_asm!(
            ".cfi_startproc; push rbp; .cfi_def_cfa_offset 16; .cfi_offset rbp, -16",
            "mov rbp, rsp; .cfi_def_cfa_register rbp",
            "sub rsp, rdx; call {}",
            "leave; .cfi_def_cfa rsp, 8; ret; .cfi_endproc",
            sym recurses,
        )
    }
    /// Calls itself until `depth` is 1, and then `realigns`, all from the same address.
    #[unsafe(naked)]
    extern "C" fn recurses(depth: u64, then: extern "C" fn()) {
        naked_asm!(
            ".cfi_startproc; sub rsp, 24; .cfi_def_cfa_offset 32",
            "lea rax, [rip + {}]; lea rcx, [rip + {}]",
            "dec rdi; cmovz rax, rcx; call rax",
            "add rsp, 24; .cfi_def_cfa_offset 8; ret; .cfi_endproc",
            sym recurses, sym realigns,
        )
    }
    #[unsafe(naked)]
    extern "C" fn realigns(_: u64, then: extern "C" fn()) {
        naked_asm!(
            ".cfi_startproc; lea r10, [rsp + 8]; .cfi_def_cfa r10, 0; and rsp, -64",
            // rbp is stored where rbp points, and the frame's position 8 bytes below.
            "push [r10 - 8]; push rbp; .cfi_escape 0x10, 6, 2, 0x76, 0",
            "mov rbp, rsp; push r10; .cfi_escape 0x0f, 3, 0x76, 0x78, 6",
            "sub rsp, 8; call rsi; add rsp, 8",
            "pop r10; .cfi_def_cfa r10, 0; pop rbp",
            "lea rsp, [r10 - 8]; .cfi_def_cfa rsp, 8; ret; .cfi_endproc",
        )
    }
    thread_local! {
        static WRONG: Cell<u32> = const { Cell::new(0) };
    }
    extern "C" fn compares() {
        let exact = exact_walk(0, None);
        let found = STACKS.frames(super::super::stack(&STACKS));
        // The innermost address is in this function.
        let is_wrong = !exact.as_slice().ends_with(&found[1..]);
        WRONG.set(WRONG.get() + u32::from(is_wrong));
    }
    for bytes in black_box([0, 16, 32, 48]) {
        for depth in (1..black_box(5)).rev() {
            lower(depth, compares, bytes);
        }
    }
    assert_eq!(WRONG.get(), 0);
}

/// Above the first frame of a greenlet, the stack may hold anything.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_walk_ends_at_a_return_address_that_is_not_code() {
    use std::arch::naked_asm;

    /// Calls `then`. To an unwinder, this function returns to the address 1.
    #[unsafe(naked)]
    extern "C" fn returns_nowhere(then: extern "C" fn()) {
        naked_asm!(
            "push rbx; mov rbx, rsp; push 1; sub rsp, 8",
            ".cfi_startproc; .cfi_def_cfa rsp, 16; call rdi; .cfi_endproc",
            "mov rsp, rbx; pop rbx; ret",
        )
    }
    thread_local! {
        static DEPTH: Cell<usize> = const { Cell::new(0) };
    }
    extern "C" fn walks() {
        let found = STACKS.frames(super::super::stack(&STACKS));
        DEPTH.set(found.len());
    }
    for _ in 0..black_box(3) {
        returns_nowhere(walks);
        assert_eq!(DEPTH.get(), 2);
    }
}
