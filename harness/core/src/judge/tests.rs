//! Whole checks: what their runs allocate and leave, and what the judgement says of it.

mod body;
mod budgets;
mod facts;
mod frees;
mod history;
mod owners;
mod pools;
mod shown;
