//! Chooses lines of the program that show how a leak came about. Most mistakes are not on the line
//! of the allocation, but near the free of the leak's siblings, or in the function through which
//! both the allocation and that free were reached.

use super::input::FreedAt;
use crate::report::PassageKind::{self, Called, Freed, Later, LedToFree, ToCallOfFree, ToFree};
use crate::report::{Finding, Frame, Passage, Site};

/// The number of lines that are shown before a passage.
pub const LINES_BEFORE: u32 = 1;
/// The number of lines that are shown after a passage. Most mistakes are in these lines.
pub const LINES_AFTER: u32 = 3;
/// The largest distance, in lines, at which an allocation and a free are shown as one passage.
const FARTHEST: u32 = 10;
/// The number of lines that are shown after the call to the allocating function if no frees are
/// known.
const AFTER_THE_CALL: u32 = 2;
/// The largest number of callers that are shown for something that another function allocated
/// later.
const MOST_CALLERS: usize = 2;

/// Returns the passages for a leak. `freed` are the siblings or companions of the leak that were
/// freed, and `since` is the event that created the first resource that is left.
pub(super) fn of_leak(
    finding: &Finding,
    freed: &[&FreedSite<'_>],
    since: Option<u64>,
    test: &str,
) -> Vec<Passage> {
    let site = finding.site.outside_wrapper();
    let own: Vec<_> = site.users_frames().collect();
    let Some(first) = own.first() else {
        return Vec::new();
    };
    let allocated = freed.iter().map(|it| it.allocated.outside_wrapper());
    let allocated: Vec<_> = allocated.collect();
    let lines = |site: &Site| -> Vec<_> { site.users_frames().map(|it| it.line).collect() };
    let of_own = lines(&site);
    let nearest = freed.iter().zip(&allocated);
    let Some((nearest, _)) = nearest.min_by_key(|(_, it)| lines(it) != of_own) else {
        let mut callers = own.iter().filter(|_| finding.ended.is_none());
        let caller = callers.find(|it| !is_same_function(it, first));
        return Vec::from_iter(caller.and_then(|it| passage(Called, it, AFTER_THE_CALL)));
    };
    let end = nearest.at.outside_wrapper();
    let ends: Vec<_> = end.users_frames().collect();
    // The body of the test explains little, because it mostly calls the code under test.
    let is_telling = |frame: &Frame| first.is_of_test(test) || !frame.is_of_test(test);
    let common = own.iter().enumerate().filter_map(|(at, it)| {
        let end = ends.iter().position(|end| is_same_function(it, end))?;
        Some((at, end))
    });
    let mut common = common.peekable();
    // The function that reaches both the allocation and the free may reach the free through another
    // function, which may decide whether anything is freed.
    let through = common.peek().and_then(|(_, end)| end.checked_sub(1));
    let through = through.filter(|it| *it > 0).map(|it| ends[it]);
    let meeting = common.find(|(at, _)| is_telling(own[*at]));
    let mut passages = Vec::new();
    if let Some((begin, end)) = meeting {
        let what = if (begin, end) == (0, 0) {
            ToFree
        } else {
            ToCallOfFree
        };
        passages.extend(between(own[begin], ends[end], what));
    }
    let is_shown = |frame: &Frame| {
        passages.iter().any(|it: &Passage| {
            let lines = it.frame.line..=Some(it.until);
            it.frame.file == frame.file && lines.contains(&frame.line)
        })
    };
    let through = through.filter(|it| !is_shown(it) && !it.is_of_test(test));
    let freed_in = ends.first().filter(|it| !is_shown(it));
    let through = through.and_then(|it| passage(LedToFree, it, 0));
    let freed_in = freed_in.and_then(|it| passage(Freed, it, 0));
    passages.extend(through.into_iter().chain(freed_in));
    // Something that another function allocated after the leak may have replaced the leaked
    // resource.
    let is_later = |it: &FreedSite<'_>| {
        let mut created = it.freed.events.iter();
        since.is_some_and(|since| created.any(|(created, ..)| *created > since))
    };
    let mut later = freed.iter().zip(&allocated).filter(|(it, _)| is_later(it));
    let elsewhere = later.find_map(|(_, site)| {
        let mut callers = site.users_frames().peekable();
        let is_elsewhere = !is_same_function(callers.peek()?, first);
        is_elsewhere.then_some(callers)
    });
    let callers = elsewhere.into_iter().flatten();
    let callers = callers
        .take_while(|it| !it.is_of_test(test))
        .take(MOST_CALLERS);
    passages.extend(callers.filter_map(|it| passage(Later, it, 0)));
    passages
}

/// Returns the lines of one function between the call that led to the allocation and the call that
/// led to the free.
fn between(begin: &Frame, end: &Frame, what: PassageKind) -> Option<Passage> {
    let (first, last) = (begin.line?, end.line?);
    match last.checked_sub(first) {
        Some(more @ ..=FARTHEST) => passage(what, begin, more),
        None if first - last <= FARTHEST => passage(ToCallOfFree, end, first - last),
        _ => passage(Called, begin, 0),
    }
}

/// Returns the line of this frame and the `more` lines after it.
pub fn passage(what: PassageKind, frame: &Frame, more: u32) -> Option<Passage> {
    frame.file.as_ref()?;
    Some(Passage {
        what,
        until: frame.line?.saturating_add(more),
        frame: frame.clone(),
    })
}

/// Whether two frames belong to the same function, or to closures in it.
fn is_same_function(one: &Frame, other: &Frame) -> bool {
    let function = |frame: &Frame| {
        let name = frame.function.as_deref()?;
        Some((
            name.split("::{{closure}}").next()?.to_owned(),
            frame.file.clone(),
        ))
    };
    function(one).is_some_and(|it| function(other) == Some(it))
}

/// Freed resources, with the call sites of their allocation and of their free.
pub(super) struct FreedSite<'a> {
    pub(super) freed: &'a FreedAt,
    pub(super) allocated: Site,
    pub(super) at: Site,
}

impl FreedSite<'_> {
    /// Whether these resources have the same kind and allocator as this finding.
    pub(super) fn is_like(&self, finding: &Finding) -> bool {
        (self.freed.layer, Some(self.freed.kind)) == (finding.layer, finding.resource)
    }
}

/// A line of a file.
pub(super) type FileAndLine<'a> = (&'a str, u32);
/// A function and its file.
pub(super) type SourceFunction<'a> = (&'a str, Option<&'a str>);

pub(super) fn line(frame: &Frame) -> Option<FileAndLine<'_>> {
    Some((frame.file.as_deref()?, frame.line?))
}

pub(super) fn function(frame: &Frame) -> Option<SourceFunction<'_>> {
    Some((frame.function.as_deref()?, frame.file.as_deref()))
}
