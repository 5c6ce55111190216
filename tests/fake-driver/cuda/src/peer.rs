//! Access by one device's contexts to another device's memory.

use crate::dispatch::{Out, api};
use crate::error::Error;
use crate::handle::Handle;
use crate::state::{Driver, driver};

impl Driver {
    fn peers_of_current(
        &mut self,
        peer: Handle,
    ) -> Result<&mut std::collections::BTreeSet<Handle>, Error> {
        let own = self.current_handle()?;
        let device = self.context(peer)?.device;
        let context = self.contexts.get_mut(own).expect("it is current");
        if own == peer {
            return Err(Error::INVALID_CONTEXT);
        }
        if context.device == device {
            return Err(Error::PEER_ACCESS_UNSUPPORTED);
        }
        Ok(&mut context.peers)
    }
}

api! {
    cuDeviceCanAccessPeer fn(answer: Out<i32>, device: i32, peer: i32) {
        let driver = driver()?;
        let (device, peer) = (driver.device(device)?, driver.device(peer)?);
        answer.put(i32::from(device != peer))
    }

    cuDeviceGetP2PAttribute fn(value: Out<i32>, attribute: u32, device: i32, peer: i32) {
        let driver = driver()?;
        let (device, peer) = (driver.device(device)?, driver.device(peer)?);
        if device == peer {
            return Err(Error::INVALID_DEVICE);
        }
        value.put(match attribute {
            // The performance rank is 0, the best one. Access, atomics and arrays are supported.
            1 => 0,
            2..=4 => 1,
            _ => return Err(Error::INVALID_VALUE),
        })
    }

    cuCtxEnablePeerAccess fn(peer: Handle, flags: u32) {
        if flags != 0 {
            return Err(Error::INVALID_VALUE);
        }
        if driver()?.peers_of_current(peer)?.insert(peer) {
            Ok(())
        } else {
            Err(Error::PEER_ACCESS_ALREADY_ENABLED)
        }
    }

    cuCtxDisablePeerAccess fn(peer: Handle) {
        if driver()?.peers_of_current(peer)?.remove(&peer) {
            Ok(())
        } else {
            Err(Error::PEER_ACCESS_NOT_ENABLED)
        }
    }
}
