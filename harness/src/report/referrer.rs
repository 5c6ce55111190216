//! What of the program still leads to what was left behind, in words.

use super::escape;
use super::model::{Finding, Referrer, Root, RootKind};
use crate::units::quantity;

/// `static optim::STATE, through 2 heap blocks, and the stack of thread worker-3, in train::work`;
/// none where nobody knows.
#[must_use]
pub fn referrers(finding: &Finding) -> Option<String> {
    let referrers = finding.referrers.as_ref()?;
    if referrers.is_empty() {
        let it = if finding.count == 1 { "it" } else { "them" };
        return Some(format!(
            "nothing any more: no static, thread-local or stack leads to {it}"
        ));
    }
    let told: Vec<_> = referrers.iter().map(referrer).collect();
    Some(told.join(", and "))
}

fn referrer(referrer: &Referrer) -> String {
    let mut text = root(&referrer.root);
    if referrer.blocks != 0 {
        let blocks = quantity(referrer.blocks.into(), "heap block");
        text += &format!(", through {blocks}");
    }
    text
}

fn root(root: &Root) -> String {
    let name = root.name.as_deref().map(escape::name).unwrap_or_default();
    let thread = root.thread.as_deref().map(escape::name);
    let thread = thread.map_or_else(|| "a thread".to_owned(), |name| format!("thread {name}"));
    let mut text = match root.kind {
        RootKind::Static => format!("static {name}"),
        RootKind::ThreadLocal => format!("thread-local {name} of {thread}"),
        RootKind::Stack if name.is_empty() => format!("the stack of {thread}"),
        RootKind::Stack => format!("the stack of {thread}, in {name}"),
    };
    if let Some(module) = &root.module {
        text += &format!(" of {}", escape::name(module));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Referrer, Root, RootKind, referrer};

    #[test]
    fn a_place_is_told_in_words() {
        let told = |kind, thread: Option<&str>, module: Option<&str>, blocks| {
            referrer(&Referrer {
                root: Root {
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
                told(RootKind::Static, None, None, 0),
                told(RootKind::Static, None, Some("libplugin.so"), 1),
                told(RootKind::ThreadLocal, worker, None, 2),
                told(RootKind::Stack, worker, None, 0),
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
