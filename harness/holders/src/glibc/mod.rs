//! The search in this process.

mod budget;
mod descriptor;
mod enclosing;
mod heap;
mod image;
mod memory;
mod names;
mod roots;
mod search;
mod targets;
#[cfg(test)]
mod tests;
mod threads;
mod uses;

use std::ops::Range;
use std::time::Duration;

use self::budget::Budget;
use self::memory::{OwnMemory, Pages};
use self::roots::Roots;
use self::search::{Driver, Region, Search};
use self::targets::{LOWEST, Targets};
use super::{Answer, DriverObjects, Enclosing, Holder, Program, Target, Unknown, nearest};

/// A path from a variable through at least this many blocks often leads through outdated contents
/// of a block.
const DOUBTFUL: u32 = 4;

/// Returns, for each of the `groups` groups of targets, the nearest places that refer to one of the
/// group's targets. The search ends after `time`.
pub fn find(
    targets: Vec<Target>,
    groups: usize,
    objects: DriverObjects,
    program: Program<'_>,
    time: Duration,
) -> Vec<Answer> {
    let budget = Budget::new(time);
    let Some(memory) = OwnMemory::open() else {
        return vec![Err(Unknown::Unreadable); groups];
    };
    let mut pages = Pages::new(memory, budget);
    let mut roots = Roots::of_this_process(program, &mut pages, budget);
    let not_sought = Targets::groups_without(&targets, groups);
    // Groups that are reachable from unnamed memory.
    let mut unnamed = not_sought.clone();
    let targets = Targets::new(targets);
    let driver = Driver {
        libraries: std::mem::take(&mut roots.cuda),
        program: roots.code(),
        objects,
    };
    let mut search = |regions: &[Region], is_packed: bool| {
        pages.is_packed = is_packed;
        let search = Search {
            pages: &mut pages,
            heap: &roots.heap,
            driver: &driver,
            targets: &targets,
        };
        search.run(regions)
    };
    let mut found: Vec<Vec<Holder>> = vec![Vec::new(); groups];
    let mut complete = roots.complete;
    for regions in [&roots.variables, &roots.frames] {
        let is_certain = |found: &Vec<Holder>| found.iter().any(|it| it.blocks < DOUBTFUL);
        let settled: Vec<bool> = found.iter().map(is_certain).collect();
        if settled.iter().all(|settled| *settled) {
            break;
        }
        let outcome = search(regions, false);
        complete &= outcome.complete;
        let mut new: Vec<Vec<Holder>> = vec![Vec::new(); groups];
        for (at, hit) in outcome.hits.iter().enumerate() {
            let group = targets.group(at);
            match hit.filter(|_| !settled[group]) {
                Some(hit) if hit.is_near() => {
                    let root = roots.named(hit.place);
                    new[group].push(Holder {
                        waits_at: roots.waits_at(&root),
                        root,
                        blocks: hit.blocks,
                        path: outcome.path(hit),
                        used_at: None,
                    });
                }
                Some(_) => unnamed[group] = true,
                None => {}
            }
        }
        for (found, mut new) in found.iter_mut().zip(new) {
            if !found.is_empty() {
                // A stack frame is better evidence than a doubtful variable only if it contains the
                // target itself.
                new.retain(|holder| holder.blocks == 0);
            }
            if !new.is_empty() {
                *found = new;
            }
        }
    }
    // Long paths are ignored if there is a short path, even one to another target of the group.
    for found in &mut found {
        if found.iter().any(|it| it.blocks < DOUBTFUL) {
            found.retain(|it| it.blocks < DOUBTFUL);
        }
    }
    // A target is reported as unreferenced only if no unnamed memory and no packed structure refers
    // to it.
    let everywhere = [&roots.variables[..], &roots.frames, &roots.nameless].concat();
    for (regions, is_packed) in [(&roots.nameless, false), (&everywhere, true)] {
        let is_open = |(found, unnamed): (&Vec<Holder>, &bool)| found.is_empty() && !unnamed;
        if !complete || !found.iter().zip(&unnamed).any(is_open) {
            break;
        }
        let others = search(regions, is_packed);
        complete &= others.complete;
        let hits = others.hits.iter().enumerate();
        for (at, _) in hits.filter(|(_, hit)| hit.is_some()) {
            unnamed[targets.group(at)] = true;
        }
    }
    let answers = found
        .into_iter()
        .zip(unnamed.into_iter().zip(not_sought))
        .map(|(found, (unnamed, not_sought))| match unnamed {
            _ if !found.is_empty() => Ok(nearest(found)),
            true if not_sought => Err(Unknown::NotSought),
            true => Err(Unknown::Unnamed),
            false if complete => Ok(Vec::new()),
            false if pages.is_full() => Err(Unknown::TooMuch),
            false if pages.is_spent() => Err(Unknown::OutOfTime(time)),
            false => Err(Unknown::Unreadable),
        });
    let mut answers: Vec<Answer> = answers.collect();
    for holder in answers.iter_mut().flatten().flatten() {
        holder.used_at = roots.used_at(&holder.root, pages.memory(), budget);
    }
    answers
}

/// Returns, for each of the `groups` groups of targets that are not reachable from any place, which
/// of the program's `blocks` still contain one of the group's targets, and from which blocks those
/// are reachable. `blocks` must be live and sorted by address.
pub fn enclosing(
    targets: Vec<Target>,
    groups: usize,
    blocks: &[Range<u64>],
    time: Duration,
) -> Vec<Option<Enclosing>> {
    let Some(memory) = OwnMemory::open() else {
        return vec![None; groups];
    };
    let mut pages = Pages::new(memory, Budget::new(time));
    enclosing::of(&Targets::new(targets), groups, blocks, &mut pages)
}

/// Returns the addresses of the words in `ranges` that have this value, as far as they are found
/// within `time`; none if the value is too small for an address.
pub fn words_with(value: u64, ranges: &[Range<u64>], time: Duration) -> Vec<u64> {
    let mut words = Vec::new();
    if value >= LOWEST
        && let Some(memory) = OwnMemory::open()
    {
        let mut pages = Pages::new(memory, Budget::new(time));
        for range in ranges {
            pages.words(range.start, range.end, |at, word| {
                words.extend((word == value).then_some(at));
                true
            });
        }
    }
    words
}
