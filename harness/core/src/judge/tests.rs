//! Tests of whole checks. Each describes what the runs allocate and leave, and checks the result of
//! the judgement.

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
