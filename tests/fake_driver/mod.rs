//! The stand-ins are good enough: what real programs, through cudarc, see of them.

mod cudarc;
