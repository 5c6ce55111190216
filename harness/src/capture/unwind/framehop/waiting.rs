//! The frames of another thread, which waits in a call of the system.
//!
//! The kernel tells where that call is, and the stack pointer. Nothing is known of the other
//! registers: those that a function has saved are restored on the way, as its unwind tables say, and
//! the frame pointer of the innermost function that relies on one follows from how that function
//! begins. Where none of it leads on, the walk ends: nothing is guessed.

use std::ops::RangeInclusive;

use framehop::{FrameAddress, UnwindRegsNative, Unwinder};

use super::{caches, modules};
use crate::capture::unwind::waiting::{Waiting, Walked};

/// No frame pointer: it lies on no stack.
const UNKNOWN: u64 = u64::MAX - 0xfff;
/// How far a function's beginning is looked for before a place in it.
const LONGEST_FUNCTION: u64 = 64 << 10;
/// `push rbp; mov rbp, rsp`
const SETS_FRAME_POINTER: [u8; 4] = [0x55, 0x48, 0x89, 0xe5];
/// How much more of a beginning is read: pushes, and the room that is made for variables.
const BEGINNING: usize = 32;
/// How far into a function it may have no frame yet.
const BEFORE_FRAME: u64 = 256;
/// How much of the code is read that ends with a call: what sets its arguments.
const BEFORE_CALL: usize = 64;

/// Walks the stack of such a thread; `word` reads words of it, and of the program's code.
pub(in crate::capture::unwind) fn walk(
    thread: Waiting,
    word: impl FnMut(u64) -> Option<u64>,
) -> Walked {
    let mut walked = Walked::default();
    modules::refresh();
    let Some(modules) = modules::current() else {
        return walked;
    };
    let mut walk = Walk {
        modules,
        cache: caches::borrow(),
        end: thread.end,
        word,
    };
    let mut address = FrameAddress::InstructionPointer(thread.instruction);
    let mut registers = UnwindRegsNative::new(thread.instruction, thread.stack_pointer, UNKNOWN);
    loop {
        match walk.step(address, &mut registers) {
            Some(Some(found)) => {
                walked.returns.push((registers.sp() - 8, found));
                let Some(next) = FrameAddress::from_return_address(found) else {
                    return walked;
                };
                address = next;
            }
            Some(None) => {
                walked.whole = true;
                return walked;
            }
            None => return walked,
        }
    }
}

struct Walk<W> {
    modules: &'static modules::UnwindModules,
    cache: caches::Borrowed,
    end: u64,
    word: W,
}

impl<W: FnMut(u64) -> Option<u64>> Walk<W> {
    /// The address that the function at `address` returns to, with the registers as they are then:
    /// none within where it is the first of the thread, none at all where that is not known.
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
        let cache = self.cache.of(address.address());
        let found = unwinder.unwind_frame(address, registers, cache, &mut read);
        found.ok()
    }

    /// The frame pointer of the function around `place`, which has this stack pointer: where the
    /// function begins as one that sets it, and is called where its frame says.
    fn frame_pointer(&mut self, place: u64, stack_pointer: u64) -> Option<u64> {
        let function = self.beginning(place)?;
        let code = self.bytes(function + SETS_FRAME_POINTER.len() as u64, BEGINNING)?;
        let frame_pointer = stack_pointer.checked_add(room(&code)?)?;
        let returns = (self.word)(frame_pointer.checked_add(8)?)?;
        // What leaves at once may do so before it has a frame.
        let entry = function.saturating_sub(BEFORE_FRAME)..=function;
        self.calls(returns, &entry).then_some(frame_pointer)
    }

    /// Where the function around `place` sets its frame pointer.
    fn beginning(&mut self, place: u64) -> Option<u64> {
        let length = SETS_FRAME_POINTER.len();
        let (mut end, mut looked_at) = (place, 0);
        while looked_at < LONGEST_FUNCTION {
            let start = end.checked_sub(4096)?;
            // A beginning may lie across two of these.
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

    /// Whether the call that returns to `address` calls the function at `entry`, by what its code
    /// says: the distance to it, or that to where its address lies, whether the call reads that itself
    /// or has it in a register by then.
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
        // Through a register or memory, with all lengths of their operands; the three middle bits of
        // the second byte say that it is a call.
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

/// How far below its frame pointer a function's stack pointer is, by what follows in its code where
/// it has set the one: it saves registers, and makes room for variables.
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
