//! Renders one finding as a paragraph.

use std::collections::BTreeSet;
use std::fmt::{self, Write};
use std::iter;

use super::check_report::{
    CheckStatus, Companion, Confirmation, Finding, FindingKind, Frame, Left, Library, Outlived,
    Passage, PassageKind, Report, Reusable, Share, Sibling, Site, When, verbs,
};
use gpu_leak_core::report::{begins_in_test, full};

use super::escape;
use super::excerpt::{Excerpt, Shown};
use super::held_by::{ended_in, held_by};
use super::places::{file_name, in_file};
use super::screen::Screen;
use super::style::Rendering;
use crate::ledger::Place;
use crate::units::{count, exact_size, quantity, with_size};

/// At most this many groups of allocations that could share a buffer are shown.
const MAX_REUSABLE: usize = 3;

/// If a test makes no more calls than this, their numbers are not informative.
const FEW_CALLS: u64 = 12;

/// Writes one finding of `report`.
pub(super) fn write(
    finding: &Finding,
    report: &Report,
    how: &Rendering,
    out: &mut Screen,
) -> fmt::Result {
    let colour = how.style.status(CheckStatus::Found(finding.kind));
    let strong = how.style.strong();
    write!(out, "{colour}{}{colour:#}", finding.kind.name())?;
    write!(out, "{strong}: {}", finding.what())?;
    if finding.ended.is_some() {
        write!(out, ", until its context was destroyed")?;
    }
    if finding.place != Place::HOST && devices(report) > 1 {
        write!(out, ", on {}", escape::name(&finding.place.to_string()))?;
    }
    writeln!(out, "{strong:#}")?;

    let site = finding.shown_site();
    let mut file = None;
    if let Some((frame, wrapper)) = &finding.shown_frames() {
        file = frame.file.clone();
        let mut shown = Shown::default();
        let through = wrapper.map_or_else(String::new, through);
        let caller = site.caller_of_wrapper().filter(|_| wrapper.is_none());
        let passages: Vec<_> = finding.shown_passages().collect();
        let itself = ("-->", frame, through, at_its_line(finding));
        let caller_of_it = |caller| (":::", caller, String::new(), "called here".to_owned());
        let own = iter::once(itself).chain(caller.map(caller_of_it));
        let own = own.map(|(arrow, frame, through, label)| {
            // A passage that begins at this line is shown together with the line.
            let place = |frame: &Frame| (frame.file.clone(), frame.line);
            let from_it = passages.iter().find(|it| place(&it.frame) == place(frame));
            let is_inner = caller.is_some() && arrow == "-->";
            let until = from_it
                .map(|it| it.until)
                .or(frame.line.filter(|_| !is_inner));
            Excerpt {
                arrow,
                frame,
                heading: full(frame) + &through,
                label: Some(label),
                until: until.filter(|_| !passages.is_empty()),
                ends_there: from_it.is_some_and(|it| ends_at_free(it)),
            }
        });
        let passages = passages.iter().copied().map(|it| Excerpt {
            arrow: ":::",
            frame: &it.frame,
            heading: format!(
                "{}: {}",
                in_file(&it.frame.shown(), frame.file.as_deref()),
                finding.says(it)
            ),
            label: None,
            until: Some(it.until),
            ends_there: ends_at_free(it),
        });
        for excerpt in own.chain(passages) {
            excerpt.write(how, &mut shown, out)?;
        }
    } else if *site != Site::default() || finding.failed.is_some() {
        let unknown = "unknown: the stack shows only CUDA's own code".to_owned();
        write_details([("place", unknown)], how, out)?;
    }
    let details = lines(finding, &report.test, true).into_iter();
    write_details(
        details.map(|(label, text)| (label, in_file(&text, file.as_deref()))),
        how,
        out,
    )
}

/// Whether a passage ends at a free or at a call that frees.
fn ends_at_free(passage: &Passage) -> bool {
    let ends = [PassageKind::ToFree, PassageKind::ToCallOfFree];
    ends.contains(&passage.what)
}

/// Returns a text such as ` through alloc.rs:20`.
fn through(wrapper: &Frame) -> String {
    match (&wrapper.file, wrapper.line) {
        (Some(file), Some(line)) => format!(" through {}:{line}", escape::name(file_name(file))),
        _ => format!(" through {}", full(wrapper)),
    }
}

/// Returns the function in the description of a place, such as `Pool::new (src/a.rs:12)`.
fn function_of(place: &str) -> &str {
    place.split(" (").next().unwrap_or_default()
}

/// Returns the text that a report shows at the line of a finding. For a failed free, this text
/// describes the failed call; otherwise, it describes the allocation.
#[must_use]
pub fn at_its_line(finding: &Finding) -> String {
    match &finding.failed {
        Some(failed) => format!("this call {}", failed.returned()),
        None => allocated(finding),
    }
}

