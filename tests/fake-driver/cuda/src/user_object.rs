//! User objects, to which callers, graphs and executable graphs have references. When the last
//! reference ends, a function of the program runs on a thread of the driver.

use std::collections::BTreeMap;

use crate::dispatch::{Out, api};
use crate::error::Error;
use crate::handle::Handle;
use crate::host_call::{HostCall, HostFunction};
use crate::state::{Driver, driver, state};

/// `CU_USER_OBJECT_NO_DESTRUCTOR_SYNC`, which is mandatory.
const NO_DESTRUCTOR_SYNC: u32 = 1;
/// `CU_GRAPH_USER_OBJECT_MOVE`: the caller's references become the graph's.
const MOVE: u32 = 1;

#[derive(Debug)]
pub(crate) struct UserObject {
    destructor: HostCall,
    /// The number of references that callers hold.
    callers: u32,
    /// The number of references that graphs and executable graphs hold.
    graphs: u32,
}

/// The number of references that one graph holds.
#[derive(Clone, Debug, Default)]
pub(crate) struct References(BTreeMap<Handle, u32>);

impl Driver {
    fn user_object(&mut self, object: Handle) -> Result<&mut UserObject, Error> {
        self.user_objects
            .get_mut(object)
            .ok_or(Error::INVALID_VALUE)
    }

    fn release_from_caller(&mut self, object: Handle, count: u32) -> Result<(), Error> {
        let found = self.user_object(object)?;
        found.callers = found
            .callers
            .checked_sub(count)
            .ok_or(Error::INVALID_VALUE)?;
        self.end_unused(object);
        Ok(())
    }

    fn retain_in_graph(
        &mut self,
        graph: Handle,
        object: Handle,
        count: u32,
        flags: u32,
    ) -> Result<(), Error> {
        self.graphs.get(graph).ok_or(Error::INVALID_VALUE)?;
        let found = self.user_object(object)?;
        if flags == MOVE {
            found.callers = found
                .callers
                .checked_sub(count)
                .ok_or(Error::INVALID_VALUE)?;
        }
        found.graphs += count;
        let references = &mut self
            .graphs
            .get_mut(graph)
            .expect("it was just found")
            .objects
            .0;
        *references.entry(object).or_default() += count;
        Ok(())
    }

    fn release_from_graph(
        &mut self,
        graph: Handle,
        object: Handle,
        count: u32,
    ) -> Result<(), Error> {
        let graph = self.graphs.get_mut(graph).ok_or(Error::INVALID_VALUE)?;
        let held = graph
            .objects
            .0
            .get_mut(&object)
            .ok_or(Error::INVALID_VALUE)?;
        *held = held.checked_sub(count).ok_or(Error::INVALID_VALUE)?;
        if *held == 0 {
            graph.objects.0.remove(&object);
        }
        self.user_object(object)?.graphs -= count;
        self.end_unused(object);
        Ok(())
    }

    /// Duplicates the references of a graph, for a copy of it.
    pub(crate) fn share_objects(&mut self, references: &References) -> References {
        for (&object, &count) in &references.0 {
            self.user_objects
                .get_mut(object)
                .expect("a reference keeps its object")
                .graphs += count;
        }
        references.clone()
    }

    /// Releases the references of a graph that has ended.
    pub(crate) fn drop_objects(&mut self, references: References) {
        for (object, count) in references.0 {
            self.user_objects
                .get_mut(object)
                .expect("a reference keeps its object")
                .graphs -= count;
            self.end_unused(object);
        }
    }

    fn end_unused(&mut self, object: Handle) {
        let in_use = |object: &UserObject| object.callers + object.graphs > 0;
        if self.user_objects.get(object).is_none_or(in_use) {
            return;
        }
        let ended = self.user_objects.remove(object).expect("it was just found");
        self.ended.push(ended.destructor);
    }
}

/// Runs the destructors that are due, on another thread, and waits for them. The real driver does
/// not wait, but a test must know when they have run. The caller must not hold the lock of the
/// state.
pub(crate) fn run_destructors() {
    let due = std::mem::take(&mut state().ended);
    if due.is_empty() {
        return;
    }
    let run = move || {
        due.into_iter().for_each(HostCall::run);
    };
    // A destructor that panics ends the process at the C boundary.
    let _ = std::thread::spawn(run).join();
}

fn release(object: Handle, count: u32) -> Result<(), Error> {
    driver()?.release_from_caller(object, count)?;
    run_destructors();
    Ok(())
}

api! {
    cuUserObjectCreate fn(object: Out<Handle>, data: u64, destructor: HostFunction, count: u32, flags: u32) {
        let mut driver = driver()?;
        let destructor = HostCall { function: destructor, data };
        if object.is_null() || !destructor.is_there() || count == 0 || flags != NO_DESTRUCTOR_SYNC {
            return Err(Error::INVALID_VALUE);
        }
        object.put(driver.user_objects.insert(UserObject {
            destructor,
            callers: count,
            graphs: 0,
        }))
    }

    cuUserObjectRetain fn(object: Handle, count: u32) {
        driver()?.user_object(object)?.callers += count;
        Ok(())
    }

    cuUserObjectRelease fn(object: Handle, count: u32) {
        release(object, count)
    }

    cuGraphRetainUserObject fn(graph: Handle, object: Handle, count: u32, flags: u32) {
        driver()?.retain_in_graph(graph, object, count, flags)
    }

    cuGraphReleaseUserObject fn(graph: Handle, object: Handle, count: u32) {
        driver()?.release_from_graph(graph, object, count)?;
        run_destructors();
        Ok(())
    }
}
