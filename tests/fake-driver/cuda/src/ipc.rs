//! Memory and events of another process. Unlike the real driver, the stand-in lets a process open
//! its own handles, so that a test needs no second process.

use crate::dispatch::{Out, api};
use crate::error::Error;
use crate::event::Event;
use crate::handle::Handle;
use crate::memory::Kind;
use crate::shared_handle::{Opaque, Shared, SharedKind};
use crate::state::{Driver, driver};

/// `CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS`, the only flag, which is mandatory.
const LAZY_PEER_ACCESS: u32 = 1;
/// `CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS`.
const SHARED_EVENT: u32 = 6;

/// A mapping of another process's memory. Opening the memory again in the same context returns the
/// same mapping.
#[derive(Debug)]
pub(crate) struct Opened {
    shared: Shared,
    context: Handle,
    references: u32,
}

impl Driver {
    fn export_memory(&self, address: u64) -> Result<Opaque, Error> {
        self.current()?;
        match self.range_of(address) {
            Some((base, range)) if matches!(range.kind, Kind::Linear | Kind::Pitched) => {
                Ok(Shared::own(SharedKind::Memory, base, range.size).encode())
            }
            _ => Err(Error::INVALID_VALUE),
        }
    }

    fn open_memory(&mut self, handle: Opaque, flags: u32) -> Result<u64, Error> {
        let shared = Shared::decode(handle, SharedKind::Memory)?;
        let context = self.current_handle()?;
        self.forbid_in_capture()?;
        if flags != LAZY_PEER_ACCESS {
            return Err(Error::INVALID_VALUE);
        }
        let known = self
            .opened
            .iter_mut()
            .find(|(_, opened)| opened.shared == shared && opened.context == context);
        if let Some((&address, opened)) = known {
            opened.references += 1;
            return Ok(address);
        }
        let device = self.contexts.get(context).expect("it is current").device;
        let owner = self.source_of(shared)?;
        let address = self.record_foreign(Kind::Ipc, shared.size, device, context, owner)?;
        self.opened.insert(
            address,
            Opened {
                shared,
                context,
                references: 1,
            },
        );
        Ok(address)
    }

    /// Returns the live range that a shared address refers to, if it belongs to this process.
    pub(crate) fn source_of(&self, shared: Shared) -> Result<u64, Error> {
        if !shared.is_own() {
            return Ok(0);
        }
        self.memory
            .get(&shared.source)
            .filter(|source| source.size == shared.size)
            .map(|_| shared.source)
            .ok_or(Error::INVALID_VALUE)
    }

    fn close_memory(&mut self, address: u64) -> Result<(), Error> {
        self.current()?;
        self.forbid_in_capture()?;
        let opened = self.opened.get_mut(&address).ok_or(Error::INVALID_VALUE)?;
        opened.references -= 1;
        if opened.references == 0 {
            self.release(address, true);
        }
        Ok(())
    }
}

api! {
    cuIpcGetMemHandle fn(handle: Out<Opaque>, address: u64) {
        handle.put(driver()?.export_memory(address)?)
    }

    cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2 fn(address: Out<u64>, handle: Opaque, flags: u32) {
        if address.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        address.put(driver()?.open_memory(handle, flags)?)
    }

    cuIpcCloseMemHandle fn(address: u64) {
        driver()?.close_memory(address)
    }

    cuIpcGetEventHandle fn(handle: Out<Opaque>, event: Handle) {
        let driver = driver()?;
        let found = driver.events.get(event).ok_or(Error::INVALID_HANDLE)?;
        if !found.has_flags(SHARED_EVENT) {
            return Err(Error::INVALID_VALUE);
        }
        handle.put(Shared::own(SharedKind::Event, event, 0).encode())
    }

    cuIpcOpenEventHandle fn(event: Out<Handle>, handle: Opaque) {
        Shared::decode(handle, SharedKind::Event)?;
        let mut driver = driver()?;
        let context = driver.current_handle()?;
        if event.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        event.put(driver.events.insert(Event::new(context, SHARED_EVENT)))
    }
}