/// Returns the lines that follow the text of [`at_its_line`], each as a label and a text. The
/// function of `test` is called `the test`.
#[must_use]
pub fn details(finding: &Finding, test: &str) -> Vec<(&'static str, String)> {
    lines(finding, test, false)
}

/// Returns the lines that [`details`] returns. With `with_passages`, the finding's passages are
/// shown as well, so the lines do not repeat them.
fn lines(finding: &Finding, test: &str, with_passages: bool) -> Vec<(&'static str, String)> {
    let quotes = |what| with_passages && finding.shown_passages().any(|it| it.what == what);
    let site = finding.shown_site();
    let library = site.library.as_ref();
    let known = library.and_then(|library| library.known.as_ref());
    let outlived = match quotes(PassageKind::DropsHolder) || quotes(PassageKind::FreesInside) {
        true => &[][..],
        false => &finding.outlived,
    };
    let others = match quotes(PassageKind::Freed) && is_sibling_quoted(finding) {
        true => &[][..],
        false => &finding.siblings,
    };
    let has_many_calls = finding.when.is_some_and(|when| when.of > FEW_CALLS);
    let is_order_quoted =
        with_passages && !has_many_calls && finding.shown_passages().next().is_some();
    let shares = finding.budget.iter().flat_map(|budget| &budget.shares);
    let also = shares.skip(1);
    let also = also.map(|also| format!("{} at {}{}", share(also), also.at, allocated_by(also)));
    let reusable = finding.budget.iter().flat_map(|budget| &budget.reusable);
    let reusable = reusable.take(MAX_REUSABLE).map(Reusable::sentence);
    let thread = finding.foreign_thread.as_deref().map(escape::name);
    let thread = thread.map(|name| format!("{name}, which does not belong to the test"));
    let held = library.map(held_by_library);
    // Without a library, `held_by` says how the context ended.
    let ended = finding.ended.as_ref().filter(|_| library.is_some());
    let allowed_by = finding.allowed_by.iter().map(ToString::to_string);
    let notes = allowed_by.chain(ended.map(ended_in));
    let notes = notes.chain(finding.notes.iter().cloned());
    let holders = held_by(finding).filter(|_| ended.is_none());
    let held = held.into_iter().chain(holders);
    let lines: [(_, Vec<String>); 16] = [
        ("held by", held.collect()),
        ("was in", outlived.iter().map(was_in).collect()),
        ("called by", Vec::from_iter(site.callers(test))),
        ("order", Vec::from_iter(finding.order.clone())),
        (
            "when",
            Vec::from_iter(when(finding).filter(|_| !is_order_quoted)),
        ),
        ("allocated", Vec::from_iter(allocated_at(finding, test))),
        (
            "others",
            others.iter().map(|it| sibling(it, finding)).collect(),
        ),
        ("with it", with_it(finding, quotes(PassageKind::Freed))),
        ("also", also.collect()),
        ("peak", Vec::from_iter(peak(finding))),
        ("reuse", reusable.collect()),
        ("thread", Vec::from_iter(thread)),
        ("rounds", Vec::from_iter(rounds(finding))),
        ("confirmed", Vec::from_iter(further_runs(finding))),
        ("known", Vec::from_iter(known.cloned())),
        ("note", notes.collect()),
    ];
    let lines = lines.into_iter();
    let lines = lines.flat_map(|(label, texts)| texts.into_iter().map(move |text| (label, text)));
    lines
        .map(|(label, text)| (label, escape::sentence(&text)))
        .collect()
}

/// Whether there is only one line about siblings, and the passages show everything that this line
/// would say.
fn is_sibling_quoted(finding: &Finding) -> bool {
    let [others] = &finding.siblings[..] else {
        return false;
    };
    let is_of = |part: &str| {
        let mut passages = finding.shown_passages();
        passages.any(|it| function_of(&it.frame.shown()) == function_of(part))
    };
    let mut ways = others.freed_at.split(" ← ");
    others.allocated_from.is_none() && ways.all(|part| begins_in_test(part) || is_of(part))
}

/// Returns where the resource of a failed free was allocated.
fn allocated_at(finding: &Finding, test: &str) -> Option<String> {
    finding.failed.as_ref().and(finding.site.user_frame())?;
    let callers = finding.site.callers(test);
    let callers = callers.map_or_else(String::new, |callers| format!(" ← {callers}"));
    Some(format!("at {}{callers}", finding.site.location()))
}

/// Returns a text such as `a heap block that was allocated in Cache::new (src/cache.rs:20) and
/// freed in Cache::evict (src/cache.rs:37)`.
fn was_in(block: &Outlived) -> String {
    let allocated = block.allocated_in.as_ref();
    let allocated = allocated.map_or_else(String::new, |at| format!("allocated in {at} and "));
    format!(
        "a heap block that was {allocated}freed in {}",
        block.freed_at
    )
}

