//! Whole checks: what their runs allocate and leave, and what the judgement says of it.

mod body;
mod budgets;
mod facts;
mod frees;
mod growth;
mod history;
mod owners;
mod passages;
mod peaks;
mod pools;
mod segments;
mod siblings;
mod sums;
mod tables;
mod timelines;
