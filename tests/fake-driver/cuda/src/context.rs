//! Created contexts, each thread's stack of current contexts, and what ends with a context.

use std::cell::Cell;
use std::collections::{BTreeSet, HashMap};

use crate::dispatch::{In, Out, api};
use crate::error::Error;
use crate::handle::Handle;
use crate::state::{Driver, driver, state};
use crate::user_object;

/// A context. A primary context stays in the table when it is reset, so that its handle stays the
/// same.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) uid: u32,
    pub(crate) device: usize,
    pub(crate) alive: bool,
    /// The sticky error, which every call in this context returns once it is set.
    pub(crate) poisoned: Option<Error>,
    primary: bool,
    /// The number of retains of a primary context, or of attaches of a created one.
    pub(crate) references: u32,
    pub(crate) flags: u32,
    pub(crate) cache_config: u32,
    pub(crate) limits: HashMap<u32, usize>,
    /// For the view of a green context: the primary context that it belongs to.
    base: Option<Handle>,
    /// The memory that the first launch in the context has added; `None` before that.
    pub(crate) growth: Option<u64>,
    /// The contexts whose memory this context can access.
    pub(crate) peers: BTreeSet<Handle>,
}

impl Context {
    /// Whether this is a live context and not the view of a green one.
    pub(crate) fn is_real(&self) -> bool {
        self.alive && self.base.is_none()
    }
}

/// The maximum depth of `cuCtxPushCurrent`.
const STACK: usize = 32;

thread_local! {
    /// This thread's stack of current contexts, with the top last. The type has no destructor,
    /// because the stack is also read during thread exit.
    static CURRENT: Cell<([Handle; STACK], usize)> = const { Cell::new(([0; STACK], 0)) };
}

fn top() -> Handle {
    let (stack, depth) = CURRENT.get();
    if depth == 0 { 0 } else { stack[depth - 1] }
}

fn push(context: Handle) -> Result<(), Error> {
    let (mut stack, depth) = CURRENT.get();
    *stack.get_mut(depth).ok_or(Error::OUT_OF_MEMORY)? = context;
    CURRENT.set((stack, depth + 1));
    Ok(())
}

fn pop() -> Option<Handle> {
    let (stack, depth) = CURRENT.get();
    let depth = depth.checked_sub(1)?;
    CURRENT.set((stack, depth));
    Some(stack[depth])
}

/// Breaks a context for good, with this error.
pub(crate) fn poison(handle: Handle, error: Error) -> Result<(), Error> {
    let mut state = state();
    let owner = state.owner(handle).map_err(|_| Error::INVALID_CONTEXT)?;
    let context = state.contexts.get_mut(owner).expect("it was just found");
    context.poisoned.get_or_insert(error);
    Ok(())
}

/// Breaks the calling thread's context, if it has one.
pub(crate) fn poison_current(error: Error) {
    // A thread without a context has nothing to break.
    let _ = poison(top(), error);
}

impl Driver {
    /// Returns a context by its handle, in any state.
    pub(crate) fn context(&self, handle: Handle) -> Result<&Context, Error> {
        let context = self.contexts.get(handle).ok_or(Error::INVALID_CONTEXT)?;
        let base = context.base.and_then(|base| self.contexts.get(base));
        if context.alive && base.is_none_or(|base| base.alive) {
            Ok(context)
        } else {
            Err(Error::CONTEXT_IS_DESTROYED)
        }
    }

    /// The context that owns objects created under this handle.
    pub(crate) fn owner(&self, handle: Handle) -> Result<Handle, Error> {
        Ok(self.context(handle)?.base.unwrap_or(handle))
    }

    /// The green context that is current on the calling thread.
    pub(crate) fn current_green(&self) -> Option<Handle> {
        let context = self.context(top()).ok()?;
        context.base.map(|_| top())
    }

    /// Returns the calling thread's context. Fails if it has none, or if the context is broken.
    pub(crate) fn current(&self) -> Result<&Context, Error> {
        self.healthy(top())
    }

    /// Fails if the calling thread's context has ended or is broken, but not if the thread has
    /// none.
    pub(crate) fn current_or_none(&self) -> Result<(), Error> {
        if top() == 0 {
            Ok(())
        } else {
            self.current().map(drop)
        }
    }

    pub(crate) fn current_handle(&self) -> Result<Handle, Error> {
        self.current()?;
        self.owner(top())
    }

    /// Returns a context by its handle. Fails if the context is broken.
    pub(crate) fn healthy(&self, handle: Handle) -> Result<&Context, Error> {
        let context = self.context(self.owner(handle)?)?;
        context.poisoned.map_or(Ok(context), Err)
    }

    /// Returns an id that no other context has had.
    fn new_context_uid(&mut self) -> u32 {
        self.context_uids += 1;
        self.context_uids
    }

    pub(crate) fn new_context(&mut self, device: usize, flags: u32, primary: bool) -> Context {
        self.contexts_made += 1;
        Context {
            uid: self.new_context_uid(),
            device,
            alive: true,
            poisoned: None,
            primary,
            references: 1,
            flags,
            cache_config: 0,
            limits: HashMap::new(),
            base: None,
            growth: None,
            peers: BTreeSet::new(),
        }
    }

