//! The quick unwinder: framehop, with caches that are kept between walks.
//!
//! It allocates nothing during a walk, unless the walk is to be remembered, and reads only the
//! stack between this frame and the thread's first frame. Its result may be wrong (see [the parent
//! module](super)), but reading is never unsound.

mod caches;
mod modules;
mod steps;
mod thread;
#[cfg(all(target_arch = "x86_64", target_env = "gnu", feature = "holders"))]
pub(super) mod waiting;
mod walks;

use std::arch::asm;

use framehop::{FrameAddress, UnwindRegsNative};

use self::caches::Borrowed;
use self::modules::UnwindModules;
use self::steps::{ReadWords, UnwoundFrame};
use self::thread::StackWords;
use self::walks::{TracedStep, WalkStart};
use super::{DEPTH, Frames, history};
use crate::ledger::Stacks;
use crate::ledger::event::StackId;

/// Linux gives programs 48-bit addresses. The bits above may hold the signature of a return
/// address.
#[cfg(target_arch = "aarch64")]
const SIGNATURE_MASK: framehop::aarch64::PtrAuthMask =
    framehop::aarch64::PtrAuthMask(u64::MAX >> 16);

/// The registers of the frame in which a walk begins.
pub(super) struct Registers {
    instruction: u64,
    registers: UnwindRegsNative,
}

impl Registers {
    /// Reads the registers of the calling function.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub(super) fn new() -> Self {
        let (instruction, sp, bp): (u64, u64, u64);
        // SAFETY: the instructions copy three registers and do nothing else.
        unsafe {
            asm!(
                "lea {}, [rip]",
                "mov {}, rsp",
                "mov {}, rbp",
                out(reg) instruction,
                out(reg) sp,
                out(reg) bp,
                options(nomem, nostack, preserves_flags)
            );
        }
        Self {
            instruction,
            registers: UnwindRegsNative::new(instruction, sp, bp),
        }
    }

    /// Reads the registers of the calling function.
    #[cfg(target_arch = "aarch64")]
    #[inline(always)]
    pub(super) fn new() -> Self {
        let (instruction, sp, fp, lr): (u64, u64, u64, u64);
        // SAFETY: the instructions copy four registers and do nothing else.
        unsafe {
            asm!(
                "adr {}, .",
                "mov {}, sp",
                "mov {}, x29",
                "mov {}, x30",
                out(reg) instruction,
                out(reg) sp,
                out(reg) fp,
                out(reg) lr,
                options(nomem, nostack, preserves_flags)
            );
        }
        Self {
            instruction,
            registers: UnwindRegsNative::new_with_ptr_auth_mask(SIGNATURE_MASK, lr, sp, fp),
        }
    }
}

fn registers(frame: UnwoundFrame) -> UnwindRegsNative {
    let (address, sp, fp) = (frame.address, frame.stack_pointer, frame.frame_pointer);
    #[cfg(target_arch = "x86_64")]
    return UnwindRegsNative::new(address, sp, fp);
    #[cfg(target_arch = "aarch64")]
    return UnwindRegsNative::new_with_ptr_auth_mask(SIGNATURE_MASK, address, sp, fp);
}

/// Returns the frame to which control returns at `address` with these registers.
fn frame(address: u64, registers: &UnwindRegsNative) -> UnwoundFrame {
    UnwoundFrame {
        address,
        stack_pointer: registers.sp(),
        #[cfg(target_arch = "x86_64")]
        frame_pointer: registers.bp(),
        #[cfg(target_arch = "aarch64")]
        frame_pointer: registers.fp(),
    }
}

/// A walk of this thread's stack.
pub(super) struct StackWalk<'a> {
    here: &'a Registers,
    /// The table that assigns the ID of the backtrace.
    stacks: &'a Stacks,
    words: StackWords,
    modules: &'static UnwindModules,
    caches: Borrowed,
}

impl<'a> StackWalk<'a> {
    /// Prepares a walk that begins at `here`; `None` if this unwinder cannot walk the stack.
    pub(super) fn begin(here: &'a Registers, stacks: &'a Stacks) -> Option<Self> {
        let words = StackWords::above(here.registers.sp() as usize)?;
        let caches = caches::borrow(words.room)?;
        let modules = modules::current()?;
        Some(Self {
            here,
            stacks,
            words,
            modules,
            caches,
        })
    }

    fn start(&self) -> WalkStart {
        let from = frame(self.here.instruction, &self.here.registers);
        WalkStart::new(from, &self.words, self.stacks.state())
    }

    /// Returns the ID of the backtrace if the same walk has followed the thread's previous walk
    /// before.
    pub(super) fn predicted(&mut self) -> Option<StackId> {
        if self.modules.is_under_valgrind {
            return None;
        }
        let start = self.start();
        let walks = &self.caches.of(self.modules).walks;
        walks.predicted(&start, &self.words)
    }

