//! A stand-in for libcuda.