/// Returns a text such as `cuBLAS: cublasCreate_v2 in libcublas.so.13.0.0.19, called by libtorch`.
fn held_by_library(library: &Library) -> String {
    let mut text = escape::name(&library.name);
    match (&library.function, &library.file) {
        (Some(function), Some(file)) => {
            text += &format!(": {} in {}", escape::name(function), escape::name(file));
        }
        (Some(function), None) => text += &format!(": {}", escape::name(function)),
        (None, Some(file)) => text += &format!(", in {}", escape::name(file)),
        (None, None) => {}
    }
    if let Some(caller) = &library.called_by {
        text += &format!(", called by {}", escape::name(caller));
    }
    text
}

/// Writes one line for each detail.
fn write_details(
    details: impl IntoIterator<Item = (&'static str, String)>,
    how: &Rendering,
    out: &mut dyn Write,
) -> fmt::Result {
    let blue = how.style.frame();
    for (label, text) in details {
        writeln!(out, "   {blue}{label:<9}{blue:#}  {text}")?;
    }
    Ok(())
}

/// Returns a text such as `2 allocations, 1.00 MiB`.
fn share(share: &Share) -> String {
    with_size(quantity(share.count, "allocation"), share.bytes)
}

/// Returns a text such as `allocated here 8 times, freed 6 times`.
fn allocated(finding: &Finding) -> String {
    let shares = finding.budget.as_ref().map(|budget| &*budget.shares);
    if let Some([largest, ..]) = shares {
        return share(largest) + &allocated_by(largest);
    }
    let (created, freed) = finding.verbs();
    let mut siblings = finding.siblings.iter();
    let as_below = match siblings.any(|it| it.allocated_from.is_some()) {
        true => ", called as below",
        false => "",
    };
    let often = times(finding.allocated.max(1));
    let allocated = format!("{created} here {often}{as_below}");
    match (finding.allocated, finding.freed) {
        (0 | 1, 0) if as_below.is_empty() => format!("{created} here"),
        (_, 0) if finding.ended.is_some() => format!("{allocated}, never {freed} by the program"),
        (_, 0) => format!("{allocated}, never {freed}"),
        (_, frees) => format!("{allocated}, {freed} {}", times(frees)),
    }
}

/// Returns a text such as `3 allocated here were freed in cache::evict (src/cache.rs:37)` or `3
/// allocated here by cache::fill (src/cache.rs:21) were freed in cache::evict (src/cache.rs:37)`.
fn sibling(others: &Sibling, finding: &Finding) -> String {
    let (created, freed) = finding.verbs();
    let from = others.allocated_from.as_ref();
    let by = from.map_or_else(|| " here".to_owned(), |from| format!(" by {from}"));
    format!(
        "{} {created}{by} {} {freed} in {}",
        count(others.count),
        were(others.count),
        others.freed_at
    )
}

pub(super) const fn were(number: u64) -> &'static str {
    match number {
        1 => "was",
        _ => "were",
    }
}

/// Returns sentences about other leaked resources that the same calls created, and about freed
/// resources that the same function created. `is_free_quoted` says whether a source excerpt shows
/// where these were freed.
fn with_it(finding: &Finding, is_free_quoted: bool) -> Vec<String> {
    let left = finding.consequences.iter();
    let left = left.map(|it| format!("{}, which the same calls created", it.what()));
    let others = finding.companions.iter();
    let others = others.map(|it| companion(it, is_free_quoted && finding.siblings.is_empty()));
    left.chain(others).collect()
}

/// Returns a text such as `1 stream, which Texture::new (src/a.rs:20) also created, was destroyed
/// in Texture::drop (src/a.rs:31)`.
fn companion(other: &Companion, is_free_quoted: bool) -> String {
    let (created, freed) = verbs(other.resource);
    let what = format!(
        "{}, which {} also {created}",
        other.what(),
        other.created_in
    );
    match is_free_quoted {
        true => what,
        false => format!(
            "{what}, {} {freed} in {}",
            were(other.count),
            other.freed_at
        ),
    }
}

/// Returns a text such as `calls 3 and 97 of the 100 that allocated or freed during the test`;
/// `None` if there were no other calls, or if the order of the calls is known.
fn when(finding: &Finding) -> Option<String> {
    let When { first, last, of } = finding.when?;
    if of <= finding.count || finding.order.is_some() {
        return None;
    }
    let (at_first, at_last) = (count(first), count(last));
    let calls = match last.saturating_sub(first) {
        0 => format!("call {at_first}"),
        all if all < finding.count => format!("calls {at_first} to {at_last}"),
        _ => format!("the first at call {at_first}, the last at call {at_last}"),
    };
    let of = count(of);
    Some(format!(
        "{calls} of the {of} that allocated or freed during the test"
    ))
}

