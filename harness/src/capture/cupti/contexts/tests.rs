use super::{ContextUid, Contexts, Entry, Event, LAST_SEEN, Place, Seen};

/// What a thread that has seen no context yet is told.
fn seen(contexts: &Contexts, handle: u64, uid: u32, asked: Place) -> Seen {
    LAST_SEEN.set(Entry::NONE);
    contexts.seen(handle, ContextUid(uid), || asked)
}

fn new(context: u32, handle: u64, place: Place) -> Seen {
    Seen {
        place,
        owner: ContextUid(context),
        created: Some(Event::ContextCreated {
            context: ContextUid(context),
            handle,
            place,
        }),
    }
}

fn known(context: u32, place: Place) -> Seen {
    Seen {
        place,
        owner: ContextUid(context),
        created: None,
    }
}

#[test]
fn a_context_is_told_once_with_the_place_it_was_created_at() {
    let contexts = Contexts::new();
    let place = Place::cuda(1);
    contexts.created(0xc0, place);
    assert_eq!(
        seen(&contexts, 0xc0, 4, Place::UNKNOWN),
        new(4, 0xc0, place)
    );
    assert_eq!(
        contexts.seen(0xc0, ContextUid(4), || Place::UNKNOWN),
        known(4, place),
        "the same thread again"
    );
    assert_eq!(
        seen(&contexts, 0xc0, 4, Place::UNKNOWN),
        known(4, place),
        "another thread"
    );
}

#[test]
fn the_place_of_an_older_context_is_asked() {
    let place = Place::cuda(2);
    assert_eq!(seen(&Contexts::new(), 0xc0, 1, place), new(1, 0xc0, place));
}

#[test]
fn a_place_that_was_not_to_be_had_is_asked_again() {
    let contexts = Contexts::new();
    let (unknown, place) = (Place::UNKNOWN, Place::cuda(0));
    assert_eq!(seen(&contexts, 0xc0, 1, unknown), new(1, 0xc0, unknown));
    let again = contexts.seen(0xc0, ContextUid(1), || place);
    assert_eq!(again, new(1, 0xc0, place), "the same thread");
    assert_eq!(
        contexts.seen(0xc0, ContextUid(1), || unknown),
        known(1, place)
    );
    assert_eq!(contexts.ending(0xc0), Some(ContextUid(1)));
    assert_eq!(contexts.ending(0xc0), None, "it is kept once");
}

#[test]
fn no_context_is_nowhere() {
    let contexts = Contexts::new();
    seen(&contexts, 0xc0, 1, Place::cuda(0));
    let none = contexts.seen(0, ContextUid(0), || Place::cuda(0));
    assert_eq!(none, known(0, Place::UNKNOWN));
}

#[test]
fn a_handle_used_again_is_another_context() {
    let contexts = Contexts::new();
    contexts.created(0xc0, Place::cuda(0));
    seen(&contexts, 0xc0, 1, Place::UNKNOWN);
    assert_eq!(contexts.ending(0xc0), Some(ContextUid(1)));
    assert_eq!(contexts.ending(0xc0), None);
    contexts.created(0xc0, Place::cuda(1));
    assert_eq!(
        seen(&contexts, 0xc0, 2, Place::UNKNOWN),
        new(2, 0xc0, Place::cuda(1))
    );
    assert_eq!(contexts.ending(0xc0), Some(ContextUid(2)));
}

const CONVERTED: u32 = super::FIRST_GREEN;

/// That a converted context is seen for the first time.
fn new_converted(number: u32, handle: u64, place: Place) -> Seen {
    Seen {
        owner: ContextUid(0),
        ..new(CONVERTED + number, handle, place)
    }
}

#[test]
fn what_is_made_in_a_green_context_does_not_end_with_it() {
    let contexts = Contexts::new();
    let place = Place::cuda(1);
    contexts.converted(0x6e, 0xc1);
    contexts.converted(0x6e, 0xc1);
    let first = seen(&contexts, 0xc1, 7, place);
    assert_eq!(first, new_converted(0, 0xc1, place));
    let again = contexts.seen(0xc1, ContextUid(7), || place);
    assert_eq!(again, known(0, place), "the same thread");
    assert_eq!(seen(&contexts, 0xc1, 7, place), known(0, place));
    // Any other context stays its own things' owner.
    assert_eq!(seen(&contexts, 0xc0, 1, place), new(1, 0xc0, place));
    let ended = Some(ContextUid(CONVERTED));
    assert_eq!(contexts.green_ended(0x6e), ended);
    assert_eq!(contexts.green_ended(0x6e), None);
    // The address, used again, is a context like any other.
    assert_eq!(seen(&contexts, 0xc1, 8, place), new(8, 0xc1, place));
}

#[test]
fn a_green_context_with_the_number_of_its_primary_one_does_not_end_that() {
    let contexts = Contexts::new();
    let place = Place::cuda(0);
    contexts.converted(0x6e, 0xc1);
    let first = seen(&contexts, 0xc1, 1, place);
    assert_eq!(first, new_converted(0, 0xc1, place));
    let primary = contexts.seen(0xc0, ContextUid(1), || place);
    assert_eq!(primary, new(1, 0xc0, place), "on the same thread");
    // Now that the owner is known, it is told.
    assert_eq!(seen(&contexts, 0xc1, 1, place), known(1, place));
    assert_eq!(contexts.green_ended(0x6e), Some(ContextUid(CONVERTED)));
    assert_eq!(seen(&contexts, 0xc0, 1, place), known(1, place));
    assert_eq!(contexts.ending(0xc0), Some(ContextUid(1)));

    contexts.converted(0x6e, 0xc1);
    let second = seen(&contexts, 0xc1, 1, place);
    assert_eq!(second, new_converted(1, 0xc1, place), "used again");
}

#[test]
fn a_green_context_whose_end_was_told_already_ends_once() {
    let contexts = Contexts::new();
    contexts.converted(0x6e, 0xc1);
    seen(&contexts, 0xc1, 7, Place::cuda(0));
    assert!(contexts.ending(0xc1).is_some());
    assert_eq!(contexts.green_ended(0x6e), None);
}

#[test]
fn a_stream_ends_with_the_green_context_that_it_was_made_for_or_in() {
    let contexts = Contexts::new();
    let number = |number| Some(ContextUid(CONVERTED + number));
    assert_eq!(contexts.green_of_stream(None, 0xc0), None);
    // One that is never converted, and so never current.
    assert_eq!(contexts.green_of_stream(Some(0x6e), 0xc0), number(0));
    assert_eq!(contexts.green_of_stream(Some(0x6e), 0), number(0));
    contexts.converted(0x6f, 0xc1);
    assert_eq!(contexts.green_of_stream(None, 0xc1), number(1));
    assert_eq!(contexts.green_of_stream(None, 0), None);
    assert_eq!(contexts.green_ended(0x6e), number(0));
    assert_eq!(contexts.green_ended(0x6f), number(1));
    assert_eq!(contexts.green_of_stream(None, 0xc1), None);
}
