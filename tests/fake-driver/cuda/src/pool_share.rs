//! Sharing of pools and their allocations between processes. As with IPC, a process may also import
//! what it has exported itself.

use std::os::unix::fs::FileExt as _;

use crate::dispatch::{In, Out, api};
use crate::error::Error;
use crate::handle::Handle;
use crate::memory::Kind;
use crate::physical::{FILE_DESCRIPTOR, memory_file, received, shared};
use crate::pool::Pool;
use crate::shared_handle::{Opaque, Shared, SharedKind};
use crate::state::{Driver, driver};

impl Driver {
    fn export_pool(&self, pool: Handle, kind: u32) -> Result<i32, Error> {
        if kind != FILE_DESCRIPTOR || !self.pool(pool)?.is_shareable() {
            return Err(Error::INVALID_VALUE);
        }
        let file = memory_file(64)?;
        let content = Shared::own(SharedKind::Pool, pool, 0).encode();
        file.write_all_at(content.bytes(), 0)
            .map_err(|_| Error::OUT_OF_MEMORY)?;
        shared(&file)
    }

    fn import_pool(&mut self, handle: u64, kind: u32) -> Result<Handle, Error> {
        if kind != FILE_DESCRIPTOR {
            return Err(Error::INVALID_VALUE);
        }
        let mut bytes = [0; 64];
        received(handle)?
            .read_exact_at(&mut bytes, 0)
            .map_err(|_| Error::INVALID_VALUE)?;
        let shared = Shared::decode(Opaque::of_bytes(bytes), SharedKind::Pool)?;
        let device = if shared.is_own() {
            self.pool(shared.source)?.device
        } else {
            Some(0)
        };
        Ok(self.pools.insert(Pool::imported(device)))
    }

    fn export_pointer(&self, address: u64) -> Result<Opaque, Error> {
        let pooled = self
            .memory
            .get(&address)
            .filter(|allocation| allocation.kind == Kind::StreamOrdered)
            .ok_or(Error::INVALID_VALUE)?;
        if !self.pool(pooled.owner)?.is_shareable() {
            return Err(Error::INVALID_VALUE);
        }
        Ok(Shared::own(SharedKind::Pooled, address, pooled.size).encode())
    }

    fn import_pointer(&mut self, pool: Handle, data: Opaque) -> Result<u64, Error> {
        let shared = Shared::decode(data, SharedKind::Pooled)?;
        let pool = self.pool(pool)?;
        if !pool.is_import() {
            return Err(Error::INVALID_VALUE);
        }
        let device = pool.device.unwrap_or(0);
        let owner = self.source_of(shared)?;
        self.record_foreign(Kind::PoolImport, shared.size, device, 0, owner)
    }
}

api! {
    cuMemPoolExportToShareableHandle fn(shareable: Out<i32>, pool: Handle, kind: u32, _flags: u64) {
        if shareable.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        shareable.put(driver()?.export_pool(pool, kind)?)
    }

    cuMemPoolImportFromShareableHandle fn(pool: Out<Handle>, shareable: u64, kind: u32, _flags: u64) {
        if pool.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        pool.put(driver()?.import_pool(shareable, kind)?)
    }

    cuMemPoolExportPointer fn(data: Out<Opaque>, address: u64) {
        data.put(driver()?.export_pointer(address)?)
    }

    cuMemPoolImportPointer fn(address: Out<u64>, pool: Handle, data: In<Opaque>) {
        if address.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        address.put(driver()?.import_pointer(pool, data.get()?)?)
    }
}