    /// Writes the return addresses of the frame in which the walk begins and of its callers into
    /// `frames`. Returns the value that the stack pointer has after that frame returns, or `None`
    /// if this unwinder cannot walk the stack.
    pub(super) fn frames(&mut self, frames: &mut Frames) -> Option<usize> {
        let caches = self.caches.of(self.modules);
        let mut read = |address| self.words.read(address).ok_or(());
        let mut steps = (!self.modules.is_under_valgrind).then_some(&mut caches.steps);
        let rules = &mut caches.rules;
        let first = FrameAddress::InstructionPointer(self.here.instruction);
        let mut frame = rules.unwind(self.modules, first, self.here.registers, &mut read)?;
        let caller = frame.stack_pointer as usize;
        let mut has_room = frames.push(frame.address as usize);
        while has_room {
            if let Some(steps) = &mut steps {
                (frame, has_room) = steps.follow(frame, &self.words, frames);
            }
            let address = FrameAddress::from_return_address(frame.address);
            let Some(address) = address.filter(|_| has_room) else {
                break;
            };
            if self.modules.is_wrong_at(frame.address) {
                // No backtrace contains 0, so this one is not found.
                frames.push(0);
                break;
            }
            let mut words = ReadWords::default();
            let next = rules.unwind(self.modules, address, registers(frame), &mut |at| {
                words.add(at, read(at))
            });
            let Some(next) = next else { break };
            if let Some(steps) = &mut steps {
                steps.keep(frame, &words, next);
            }
            frame = next;
            has_room = frames.push(frame.address as usize);
        }
        Some(caller)
    }

    /// Whether the caller of a frame can be determined: the words on which it depends are on this
    /// stack, and the return address is in readable memory, as the exact unwinder expects. The frame
    /// consists of its stack pointer, its address and its frame pointer. Returns `true` for a
    /// thread's first frame.
    pub(super) fn has_caller(&mut self, frame: [usize; 3]) -> bool {
        let [stack_pointer, address, frame_pointer] = frame.map(|it| it as u64);
        let Some(at) = FrameAddress::from_return_address(address) else {
            return true;
        };
        let from = UnwoundFrame {
            address,
            stack_pointer,
            frame_pointer,
        };
        let mut is_on_stack = true;
        let rules = &mut self.caches.of(self.modules).rules;
        let caller = rules.unwind(self.modules, at, registers(from), &mut |at| {
            let word = self.words.read(at);
            is_on_stack &= word.is_some();
            word.ok_or(())
        });
        caller.map_or(is_on_stack, |it| history::is_readable(it.address as usize))
    }

    /// Records that this walk, which was not [predicted](Self::predicted), found this backtrace.
    pub(super) fn keep(&mut self, backtrace: StackId) {
        let start = self.start();
        let walks = &mut self.caches.of(self.modules).walks;
        if !self.modules.is_under_valgrind && walks.record_miss(&start, &self.words, backtrace) {
            let steps = self.trace();
            // framehop forgets a rule that it could not apply, so its steps may differ from the
            // known ones.
            let found = steps.iter().filter_map(TracedStep::found);
            let is_it = found.eq(self.stacks.frames(backtrace).iter().copied());
            let walks = &mut self.caches.of(self.modules).walks;
            walks.keep(&start, is_it.then_some(&steps), backtrace);
        }
    }

    /// Walks again, without the known steps, and returns the steps.
    fn trace(&mut self) -> Vec<TracedStep> {
        let rules = &mut self.caches.of(self.modules).rules;
        let mut steps: Vec<TracedStep> = Vec::with_capacity(DEPTH);
        let mut address = Some(FrameAddress::InstructionPointer(self.here.instruction));
        let mut registers_here = self.here.registers;
        while let Some(at) = address.filter(|_| steps.len() < DEPTH) {
            let mut read = ReadWords::default();
            let from = frame(at.address(), &registers_here);
            // Whether a word can be read depends only on where the walk begins.
            let to = rules.unwind(self.modules, at, registers_here, &mut |at| {
                let word = self.words.read(at).ok_or(())?;
                read.add(at, Ok(word))
            });
            steps.push(TracedStep::new(from, read, to));
            let to = to.filter(|to| !self.modules.is_wrong_at(to.address));
            let Some(to) = to else { break };
            registers_here = registers(to);
            address = FrameAddress::from_return_address(to.address);
        }
        steps
    }
}

/// Must be called after a walk of which only the frames `same` were correct. The reason may be that
/// a library has been loaded or unloaded. Otherwise, the caller of the last of these frames was
/// guessed wrong.
pub(super) fn differed(same: &[usize]) {
    if let (Some(modules), Some(last)) = (modules::refresh(), same.last()) {
        modules.add_wrong(*last as u64);
    }
}

#[cfg(test)]
mod tests;
