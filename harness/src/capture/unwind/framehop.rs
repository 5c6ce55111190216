//! The quick unwinder: framehop, with its caches kept between walks.
//!
//! It allocates nothing during a walk and reads only the stack between this frame and the thread's
//! first one. Its result may be wrong (see [the parent module](super)), but it is never unsound.

mod caches;
mod modules;
mod thread;
#[cfg(all(target_arch = "x86_64", target_env = "gnu", feature = "holders"))]
pub(super) mod waiting;

use std::arch::asm;

use framehop::{FrameAddress, UnwindRegsNative, Unwinder};

use super::Frames;

/// The registers of the frame where a walk begins.
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
        // SAFETY: copies three registers and nothing else.
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
        use framehop::aarch64::PtrAuthMask;

        let (instruction, sp, fp, lr): (u64, u64, u64, u64);
        // SAFETY: copies four registers and nothing else.
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
        // Linux gives programs 48-bit addresses; the bits above hold a return address's signature.
        let mask = PtrAuthMask(u64::MAX >> 16);
        Self {
            instruction,
            registers: UnwindRegsNative::new_with_ptr_auth_mask(mask, lr, sp, fp),
        }
    }
}

/// Writes the return addresses of `here` and its callers into `frames`. Returns the stack pointer
/// after the return of the first, or `None` if this unwinder cannot walk the stack.
pub(super) fn walk(here: &Registers, frames: &mut Frames) -> Option<usize> {
    let modules = modules::current()?;
    let mut registers = here.registers;
    let stack = thread::stack_from(registers.sp() as usize)?;
    let mut read = |address: u64| {
        let address = address as usize;
        let inside = address >= stack.start && address <= stack.end - size_of::<u64>();
        if !inside || !address.is_multiple_of(align_of::<u64>()) {
            return Err(());
        }
        // SAFETY: an aligned word between the stack pointer of `here`, whose function has not
        // returned (a walk ends before its caller returns), and the end of this thread's stack:
        // mapped, readable, and of no particular type. The read is volatile, because another thread
        // may write to what a frame lent it; whatever is read is only compared with addresses and
        // bounds.
        Ok(unsafe { std::ptr::with_exposed_provenance::<u64>(address).read_volatile() })
    };
    let mut caches = caches::borrow();
    let mut address = FrameAddress::InstructionPointer(here.instruction);
    let mut caller = None;
    loop {
        let cache = caches.of(address.address_for_lookup());
        let step = modules
            .unwinder
            .unwind_frame(address, &mut registers, cache, &mut read);
        let Ok(Some(found)) = step else { break };
        let Some(next) = FrameAddress::from_return_address(found) else {
            break;
        };
        caller.get_or_insert(registers.sp() as usize);
        if !frames.push(found as usize) {
            break;
        }
        address = next;
    }
    caller
}

/// Must be called after a walk was wrong: a library may have been loaded or unloaded.
pub(super) fn differed() {
    modules::refresh();
}

#[cfg(test)]
mod tests;
