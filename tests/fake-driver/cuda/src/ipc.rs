//! Memory and events of another process. A handle may also be opened in the process that made it, which the
//! real driver refuses: a test needs no second process then.

use crate::dispatch::{Out, api};
use crate::error::Error;
use crate::event::Event;
use crate::handle::Handle;
use crate::memory::{Allocation, Kind};
use crate::state::{Driver, driver};

/// `CUipcMemHandle` and `CUipcEventHandle`: 64 opaque bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct IpcHandle([u8; 64]);

/// What is in the bytes of a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Content {
    kind: u64,
    process: u64,
    /// An address or an event's handle, in the process that made it.
    source: u64,
    size: u64,
}

const MEMORY: u64 = u64::from_le_bytes(*b"fake mem");
const EVENT: u64 = u64::from_le_bytes(*b"fake evt");
/// `CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS`, the only flag, which must be given.
const LAZY_PEER_ACCESS: u32 = 1;
/// `CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS`.
const SHARED_EVENT: u32 = 6;

impl Content {
    fn encode(self) -> IpcHandle {
        let mut bytes = [0; 64];
        let words = [self.kind, self.process, self.source, self.size];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        IpcHandle(bytes)
    }

    fn decode(handle: IpcHandle, kind: u64) -> Result<Self, Error> {
        let word = |index: usize| {
            let bytes = handle.0[index * 8..][..8].try_into();
            u64::from_le_bytes(bytes.expect("eight bytes"))
        };
        let content = Self {
            kind: word(0),
            process: word(1),
            source: word(2),
            size: word(3),
        };
        if content.kind == kind {
            Ok(content)
        } else {
            Err(Error::INVALID_VALUE)
        }
    }
}

/// A mapping of another process's memory: opened again in its context it is the same one.
#[derive(Debug)]
pub(crate) struct Opened {
    content: Content,
    context: Handle,
    references: u32,
}

impl Driver {
    fn export_memory(&self, address: u64) -> Result<IpcHandle, Error> {
        self.current()?;
        match self.range_of(address) {
            Some((base, range)) if matches!(range.kind, Kind::Linear | Kind::Pitched) => {
                Ok(Content {
                    kind: MEMORY,
                    process: u64::from(std::process::id()),
                    source: base,
                    size: range.size,
                }
                .encode())
            }
            _ => Err(Error::INVALID_VALUE),
        }
    }

    fn open_memory(&mut self, handle: IpcHandle, flags: u32) -> Result<u64, Error> {
        let content = Content::decode(handle, MEMORY)?;
        let context = self.current_handle()?;
        self.forbid_in_capture()?;
        if flags != LAZY_PEER_ACCESS {
            return Err(Error::INVALID_VALUE);
        }
        let known = self
            .opened
            .iter_mut()
            .find(|(_, opened)| opened.content == content && opened.context == context);
        if let Some((&address, opened)) = known {
            opened.references += 1;
            return Ok(address);
        }
        let is_own = content.process == u64::from(std::process::id());
        let source = self.memory.get(&content.source);
        if is_own && source.is_none_or(|source| source.size != content.size) {
            return Err(Error::INVALID_VALUE);
        }
        let device = self.contexts.get(context).expect("it is current").device;
        let address = self
            .foreign
            .allocate(content.size)
            .ok_or(Error::OUT_OF_MEMORY)?;
        self.opened.insert(
            address,
            Opened {
                content,
                context,
                references: 1,
            },
        );
        self.record(
            address,
            Allocation {
                kind: Kind::Ipc,
                size: content.size,
                device,
                context,
                owner: if is_own { content.source } else { 0 },
                flags: 0,
            },
        );
        Ok(address)
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
    cuIpcGetMemHandle = 328 fn(handle: Out<IpcHandle>, address: u64) {
        handle.put(driver()?.export_memory(address)?)
    }

    cuIpcOpenMemHandle = 329, cuIpcOpenMemHandle_v2 = 567 fn(address: Out<u64>, handle: IpcHandle, flags: u32) {
        if address.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        address.put(driver()?.open_memory(handle, flags)?)
    }

    cuIpcCloseMemHandle = 330 fn(address: u64) {
        driver()?.close_memory(address)
    }

    cuIpcGetEventHandle = 334 fn(handle: Out<IpcHandle>, event: Handle) {
        let driver = driver()?;
        let found = driver.events.get(event).ok_or(Error::INVALID_HANDLE)?;
        if !found.has_flags(SHARED_EVENT) {
            return Err(Error::INVALID_VALUE);
        }
        let process = u64::from(std::process::id());
        handle.put(Content { kind: EVENT, process, source: event, size: 0 }.encode())
    }

    cuIpcOpenEventHandle = 335 fn(event: Out<Handle>, handle: IpcHandle) {
        Content::decode(handle, EVENT)?;
        let mut driver = driver()?;
        let context = driver.current_handle()?;
        if event.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        event.put(driver.events.insert(Event::new(context, SHARED_EVENT)))
    }
}
