//! Walks the frames of another thread that waits in a system call.
//!
//! The kernel provides the instruction pointer of that call and the stack pointer. The other
//! registers are unknown at first. Registers that a function has saved are restored during the
//! walk, as the unwind tables specify. The frame pointer of the innermost function that uses one is
//! derived from the prologue of that function. If neither is possible, the walk ends, because
//! nothing is guessed.

use std::ops::RangeInclusive;

use framehop::{FrameAddress, UnwindRegsNative, Unwinder};
use gpu_leak_holders::{ReturnAddresses, WaitingThread};

use super::thread::StackWords;
use super::{caches, modules};

/// Stands for an unknown frame pointer. This value is not on any stack.
const UNKNOWN: u64 = u64::MAX - 0xfff;
/// How many bytes before an address are searched for the beginning of its function.
const LONGEST_FUNCTION: u64 = 64 << 10;
/// `push rbp; mov rbp, rsp`
const SETS_FRAME_POINTER: [u8; 4] = [0x55, 0x48, 0x89, 0xe5];
/// How many bytes of a prologue are read after the code that sets the frame pointer: its pushes and
/// its allocation of local variables.
const BEGINNING: usize = 32;
/// The greatest distance, in bytes, from the entry of a function to the code that sets its frame
/// pointer.
const BEFORE_FRAME: u64 = 256;
/// How many bytes of code before a return address are read, to find the call and the address that
/// it calls.
const BEFORE_CALL: usize = 64;

/// Walks the stack of a waiting thread. `word` reads a word of the stack or of the program's code.
pub(in crate::capture::unwind) fn walk(
    thread: WaitingThread,
    word: impl FnMut(u64) -> Option<u64>,
) -> ReturnAddresses {
    let mut walked = ReturnAddresses::default();
    modules::refresh();
    // The search runs on the stack of the check's thread, which may be small.
    let room = StackWords::above((&raw const walked).addr()).map_or(0, |stack| stack.room);
    let (Some(modules), Some(caches)) = (modules::current(), caches::borrow(room)) else {
        return walked;
    };
    let mut walk = Walk {
        modules,
        caches,
        end: thread.end,
        word,
    };
    let mut address = FrameAddress::InstructionPointer(thread.instruction);
    let mut registers = UnwindRegsNative::new(thread.instruction, thread.stack_pointer, UNKNOWN);
    loop {
        match walk.step(address, &mut registers) {
            Some(Some(found)) => {
                walked.found.push((registers.sp() - 8, found));
                let Some(next) = FrameAddress::from_return_address(found) else {
                    return walked;
                };
                address = next;
            }
            Some(None) => {
                walked.complete = true;
                return walked;
            }
            None => return walked,
        }
    }
}

struct Walk<W> {
    modules: &'static modules::UnwindModules,
    caches: caches::Borrowed,
    end: u64,
    word: W,
}

impl<W: FnMut(u64) -> Option<u64>> Walk<W> {
    /// Returns the address to which the function at `address` returns, and updates the registers.
    /// The inner value is `None` if this is the thread's first function. The outer value is `None`
    /// if the return address is unknown.
    fn step(
        &mut self,
        address: FrameAddress,
        registers: &mut UnwindRegsNative,
    ) -> Option<Option<u64>> {
        let before = *registers;
        let mut found = self.unwind(address, registers);
        if found.is_none() && before.bp() == UNKNOWN {
            let frame_pointer = self.frame_pointer(address.address_for_lookup(), before.sp())?;
            *registers = before;
            registers.set_bp(frame_pointer);
            found = self.unwind(address, registers);
        }
        let Some(found) = found? else {
            return Some(None);
        };
        let is_further_out = registers.sp() > before.sp() && registers.sp() <= self.end;
        (is_further_out && self.is_behind_a_call(found)).then_some(Some(found))
    }

    fn unwind(
        &mut self,
        address: FrameAddress,
        registers: &mut UnwindRegsNative,
    ) -> Option<Option<u64>> {
        let stack = registers.sp()..self.end;
        let mut read = |at: u64| {
            let is_inside = stack.contains(&at) && at.is_multiple_of(8);
            is_inside.then(|| (self.word)(at)).flatten().ok_or(())
        };
        let unwinder = &self.modules.unwinder;
        let rules = &mut self.caches.of(self.modules).rules;
        let cache = rules.of(address.address());
        let found = unwinder.unwind_frame(address, registers, cache, &mut read);
        found.ok()
    }

