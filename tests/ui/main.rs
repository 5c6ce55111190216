//! The compiler's messages.
