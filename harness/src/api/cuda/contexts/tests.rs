use super::{Context, ContextUid, Contexts, Event, Place, forget};

/// Returns the result of [`Contexts::seen`] on a thread without a cached context.
fn seen(contexts: &Contexts, handle: u64, queried: Place) -> (Context, Option<Event>) {
    forget();
    contexts.seen(handle, || queried)
}

fn created(context: Context) -> Option<Event> {
    Some(Event::ContextCreated {
        context: context.uid,
        handle: context.handle,
        place: context.place,
    })
}

/// Stands for the query for a place that is already known, which must not be made.
fn known() -> Place {
    panic!("the place is known, so it must not be queried")
}

#[test]
fn a_context_is_reported_once_with_the_place_of_its_creation() {
    let contexts = Contexts::new();
    contexts.created(0xc0, Place::cuda(1), false);
    let (first, reported) = contexts.seen(0xc0, known);
    assert_eq!((first.place, first.owner), (Place::cuda(1), first.uid));
    assert_eq!(reported, created(first));
    assert_eq!(contexts.seen(0xc0, known), (first, None), "the same thread");
    assert_eq!(seen(&contexts, 0xc0, Place::UNKNOWN), (first, None));
}

#[test]
fn the_place_of_an_unknown_context_is_queried_until_it_has_one() {
    let contexts = Contexts::new();
    let nowhere = seen(&contexts, 0xc0, Place::UNKNOWN);
    assert_eq!(nowhere, (Context::NONE, None));
    let (first, reported) = contexts.seen(0xc0, || Place::cuda(2));
    assert_eq!(first.place, Place::cuda(2));
    assert_eq!(reported, created(first));
    assert_eq!(contexts.seen(0xc0, known), (first, None));
    assert_eq!(contexts.seen(0, known), (Context::NONE, None), "no context");
}

#[test]
fn a_reused_handle_is_another_context_on_every_thread() {
    let contexts = Contexts::new();
    contexts.created(0xc0, Place::cuda(0), false);
    let (first, _) = contexts.seen(0xc0, known);
    assert_eq!(contexts.end(|it| it.handle == 0xc0), Some(first));
    assert_eq!(
        contexts.end(|it| it.handle == 0xc0),
        None,
        "the context has been removed"
    );
    contexts.created(0xc0, Place::cuda(1), false);
    let (second, reported) = contexts.seen(0xc0, known);
    assert_ne!(second.uid, first.uid);
    assert_eq!(reported, created(second));
    assert_eq!(second.place, Place::cuda(1));
}

#[test]
fn a_context_whose_destruction_failed_is_still_the_same() {
    let contexts = Contexts::new();
    contexts.created(0xc0, Place::cuda(0), false);
    let (first, _) = contexts.seen(0xc0, known);
    let ending = contexts.end(|it| it.handle == 0xc0).unwrap();
    contexts.has_not_ended(ending);
    assert_eq!(contexts.seen(0xc0, known), (first, None));
}

#[test]
fn a_created_context_is_not_the_primary_context_of_its_device() {
    let contexts = Contexts::new();
    let place = Place::cuda(0);
    contexts.created(0xc0, place, false);
    assert_eq!(contexts.end_primary(place), None);
    contexts.created(0xc1, place, true);
    contexts.created(0xc1, place, true);
    let (primary, _) = contexts.seen(0xc1, known);
    assert_eq!(contexts.end_primary(Place::cuda(1)), None);
    assert_eq!(contexts.end_primary(place), Some(primary));
    assert_eq!(contexts.end_primary(place), None);
    contexts.created(0xc1, place, true);
    assert_ne!(contexts.seen(0xc1, known).0.uid, primary.uid);
}

#[test]
fn objects_of_a_green_context_end_with_the_primary_one_that_it_retains() {
    let contexts = Contexts::new();
    let place = Place::cuda(1);
    let owner = contexts.green_created(0x6e, place);
    contexts.converted(0x6e, 0xc1);
    let (green, _) = contexts.seen(0xc1, known);
    assert_eq!(
        owner,
        Some(Event::ContextCreated {
            context: green.owner,
            handle: 0,
            place,
        })
    );
    // The program retains the same context for itself.
    contexts.created(0xc0, place, true);
    let (primary, reported) = contexts.seen(0xc0, known);
    assert_eq!(primary.uid, green.owner);
    assert_eq!(reported, created(primary));
    assert_eq!(contexts.green_created(0x6f, place), None);
    assert_eq!(contexts.end(|it| it.green == 0x6e), Some(green));
    assert_eq!(contexts.end_primary(place), Some(primary));
    assert_eq!(contexts.end_primary(place), None);
}

#[test]
fn objects_of_an_unknown_green_context_do_not_end_with_it() {
    let contexts = Contexts::new();
    let place = Place::cuda(1);
    contexts.converted(0x6e, 0xc1);
    contexts.converted(0x6e, 0xc1);
    let (green, reported) = seen(&contexts, 0xc1, place);
    assert_eq!(green.owner, ContextUid(0));
    assert_eq!(reported, created(green));
    assert_eq!(contexts.seen(0xc1, known), (green, None));
    let (primary, _) = seen(&contexts, 0xc0, place);
    assert_eq!(
        primary.owner, primary.uid,
        "any other context owns what is created in it"
    );
    assert_eq!(contexts.end(|it| it.green == 0x6e), Some(green));
    assert_eq!(contexts.end(|it| it.green == 0x6e), None);
    assert_eq!(contexts.end_primary(place), Some(primary));
    // A new context at the same address is not a green context.
    let (again, _) = seen(&contexts, 0xc1, place);
    assert_eq!(again.owner, again.uid);
}