    /// Derives the frame pointer of the function that contains `place` from this stack pointer. The
    /// function must begin by setting a frame pointer, and the return address in its frame must
    /// belong to a call to this function.
    fn frame_pointer(&mut self, place: u64, stack_pointer: u64) -> Option<u64> {
        let function = self.beginning(place)?;
        let code = self.bytes(function + SETS_FRAME_POINTER.len() as u64, BEGINNING)?;
        let frame_pointer = stack_pointer.checked_add(room(&code)?)?;
        let returns = (self.word)(frame_pointer.checked_add(8)?)?;
        // A function with an early exit may set up its frame only after that exit.
        let entry = function.saturating_sub(BEFORE_FRAME)..=function;
        self.calls(returns, &entry).then_some(frame_pointer)
    }

    /// Returns the address at which the function that contains `place` sets its frame pointer.
    fn beginning(&mut self, place: u64) -> Option<u64> {
        let length = SETS_FRAME_POINTER.len();
        let (mut end, mut looked_at) = (place, 0);
        while looked_at < LONGEST_FUNCTION {
            let start = end.checked_sub(4096)?;
            // A prologue may cross the boundary of two blocks.
            let code = self.bytes(start, 4096 + length - 1)?;
            let found = code
                .windows(length)
                .rposition(|it| it == SETS_FRAME_POINTER);
            if let Some(found) = found {
                return Some(start + found as u64);
            }
            (end, looked_at) = (start, looked_at + 4096);
        }
        None
    }

    /// Whether the call that returns to `address` calls the function that begins within `entry`,
    /// judging by the code. The call may contain the distance to the function. It may also use an
    /// address in memory, which is read by the call itself or by an earlier load into a register.
    fn calls(&mut self, address: u64, entry: &RangeInclusive<u64>) -> bool {
        let start = address.saturating_sub(BEFORE_CALL as u64);
        let Some(code) = self.bytes(start, BEFORE_CALL) else {
            return false;
        };
        let target = |end: usize| {
            let distance = code[end - 4..end].try_into().map(i32::from_le_bytes);
            let distance = distance.unwrap_or_default();
            (start + end as u64).wrapping_add_signed(distance.into())
        };
        let call = BEFORE_CALL - 5;
        if code[call] == 0xe8 && entry.contains(&target(BEFORE_CALL)) {
            return true;
        }
        // call *[rip + distance]; mov register, [rip + distance]
        let reads = |end: &usize| match code[end - 7..end - 4] {
            [_, 0xff, 0x15] => *end == BEFORE_CALL,
            [0x48 | 0x4c, 0x8b, operands] => operands & 0xc7 == 0x05,
            _ => false,
        };
        let read: Vec<u64> = (7..=BEFORE_CALL).filter(reads).map(target).collect();
        read.into_iter()
            .filter(|at| at.is_multiple_of(8))
            .any(|at| (self.word)(at).is_some_and(|called| entry.contains(&called)))
    }

    /// Whether a call ends at `address`.
    fn is_behind_a_call(&mut self, address: u64) -> bool {
        let Some(code) = address.checked_sub(8).and_then(|at| self.bytes(at, 8)) else {
            return false;
        };
        // These are indirect calls through a register or through memory, with operands of all
        // lengths. The three middle bits of the second byte show that the instruction is a call.
        let is_indirect = |from_end: usize| {
            let at = code.len() - from_end;
            code[at] == 0xff && code[at + 1] >> 3 & 7 == 2
        };
        code[3] == 0xe8 || [2, 3, 4, 6, 7].into_iter().any(is_indirect)
    }

    fn bytes(&mut self, start: u64, count: usize) -> Option<Vec<u8>> {
        let first = start & !7;
        let skipped = (start - first) as usize;
        let words = (first..).step_by(8).take((skipped + count).div_ceil(8));
        let mut bytes = Vec::with_capacity(count + 16);
        for at in words {
            bytes.extend((self.word)(at)?.to_le_bytes());
        }
        Some(bytes[skipped..skipped + count].to_vec())
    }
}

/// Returns how far a function's stack pointer is below its frame pointer. This is determined from
/// the code that follows the set-up of the frame pointer, which saves registers and allocates local
/// variables.
fn room(mut code: &[u8]) -> Option<u64> {
    let mut room = 0;
    loop {
        match *code {
            // push
            [0x50..=0x57, ref rest @ ..] | [0x41, 0x50..=0x57, ref rest @ ..] => {
                room += 8;
                code = rest;
            }
            // sub rsp, bytes
            [0x48, 0x83, 0xec, bytes @ 0..=0x7f, ..] => return Some(room + u64::from(bytes)),
            [0x48, 0x81, 0xec, a, b, c, d, ..] => {
                return Some(room + u64::from(u32::from_le_bytes([a, b, c, d])));
            }
            [_, _, _, _, _, _, _, ..] => return Some(room),
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests;
