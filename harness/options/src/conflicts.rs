//! Options that contradict each other: in one attribute, in one table of the configuration file or
//! on one `Check`.

/// Two options that contradict each other.
#[derive(Clone, Copy, Debug)]
pub struct Conflict {
    /// The names of the two options.
    pub options: [&'static str; 2],
    /// Why the options contradict each other, and what to do about it.
    pub why: &'static str,
}

const CONFLICTS: [Conflict; 5] = [
    Conflict {
        options: ["expect", "rounds"],
        why: "`expect` states what a single run leaks, and `rounds` looks for growth over several \
              runs: remove one of them",
    },
    Conflict {
        options: ["expect", "confirm"],
        why: "`expect` states what must leak, so there is nothing to confirm: remove \
              `confirm = true`",
    },
    Conflict {
        options: ["expect", "tolerance"],
        why: "`expect` states exactly what must leak, so there is nothing to tolerate: remove \
              `tolerance`",
    },
    Conflict {
        options: ["rounds", "confirm"],
        why: "`rounds` already confirms each round against the previous one: remove \
              `confirm = true`",
    },
    Conflict {
        options: ["parallel", "isolate"],
        why: "`isolate` runs the test in its own process, so `parallel` has no effect: remove one \
              of them",
    },
];

/// Returns the conflicts among the options for which `is_on` holds. `is_on` must not hold for an
/// option that is set to its default, as in `parallel = false` or `rounds = 1`.
pub fn conflicts(is_on: impl Fn(&str) -> bool) -> impl Iterator<Item = Conflict> {
    CONFLICTS
        .into_iter()
        .filter(move |conflict| conflict.options.into_iter().all(&is_on))
}
