//! The quick unwinder: framehop, with caches that are kept between walks.
//!
//! It allocates nothing during a walk, and reads only the stack between this frame and the thread's
//! first frame. Its result may be wrong (see [the parent module](super)), but reading is never
//! unsound.

mod caches;
mod modules;
mod steps;
mod thread;
#[cfg(all(target_arch = "x86_64", target_env = "gnu", feature = "holders"))]
pub(super) mod waiting;

use std::arch::asm;

use framehop::{FrameAddress, UnwindRegsNative};

use self::steps::{LastSlot, ReadWords, UnwoundFrame};
use self::thread::StackWords;
use super::Frames;

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

/// Writes the return addresses of `here` and its callers into `frames`. Returns the value that the
/// stack pointer has after `here` returns, or `None` if this unwinder cannot walk the stack.
pub(super) fn walk(here: &Registers, frames: &mut Frames) -> Option<usize> {
    let stack = StackWords::above(here.registers.sp() as usize)?;
    let mut caches = caches::borrow(stack.room)?;
    let modules = modules::current()?;
    let mut read = |address| stack.read(address).ok_or(());
    let (steps, rules) = caches.of(modules);
    let mut steps = (!modules.is_under_valgrind).then_some(steps);
    let first = FrameAddress::InstructionPointer(here.instruction);
    let mut frame = rules.unwind(modules, first, here.registers, &mut read)?;
    let caller = frame.stack_pointer as usize;
    let mut last = LastSlot::NONE;
    let mut has_room = frames.push(frame.address as usize);
    while has_room {
        if let Some(steps) = &mut steps {
            (frame, has_room) = steps.follow(&mut last, frame, &stack, frames);
        }
        let address = FrameAddress::from_return_address(frame.address);
        let Some(address) = address.filter(|_| has_room) else {
            break;
        };
        let mut words = ReadWords::default();
        let next = rules.unwind(modules, address, registers(frame), &mut |at| {
            let word = read(at);
            words.add(at, word);
            word
        });
        let Some(next) = next else { break };
        if let Some(steps) = &mut steps {
            steps.keep(&last, frame, &words, next);
        }
        frame = next;
        has_room = frames.push(frame.address as usize);
    }
    Some(caller)
}

/// Must be called after a walk with a wrong result. The reason may be that a library has been
/// loaded or unloaded.
pub(super) fn differed() {
    modules::refresh();
}

#[cfg(test)]
mod tests;
