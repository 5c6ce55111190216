//! The settings of a context: flags, limits and the cache preference. None of them has an effect.

use crate::dispatch::{Out, api};
use crate::error::Error;
use crate::state::driver;

/// The limits of a new context, in the order of `CUlimit`: stack, printf buffer, heap and so on.
fn default_limit(limit: u32) -> Result<usize, Error> {
    [1024, 8_650_752, 8 << 20, 2, 2048, 64, 0]
        .get(limit as usize)
        .copied()
        .ok_or(Error::UNSUPPORTED_LIMIT)
}

api! {
    cuCtxGetFlags fn(flags: Out<u32>) {
        flags.put(driver()?.current()?.flags)
    }

    cuCtxSetFlags fn(flags: u32) {
        let mut driver = driver()?;
        let handle = driver.current_handle()?;
        driver.contexts.get_mut(handle).expect("it is current").flags = flags;
        Ok(())
    }

    cuCtxGetLimit fn(value: Out<usize>, limit: u32) {
        let driver = driver()?;
        let set = driver.current()?.limits.get(&limit).copied();
        value.put(set.map_or_else(|| default_limit(limit), Ok)?)
    }

    cuCtxSetLimit fn(limit: u32, value: usize) {
        let mut driver = driver()?;
        let handle = driver.current_handle()?;
        default_limit(limit)?;
        driver.contexts.get_mut(handle).expect("it is current").limits.insert(limit, value);
        Ok(())
    }

    cuCtxGetCacheConfig fn(config: Out<u32>) {
        config.put(driver()?.current()?.cache_config)
    }

    cuCtxSetCacheConfig fn(config: u32) {
        let mut driver = driver()?;
        let handle = driver.current_handle()?;
        driver.contexts.get_mut(handle).expect("it is current").cache_config = config;
        Ok(())
    }

    cuCtxGetStreamPriorityRange fn(least: Out<i32>, greatest: Out<i32>) {
        driver()?.current()?;
        least.offer(0);
        greatest.offer(-5);
        Ok(())
    }
}
