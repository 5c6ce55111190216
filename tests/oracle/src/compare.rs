//! Compares the reports of both sources.

use std::collections::HashMap;
use std::fmt::Write;

use crate::fact::Fact;

/// The maximum number of differences in the output.
const SHOWN: usize = 40;

/// The events of one source: those while the program was running, and those while it was exiting.
#[derive(Debug, Default)]
pub(crate) struct Account {
    pub(crate) running: Vec<Fact>,
    pub(crate) exiting: Vec<Fact>,
}

/// The events that only one source reported, in order.
pub(crate) struct Differences {
    pub(crate) only_heard: Vec<Fact>,
    pub(crate) only_cupti: Vec<Fact>,
}

/// Compares the two sources, without regard to the order, because several threads report at the
/// same time.
pub(crate) fn compare(heard: &[Fact], cupti: &[Fact]) -> Differences {
    let mut left: HashMap<u64, Vec<Fact>> = HashMap::new();
    for fact in cupti {
        left.entry(fact.value()).or_default().push(*fact);
    }
    let mut only_heard = Vec::new();
    for fact in heard {
        let others = left.entry(fact.value()).or_default();
        // Matches identical events first, because an event with unknown figures may agree with
        // several others.
        let same = others.iter().position(|other| other == fact);
        match same.or_else(|| others.iter().position(|other| other.agrees(fact))) {
            Some(at) => drop(others.remove(at)),
            None => only_heard.push(*fact),
        }
    }
    let mut only_cupti = Vec::new();
    for fact in cupti {
        if let Some(others) = left.get_mut(&fact.value())
            && let Some(at) = others.iter().position(|other| other == fact)
        {
            only_cupti.push(others.remove(at));
        }
    }
    Differences {
        only_heard,
        only_cupti,
    }
}

/// Formats one row of a table, followed by the differences.
pub(crate) fn rendered(program: &str, source: &str, heard: &Account, cupti: &Account) -> String {
    let differences = compare(&heard.running, &cupti.running);
    let count = |which: fn(&Fact) -> bool| heard.running.iter().filter(|it| which(it)).count();
    let mut text = format!(
        "| {program} | {source} | {} | {} | {} | {} | {} | {} | {} / {} |\n",
        heard.running.len(),
        count(Fact::is_made),
        count(Fact::is_freed),
        count(Fact::has_failed),
        differences.only_heard.len(),
        differences.only_cupti.len(),
        heard.exiting.len(),
        cupti.exiting.len(),
    );
    let lines = [
        ("only heard", &differences.only_heard),
        ("only CUPTI", &differences.only_cupti),
    ];
    for (who, facts) in lines {
        for fact in facts.iter().take(SHOWN) {
            let _ = writeln!(text, "    {who}: {fact}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use gpu_leak_check::ledger::Kind;
    use gpu_leak_check::ledger::event::Space;

    use super::{Account, compare, rendered};
    use crate::fact::{Fact, Where};

    fn made(value: u64, bytes: Option<u64>, place: Where) -> Fact {
        Fact::Made {
            kind: Kind::Linear,
            value,
            bytes,
            place,
            error: 0,
        }
    }

    fn freed(value: u64) -> Fact {
        Fact::Freed {
            space: Space::DevicePointer,
            value,
            error: 0,
        }
    }

    #[test]
    fn order_and_unknown_facts_are_not_differences() {
        let heard = [
            made(1, Some(8), Where::Device(0)),
            freed(1),
            made(2, Some(16), Where::Unsaid),
        ];
        let cupti = [
            made(2, Some(16), Where::Device(1)),
            made(1, None, Where::Device(0)),
            freed(1),
        ];
        let differences = compare(&heard, &cupti);
        assert_eq!(differences.only_heard, []);
        assert_eq!(differences.only_cupti, []);
    }

    #[test]
    fn another_size_device_or_count_is_a_difference() {
        let heard = [made(1, Some(8), Where::Device(0)), freed(1), freed(1)];
        let cupti = [made(1, Some(9), Where::Device(0)), freed(1)];
        let differences = compare(&heard, &cupti);
        assert_eq!(differences.only_heard, [heard[0], freed(1)]);
        assert_eq!(differences.only_cupti, [cupti[0]]);
        let elsewhere = [made(1, Some(8), Where::Device(1))];
        assert_eq!(compare(&heard[..1], &elsewhere).only_heard.len(), 1);
    }

    #[test]
    fn a_row_has_what_was_heard_and_the_differences_follow() {
        let account = |running: &[Fact]| Account {
            running: running.to_vec(),
            exiting: Vec::new(),
        };
        let one = made(1, Some(8), Where::Device(0));
        assert_eq!(
            rendered(
                "train",
                "13.0",
                &account(&[one, freed(1)]),
                &account(&[one])
            ),
            "| train | 13.0 | 2 | 1 | 1 | 0 | 1 | 0 | 0 / 0 |\n    \
             only heard: freed DevicePointer 0x1, error 0\n"
        );
    }
}
