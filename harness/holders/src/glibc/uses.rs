//! Finds instructions that use a variable.
//!
//! On x86-64, code refers to a variable by its distance from the next instruction. Other bytes may
//! look the same by chance, but too rarely to matter.

use std::ops::Range;

/// A mask and a value: if the bits of a byte under the mask have this value, a distance may follow
/// the byte.
const MODE: (u8, u8) = (0xc7, 0x05);

/// Returns the address after the first instruction in `code` that uses the variable. `code` begins
/// at the address `start`.
#[cfg(target_arch = "x86_64")]
pub(super) fn first(code: &[u8], start: u64, variable: &Range<u64>) -> Option<u64> {
    let mut at = 2;
    // This loop is kept simple, because it runs unoptimised in a user's debug build.
    while at + 4 <= code.len() {
        if code[at - 1] & MODE.0 == MODE.1 {
            let distance = i32::from_le_bytes([code[at], code[at + 1], code[at + 2], code[at + 3]]);
            // An operand may follow the distance.
            let operand = match code[at - 2] {
                0x80 | 0x83 | 0xc6 => 1,
                0x81 | 0xc7 => 4,
                _ => 0,
            };
            let next = start.wrapping_add(at as u64 + 4 + operand);
            if variable.contains(&next.wrapping_add_signed(distance.into())) {
                return Some(next);
            }
        }
        at += 1;
    }
    None
}

/// On other processors, uses of a variable are not analysed.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn first(_: &[u8], _: u64, _: &Range<u64>) -> Option<u64> {
    let _ = MODE;
    None
}

#[cfg(target_arch = "x86_64")]
#[cfg(test)]
mod tests {
    use super::first;

    #[test]
    fn a_distance_from_the_next_instruction_leads_to_a_variable() {
        // push rax; lea rdi, [rip + 0x100]; cmp byte ptr [rip + 0x200], 3; ret
        let code = [
            0x50, 0x48, 0x8d, 0x3d, 0, 1, 0, 0, 0x80, 0x3d, 0, 2, 0, 0, 3, 0xc3,
        ];
        let uses = |variable| first(&code, 0x1000, &variable);
        assert_eq!(uses(0x1108..0x1110), Some(0x1008));
        assert_eq!(uses(0x1200..0x1210), Some(0x100f));
        assert_eq!(uses(0x1100..0x1108), None);
        assert_eq!(first(&code[..5], 0x1000, &(0x1108..0x1110)), None);
    }
}
