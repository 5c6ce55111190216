//! Describes the places of the program that still refer to a leaked resource.

use super::check_report::{Finding, Holder, HolderKind, HolderRoot};
use super::escape;
use crate::units::quantity;

/// Returns for example `static optim::STATE, through 2 heap blocks, and the stack of thread
/// worker-3, in train::work`, or `None` if no holder is known.
#[must_use]
pub fn held_by(finding: &Finding) -> Option<String> {
    let holders = finding.holders.as_ref()?;
    if holders.is_empty() {
        let it = if finding.count == 1 { "it" } else { "them" };
        return Some(format!(
            "nothing any more: no static, thread-local or stack leads to {it}"
        ));
    }
    let holders: Vec<_> = holders.iter().map(described).collect();
    Some(holders.join(", and "))
}

fn described(holder: &Holder) -> String {
    let mut text = root(&holder.root);
    if holder.blocks != 0 {
        let blocks = quantity(holder.blocks.into(), "heap block");
        text += &format!(", through {blocks}");
    }
    text
}

fn root(root: &HolderRoot) -> String {
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
    fn a_place_is_told_in_words() {
        let told = |kind, thread: Option<&str>, module: Option<&str>, blocks| {
            described(&Holder {
                root: HolderRoot {
                    kind,
                    name: Some("optim::STATE".to_owned()),
                    thread: thread.map(str::to_owned),
                    module: module.map(str::to_owned),
                },
                blocks,
            })
        };
        let worker = Some("worker-3");
        assert_eq!(
            [
                told(HolderKind::Static, None, None, 0),
                told(HolderKind::Static, None, Some("libplugin.so"), 1),
                told(HolderKind::ThreadLocal, worker, None, 2),
                told(HolderKind::Stack, worker, None, 0),
            ],
            [
                "static optim::STATE",
                "static optim::STATE of libplugin.so, through 1 heap block",
                "thread-local optim::STATE of thread worker-3, through 2 heap blocks",
                "the stack of thread worker-3, in optim::STATE",
            ]
        );
    }
}
