//! Call sites that a report tells apart: functions of their own.

use std::hint::black_box;

macro_rules! sites {
    ($($name:ident)*) => {
        $(
            #[inline(never)]
            fn $name(work: &mut dyn FnMut()) {
                work();
                // The call is no tail call: this function stands in every stack.
                black_box(stringify!($name));
            }
        )*

        const ALL: &[(&str, fn(&mut dyn FnMut()))] = &[$((stringify!($name), $name)),*];
    };
}

sites!(
    site_00 site_01 site_02 site_03 site_04 site_05 site_06 site_07 site_08 site_09 site_10 site_11
    site_12 site_13 site_14 site_15 site_16 site_17 site_18 site_19 site_20 site_21 site_22 site_23
);

/// How many there are.
pub(super) const SITES: usize = ALL.len();

/// Does `work` at the site with this number.
pub(super) fn at(site: u8, mut work: impl FnMut()) {
    ALL[usize::from(site)].1(&mut work);
}

/// The number of the site that this function is.
pub(super) fn of_function(function: &str) -> Option<u8> {
    let name = function.rsplit("::").next()?;
    let number = ALL.iter().position(|(site, _)| *site == name)?;
    u8::try_from(number).ok()
}
