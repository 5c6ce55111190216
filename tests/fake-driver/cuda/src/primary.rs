//! Primary contexts. Each device has one, which all its users share, and whose handle never
//! changes.

use crate::context::destroy;
use crate::dispatch::{Out, api};
use crate::error::Error;
use crate::handle::Handle;
use crate::state::driver;

/// Retains a device's primary context. Creates it if necessary.
pub(crate) fn retain(device: i32) -> Result<Handle, Error> {
    let mut driver = driver()?;
    let device = driver.device(device)?;
    Ok(match driver.devices[device].primary {
        Some(handle) if driver.context(handle).is_ok() => {
            driver
                .contexts
                .get_mut(handle)
                .expect("it was just found")
                .references += 1;
            handle
        }
        Some(handle) => {
            let mut context = driver.new_context(device, 0, true);
            let ended = driver
                .contexts
                .get_mut(handle)
                .expect("a primary context's handle stays");
            // A reset does not change the number of retains.
            context.references = ended.references + 1;
            *ended = context;
            handle
        }
        None => {
            let context = driver.new_context(device, 0, true);
            let handle = driver.contexts.insert(context);
            driver.devices[device].primary = Some(handle);
            handle
        }
    })
}

/// Undoes one retain. The last release ends the context.
pub(crate) fn release(device: i32) -> Result<(), Error> {
    let ended = {
        let mut driver = driver()?;
        let device = driver.device(device)?;
        let handle = driver.devices[device]
            .primary
            .ok_or(Error::INVALID_CONTEXT)?;
        let context = driver
            .contexts
            .get_mut(handle)
            .expect("a primary context's handle stays");
        context.references = context
            .references
            .checked_sub(1)
            .ok_or(Error::INVALID_CONTEXT)?;
        (context.references == 0 && context.alive).then_some(handle)
    };
    if let Some(handle) = ended {
        destroy(handle);
    }
    Ok(())
}

fn reset(device: i32) -> Result<(), Error> {
    let live = {
        let driver = driver()?;
        let device = driver.device(device)?;
        if driver.has_green(device) {
            return Err(Error::NOT_PERMITTED);
        }
        driver.devices[device]
            .primary
            .filter(|&handle| driver.context(handle).is_ok())
    };
    if let Some(handle) = live {
        destroy(handle);
    }
    Ok(())
}

api! {
    cuDevicePrimaryCtxRetain fn(context: Out<Handle>, device: i32) {
        if context.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        context.put(retain(device)?)
    }

    cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2 fn(device: i32) {
        release(device)
    }

    cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset_v2 fn(device: i32) {
        reset(device)
    }

    cuDevicePrimaryCtxGetState fn(device: i32, flags: Out<u32>, active: Out<i32>) {
        let driver = driver()?;
        let device = driver.device(device)?;
        let primary = driver.devices[device].primary.and_then(|handle| driver.context(handle).ok());
        flags.offer(primary.map_or(0, |context| context.flags));
        active.offer(i32::from(primary.is_some()));
        Ok(())
    }

    cuDevicePrimaryCtxSetFlags, cuDevicePrimaryCtxSetFlags_v2 fn(device: i32, flags: u32) {
        let mut driver = driver()?;
        let device = driver.device(device)?;
        if let Some(handle) = driver.devices[device].primary {
            driver.contexts.get_mut(handle).expect("a primary context's handle stays").flags = flags;
        }
        Ok(())
    }
}
