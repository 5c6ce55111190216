//! Whole checks: what their runs allocate and leave, and what the judgement finds.

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