/// Returns a text such as `these lines add up to the peak, reached by call 9 of the 12 that
/// allocated or freed during the test`.
fn peak(finding: &Finding) -> Option<String> {
    let When { last, of, .. } = finding.budget.as_ref()?.when?;
    Some(format!(
        "these lines add up to the peak, reached by call {} of the {} that allocated or freed during \
         the test",
        count(last),
        count(of)
    ))
}

/// Returns a text such as `, allocated by calls 3 to 97`.
fn allocated_by(share: &Share) -> String {
    let calls = share.allocated();
    calls.map_or_else(String::new, |calls| format!(", allocated by {calls}"))
}

fn times(number: u64) -> String {
    match number {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        more => format!("{} times", count(more)),
    }
}

/// Returns a text such as `each of 3 rounds left 1 more (512 KiB)` or
/// `1, 2, 5 left after rounds 1 to 3: on average 2 more (1.00 MiB) in each`. If the count is the
/// same after each round, the text contains only bytes: `each of 2 rounds left 4.00 KiB more`.
fn rounds(finding: &Finding) -> Option<String> {
    let rounds = &finding.rounds;
    let (first, last) = (rounds.first()?, rounds.last()?);
    let is_same_count = rounds.iter().all(|left| left.count == first.count);
    let level = |left: &Left| match is_same_count {
        true => exact_size(left.bytes),
        false => count(left.count),
    };
    let levels: Vec<_> = rounds.iter().map(level).collect();
    let steps = (rounds.len() as u64).saturating_sub(1).max(1);
    let more = last.minus(*first);
    let bytes = exact_size(more.bytes / steps);
    let more = match (is_same_count, more.bytes) {
        (true, _) => format!("{bytes} more"),
        (_, 0) => format!("{} more", count(more.count / steps)),
        _ => format!("{} more ({bytes})", count(more.count / steps)),
    };
    let (levels, number) = (levels.join(", "), rounds.len());
    let compared = |left: Left| (left.bytes, (!is_same_count).then_some(left.count));
    let mut steps = rounds.windows(2).map(|pair| pair[1].minus(pair[0]));
    Some(match steps.all(|step| compared(step) == compared(*first)) {
        true => format!("each of {number} rounds left {more}"),
        false => format!("{levels} left after rounds 1 to {number}: on average {more} in each"),
    })
}

/// Describes what further runs of the body have shown.
fn further_runs(finding: &Finding) -> Option<String> {
    let text = match (finding.kind, finding.confirmed) {
        (_, Some(Confirmation::UntilShutdown)) => {
            "freed only as the interpreter shut down: a global variable, or something reachable \
             from one, still referred to it"
        }
        (FindingKind::Deferred, _) => {
            "left by the first run and freed by a later run: typically a static keeps it until the \
             next run replaces the value"
        }
        (_, Some(Confirmation::NotRepeatable)) => {
            "not confirmed: a further run of the body ended differently from the first"
        }
        (FindingKind::FirstUse, Some(Confirmation::HeldByStatic)) => {
            "no second run: a static held it when the process ended, so it counts as one-time \
             set-up"
        }
        (
            FindingKind::FirstUse,
            Some(Confirmation::Repeated {
                runs, of: of @ 3.., ..
            }),
        ) => {
            let text = format!("left by {runs} of {of} runs, but not by the last: one-time set-up");
            return Some(text);
        }
        (FindingKind::FirstUse, _) => "the second run did not leave it again: one-time set-up",
        (
            kind,
            Some(Confirmation::Repeated {
                runs,
                of,
                count: more,
                bytes,
            }),
        ) => {
            let verb = match kind {
                FindingKind::OverBudget => "exceeded",
                FindingKind::Retained => "kept",
                _ => "left",
            };
            let text = match kind {
                _ if of >= 3 && runs == of => format!("{verb} in all {of} runs"),
                _ if of >= 3 => format!("{verb} in {runs} of {of} runs, including the last"),
                FindingKind::OverBudget => "the second run exceeded it too".to_owned(),
                FindingKind::Retained => format!("the second run kept {} more", exact_size(bytes)),
                _ => format!("a second run of the test left {} more", count(more)),
            };
            return Some(text + ": not one-time set-up");
        }
        _ => return None,
    };
    Some(text.to_owned())
}

/// Returns the number of devices in `report`. The host is not one of them.
fn devices(report: &Report) -> usize {
    let tables = report.devices.iter().map(|device| device.place);
    let findings = report.findings.iter().map(|finding| finding.place);
    let devices = tables.chain(findings).filter(|it| *it != Place::HOST);
    devices.collect::<BTreeSet<_>>().len()
}
