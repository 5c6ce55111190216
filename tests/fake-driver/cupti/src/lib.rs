//! A stand-in for libcupti.
