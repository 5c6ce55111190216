//! Describes the places in the program that still refer to a leaked resource.

use super::check_report::{Enclosing, Ended, Finding, Holder, HolderKind, HolderRoot};
use super::escape;
use crate::units::{listed, quantity};

/// Returns a text such as `static optim::STATE, through 2 heap blocks, and the stack of thread
/// worker-3, in train::work`, or `None` if no holder is known.
pub fn held_by(finding: &Finding) -> Option<String> {
    if let Some(ended) = &finding.ended {
        return Some(format!("nothing: {}", ended_in(ended)));
    }
    if let Some(why) = &finding.not_searched {
        return Some(format!("unknown: {}", escape::sentence(why)));
    }
    let holders = finding.holders.as_ref()?;
    if holders.is_empty() {
        if let Some(blocks) = &finding.enclosing {
            return Some(only(blocks, finding.count));
        }
        let it = if finding.count == 1 { "it" } else { "them" };
        return Some(format!(
            "nothing any more: no static, thread-local or stack points to {it}"
        ));
    }
    let holders: Vec<_> = holders.iter().map(described).collect();
    Some(holders.join(", and "))
}

fn described(holder: &Holder) -> String {
    let mut text = root(&holder.root);
    if holder.blocks != 0 {
        let blocks = quantity(holder.blocks.into(), "heap block");
        text += &format!(", through {blocks}{}", allocated_in(&holder.allocated_in));
    }
    text + &facts(&holder.root)
}

/// Returns a text that says what uses a static, or what the thread of a stack is doing.
fn facts(root: &HolderRoot) -> String {
    if !root.used_in.is_empty() {
        return format!("; used in {}", root.used_in.join(", "));
    }
    let facts = [
        ("was started in", &root.started_in),
        ("was detached in", &root.detached_in),
        ("is waiting in", &root.waits_in),
    ];
    let facts = facts.into_iter();
    let facts = facts.filter_map(|(verb, at)| Some(format!("{verb} {}", at.as_ref()?)));
    let facts: Vec<_> = facts.collect();
    match facts.as_slice() {
        [] => String::new(),
        facts => format!("; that thread is still running: it {}", listed(facts)),
    }
}

/// Returns a text such as `freed only because its context was destroyed, in App::close
/// (src/app.rs:40)`.
pub(super) fn ended_in(ended: &Ended) -> String {
    match &ended.at {
        Some(at) => format!("{}, in {at}", ended.how),
        None => ended.how.clone(),
    }
}

/// Returns a text such as `only a cycle of 2 heap blocks that nothing else points to, allocated in
/// Node::new (src/node.rs:20)`.
fn only(enclosing: &Enclosing, of: u64) -> String {
    let blocks = quantity(enclosing.blocks.into(), "heap block");
    let places = allocated_in(&enclosing.allocated_in);
    match enclosing.is_cycle {
        true if of > 1 => {
            format!(
                "only cycles of heap blocks, {} in all, that nothing else points to{places}",
                enclosing.blocks
            )
        }
        true => format!("only a cycle of {blocks} that nothing else points to{places}"),
        false if enclosing.blocks == 1 => format!("only {blocks} that nothing points to{places}"),
        false => format!("only {blocks} that nothing else points to{places}"),
    }
}

fn allocated_in(places: &[String]) -> String {
    match places {
        [] => String::new(),
        places => format!(", allocated in {}", places.join(", ")),
    }
}

/// Returns a text such as `static optim::STATE`.
pub(super) fn root(root: &HolderRoot) -> String {
    let name = root.name.as_deref().map(escape::name).unwrap_or_default();
    let thread = root.thread.as_deref().map(escape::name);
    let thread = thread.map_or_else(|| "a thread".to_owned(), |name| format!("thread {name}"));
    let mut text = match root.kind {
        HolderKind::Static => format!("static {name}"),
        HolderKind::ThreadLocal => format!("thread-local {name} of {thread}"),
        HolderKind::Stack if name.is_empty() => format!("the stack of {thread}"),
        HolderKind::Stack => format!("the stack of {thread}, in {name}"),
        _ => name,
    };
    if let Some(module) = &root.module {
        text += &format!(" of {}", escape::name(module));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Holder, HolderKind, HolderRoot, described};

    #[test]
    fn a_holder_is_described_in_words() {
        let text = |kind, thread: Option<&str>, module: Option<&str>, blocks| {
            described(&Holder {
                root: HolderRoot {
                    kind,
                    name: Some("optim::STATE".to_owned()),
                    thread: thread.map(str::to_owned),
                    module: module.map(str::to_owned),
                    used_in: Vec::new(),
                    started_in: None,
                    detached_in: None,
                    waits_in: None,
                },
                blocks,
                allocated_in: vec!["Cache::new (src/a.rs:3)".to_owned(); blocks as usize / 2],
            })
        };
        let worker = Some("worker-3");
        assert_eq!(
            [
                text(HolderKind::Static, None, None, 0),
                text(HolderKind::Static, None, Some("libplugin.so"), 1),
                text(HolderKind::ThreadLocal, worker, None, 2),
                text(HolderKind::Stack, worker, None, 0),
            ],
            [
                "static optim::STATE",
                "static optim::STATE of libplugin.so, through 1 heap block",
                "thread-local optim::STATE of thread worker-3, through 2 heap blocks, allocated in \
                 Cache::new (src/a.rs:3)",
                "the stack of thread worker-3, in optim::STATE",
            ]
        );
    }
}
