//! A small deep-learning library in PyTorch's terms.