    /// Frees what ends with a context. Stream-ordered and physical memory, pools and graphs stay,
    /// because they belong to no context (`cuCtxDestroy` in `cuda.h`). Streams of green contexts
    /// stay, because only `cuStreamDestroy` ends them (`cuGreenCtxDestroy` in `cuda.h`).
    fn tear_down(&mut self, handle: Handle) {
        let doomed: Vec<u64> = self
            .memory
            .iter()
            .filter(|(_, allocation)| allocation.context == handle)
            .map(|(&address, _)| address)
            .collect();
        for address in doomed {
            self.release(address, true);
        }
        let streams: Vec<(Handle, Option<u64>)> = self
            .streams
            .iter()
            .filter(|(_, stream)| stream.context == handle && stream.green.is_none())
            .map(|(stream, state)| (stream, state.capture))
            .collect();
        for (stream, capture) in streams {
            self.streams.remove(stream);
            if let Some(capture) = capture {
                self.abandon(capture, stream);
            }
        }
        self.events.remove_where(|event| event.context == handle);
        self.modules.remove_where(|module| module.context == handle);
        self.functions
            .remove_where(|function| function.context == handle);
        self.release_objects_of(handle);
        self.observe();
        for other in self.contexts.values_mut() {
            other.peers.remove(&handle);
        }
        let context = self
            .contexts
            .get_mut(handle)
            .expect("the caller found this context");
        if context.primary {
            context.alive = false;
            context.poisoned = None;
        } else {
            self.contexts.remove(handle);
        }
    }

    /// Marks every stream-ordered free so far as observed, and makes pools release what exceeds
    /// their threshold.
    pub(crate) fn observe(&mut self) {
        for pool in self.pools.values_mut() {
            pool.observe();
        }
    }
}

pub(crate) fn destroy(handle: Handle) {
    state().tear_down(handle);
    user_object::run_destructors();
}

fn create(context_out: Out<Handle>, flags: u32, device: i32) -> Result<(), Error> {
    let handle = {
        let mut driver = driver()?;
        let device = driver.device(device)?;
        if context_out.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        let context = driver.new_context(device, flags, false);
        driver.contexts.insert(context)
    };
    push(handle)?;
    context_out.put(handle)
}

/// Creates a handle by which a green context can be made current. The handle has its own id.
pub(crate) fn view_of(driver: &mut Driver, base: Handle) -> Result<Context, Error> {
    let device = driver.context(base)?.device;
    Ok(Context {
        uid: driver.new_context_uid(),
        device,
        alive: true,
        poisoned: None,
        primary: true,
        references: 1,
        flags: 0,
        cache_config: 0,
        limits: HashMap::new(),
        base: Some(base),
        growth: None,
        peers: BTreeSet::new(),
    })
}

fn destroy_created(handle: Handle) -> Result<(), Error> {
    if driver()?.context(handle)?.primary {
        return Err(Error::INVALID_CONTEXT);
    }
    destroy(handle);
    if top() == handle {
        pop();
    }
    Ok(())
}

api! {
    cuCtxCreate, cuCtxCreate_v2 fn(context: Out<Handle>, flags: u32, device: i32) {
        create(context, flags, device)
    }

    cuCtxCreate_v3 fn(context: Out<Handle>, _affinity: In<u8>, _affinities: i32, flags: u32, device: i32) {
        create(context, flags, device)
    }

    cuCtxCreate_v4 fn(context: Out<Handle>, _params: In<u8>, flags: u32, device: i32) {
        create(context, flags, device)
    }

    cuCtxDestroy, cuCtxDestroy_v2 fn(context: Handle) {
        destroy_created(context)
    }

    cuCtxAttach fn(context: Out<Handle>, _flags: u32) {
        let mut driver = driver()?;
        let handle = driver.current_handle()?;
        let current = driver.contexts.get_mut(handle).expect("it is current");
        // This does not retain a primary context (observed on an H200).
        current.references += u32::from(!current.primary);
        context.put(handle)
    }

    cuCtxDetach fn(context: Handle) {
        let last = {
            let mut driver = driver()?;
            driver.current_or_none()?;
            // For a primary context, this call changes nothing (observed on an H200).
            match driver.context(context)? {
                Context { base: Some(_), .. } => return Err(Error::INVALID_CONTEXT),
                Context { primary: true, .. } => return Ok(()),
                _ if context != top() => return Err(Error::INVALID_CONTEXT),
                _ => {}
            }
            let found = driver.contexts.get_mut(context).expect("it was just found");
            found.references -= 1;
            found.references == 0
        };
        if last { destroy_created(context) } else { Ok(()) }
    }

    cuCtxGetCurrent fn(context: Out<Handle>) {
        let _initialised = driver()?;
        context.put(top())
    }

    cuCtxSetCurrent fn(context: Handle) {
        let driver = driver()?;
        // A primary context that has ended can be made current (observed on an H200).
        if context != 0 && driver.contexts.get(context).is_none_or(|found| !found.primary) {
            driver.context(context)?;
        }
        pop();
        if context == 0 { Ok(()) } else { push(context) }
    }

    cuCtxPushCurrent_v2 fn(context: Handle) {
        driver()?.context(context)?;
        push(context)
    }

    cuCtxPopCurrent_v2 fn(context: Out<Handle>) {
        let _initialised = driver()?;
        let popped = pop().ok_or(Error::INVALID_CONTEXT)?;
        context.offer(popped);
        Ok(())
    }

    cuCtxGetDevice fn(device: Out<i32>) {
        let driver = driver()?;
        device.put(driver.context(top())?.device as i32)
    }

    cuCtxSynchronize fn() {
        let mut driver = driver()?;
        let handle = driver.current_handle()?;
        driver.forbid_in_capture_of(handle)?;
        driver.observe();
        Ok(())
    }

    cuCtxGetApiVersion fn(context: Handle, version: Out<u32>) {
        let driver = driver()?;
        driver.context(if context == 0 { top() } else { context })?;
        version.put(3020)
    }

    cuCtxGetId fn(context: Handle, id: Out<u64>) {
        let driver = driver()?;
        let context = driver.context(if context == 0 { top() } else { context })?;
        id.put(u64::from(context.uid))
    }
}
