//! Distinct call sites: separate functions on separate lines.

use std::hint::black_box;

type Site = fn(&mut dyn FnMut());

/// Called after the work, so that the work is not a tail call and the site is in every stack.
fn done(site: u8) {
    black_box(site);
}

#[inline(never)]
fn site_00(work: &mut dyn FnMut()) {
    work();
    done(0);
}

#[inline(never)]
fn site_01(work: &mut dyn FnMut()) {
    work();
    done(1);
}

#[inline(never)]
fn site_02(work: &mut dyn FnMut()) {
    work();
    done(2);
}

#[inline(never)]
fn site_03(work: &mut dyn FnMut()) {
    work();
    done(3);
}

#[inline(never)]
fn site_04(work: &mut dyn FnMut()) {
    work();
    done(4);
}

#[inline(never)]
fn site_05(work: &mut dyn FnMut()) {
    work();
    done(5);
}

#[inline(never)]
fn site_06(work: &mut dyn FnMut()) {
    work();
    done(6);
}

#[inline(never)]
fn site_07(work: &mut dyn FnMut()) {
    work();
    done(7);
}

#[inline(never)]
fn site_08(work: &mut dyn FnMut()) {
    work();
    done(8);
}

#[inline(never)]
fn site_09(work: &mut dyn FnMut()) {
    work();
    done(9);
}

#[inline(never)]
fn site_10(work: &mut dyn FnMut()) {
    work();
    done(10);
}

#[inline(never)]
fn site_11(work: &mut dyn FnMut()) {
    work();
    done(11);
}

#[inline(never)]
fn site_12(work: &mut dyn FnMut()) {
    work();
    done(12);
}

#[inline(never)]
fn site_13(work: &mut dyn FnMut()) {
    work();
    done(13);
}

#[inline(never)]
fn site_14(work: &mut dyn FnMut()) {
    work();
    done(14);
}

#[inline(never)]
fn site_15(work: &mut dyn FnMut()) {
    work();
    done(15);
}

#[inline(never)]
fn site_16(work: &mut dyn FnMut()) {
    work();
    done(16);
}

#[inline(never)]
fn site_17(work: &mut dyn FnMut()) {
    work();
    done(17);
}

#[inline(never)]
fn site_18(work: &mut dyn FnMut()) {
    work();
    done(18);
}

#[inline(never)]
fn site_19(work: &mut dyn FnMut()) {
    work();
    done(19);
}

#[inline(never)]
fn site_20(work: &mut dyn FnMut()) {
    work();
    done(20);
}

#[inline(never)]
fn site_21(work: &mut dyn FnMut()) {
    work();
    done(21);
}

#[inline(never)]
fn site_22(work: &mut dyn FnMut()) {
    work();
    done(22);
}

#[inline(never)]
fn site_23(work: &mut dyn FnMut()) {
    work();
    done(23);
}

pub(super) const SITES: usize = ALL.len();

const ALL: [Site; 24] = [
    site_00, site_01, site_02, site_03, site_04, site_05, site_06, site_07, site_08, site_09,
    site_10, site_11, site_12, site_13, site_14, site_15, site_16, site_17, site_18, site_19,
    site_20, site_21, site_22, site_23,
];

/// Runs `work` at the call site with this number.
pub(super) fn at(site: u8, mut work: impl FnMut()) {
    ALL[usize::from(site)](&mut work);
}

/// Returns the number of the call site with this function name.
pub(super) fn of_function(function: &str) -> Option<u8> {
    let (_, number) = function.rsplit_once("::site_")?;
    number.parse().ok()
}
