//! The subscription: choosing a CUPTI, asking to be called back, and whether that still stands.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::call::Call;
use super::callback;
use super::ffi::{self, CuptiResult};
use super::library::{Cupti, Refusal, Subscription};
use super::loader::Surroundings;
use super::unavailable::Unavailable;
use super::version::{CudaVersion, CuptiVersion};
use super::watch::TABLE;
use crate::device::contexts::noting_initialisation;
use crate::device::driver::{self, Driver};
use crate::device::quiet::quiet;
use crate::device::{errors, exit};
use crate::ledger;
use crate::ledger::event::{CuResult, Event, SourceLoss};

/// The id that the heartbeat asks about: `cuMemFree_v2`, which every CUPTI knows.
const HEARTBEAT_ID: u32 = 245;

/// What is watched beside driver calls: domain, id, name.
const EVENTS: [(u32, u32, &str); 4] = [
    (
        ffi::DOMAIN_RESOURCE,
        ffi::CONTEXT_CREATED,
        "context created",
    ),
    (
        ffi::DOMAIN_RESOURCE,
        ffi::CONTEXT_DESTROY_STARTING,
        "context destroyed",
    ),
    (
        ffi::DOMAIN_RESOURCE,
        ffi::GRAPH_NODE_CREATED,
        "graph node created",
    ),
    (ffi::DOMAIN_STATE, ffi::FATAL_ERROR, "fatal error of CUPTI"),
];

/// The source of the driver's events.
#[derive(Debug)]
pub(crate) struct Tracer {
    cupti: &'static Cupti,
    subscription: Mutex<Subscription>,
    unseen: Vec<&'static str>,
}

impl Tracer {
    /// Whether the subscription still stands: 0.1 µs.
    ///
    /// # Errors
    ///
    /// Why it does not. The ledger is told too.
    pub(crate) fn heartbeat(&self) -> Result<(), SourceLoss> {
        if let Some(why) = ledger::live().lost() {
            return Err(why);
        }
        if self.answers() {
            return Ok(());
        }
        let why = SourceLoss::SubscriptionGone;
        ledger::live().apply(&Event::SourceLost { why });
        Err(why)
    }

    fn answers(&self) -> bool {
        if callback::broken() || !exit::may_call_driver() {
            return false;
        }
        let _quiet = quiet();
        let mut subscription = self
            .subscription
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let domain = ffi::DOMAIN_DRIVER_API;
        self.cupti
            .is_enabled(&mut subscription, domain, HEARTBEAT_ID)
    }

    /// What this driver has and this CUPTI does not know: it happens unseen.
    pub(crate) fn unseen(&self) -> &[&'static str] {
        &self.unseen
    }

    /// CUPTI's version.
    pub(crate) fn version(&self) -> CuptiVersion {
        self.cupti.version()
    }

    /// Where CUPTI was found.
    pub(crate) fn path(&self) -> &Path {
        self.cupti.path()
    }
}

/// When watching begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    /// Whenever a check does.
    Any,
    /// Inside `cuInit`, which must not be called again before it is over.
    InsideInitialisation,
}

/// Finds the driver and CUPTI, subscribes and enables. To be called once.
pub(super) fn start(moment: Moment) -> Result<Tracer, Unavailable> {
    let _quiet = quiet();
    let (driver, surroundings) = surroundings()?;
    match moment {
        Moment::Any => noting_initialisation(|| start_best(driver, &surroundings, moment)),
        Moment::InsideInitialisation => start_best(driver, &surroundings, moment),
    }
}

/// The copies of CUPTI to try, in turn.
///
/// # Errors
///
/// That there is no driver, or what is wrong with `GPU_LEAK_CHECK_CUPTI`.
pub(crate) fn candidates() -> Result<Vec<PathBuf>, Unavailable> {
    surroundings()?.1.candidates()
}

/// What is wrong with `GPU_LEAK_CHECK_CUPTI`, also where there is no driver to use it with.
pub(crate) fn bad_override() -> Option<Unavailable> {
    Surroundings::here(CudaVersion(0)).candidates().err()
}

fn surroundings() -> Result<(&'static Driver, Surroundings), Unavailable> {
    let driver = driver::load().map_err(|why| Unavailable::NoDriver {
        why: why.to_owned(),
    })?;
    let version = CudaVersion(driver.version().unwrap_or(0));
    Ok((driver, Surroundings::here(version)))
}

/// Tries the copies of CUPTI in turn. One that does not work, being too old or too new for the
/// driver, is passed over; without a driver, or with the subscription taken, none would work.
fn start_best(
    driver: &Driver,
    surroundings: &Surroundings,
    moment: Moment,
) -> Result<Tracer, Unavailable> {
    let mut refusal = None;
    for path in surroundings.candidates()? {
        let cupti = match Cupti::open(&path) {
            Ok(cupti) => cupti,
            Err(why) => match surroundings.chosen(&path) {
                Some(value) => return Err(Unavailable::BadOverride { value, why }),
                None => continue,
            },
        };
        match start_with(driver, surroundings.driver, cupti, moment) {
            Err(why) if why.is_this_copy_s_fault() => {
                refusal.get_or_insert(why);
            }
            outcome => return outcome,
        }
    }
    Err(refusal.unwrap_or_else(|| Unavailable::NoCupti {
        looked_in: surroundings.folders(),
    }))
}

fn start_with(
    driver: &Driver,
    driver_version: CudaVersion,
    mut cupti: Cupti,
    moment: Moment,
) -> Result<Tracer, Unavailable> {
    let refused = |cupti: &Cupti, refusal| {
        let error = || match moment {
            Moment::Any => driver.initialise().err(),
            // It works well enough to have called us.
            Moment::InsideInitialisation => None,
        };
        explain(error, driver_version, cupti, refusal)
    };
    cupti
        .connect()
        .map_err(|refusal| refused(&cupti, refusal))?;
    if cupti.version() < CuptiVersion::OLDEST {
        return Err(Unavailable::TooOld {
            path: cupti.path().to_owned(),
            version: cupti.version(),
        });
    }
    let mut subscription = cupti
        .subscribe(callback::entry)
        .map_err(|refusal| refused(&cupti, refusal))?;
    match enable_all(driver, &cupti, &mut subscription) {
        Ok(unseen) => Ok(Tracer {
            // The first one that succeeds is the only one: `start` is called once.
            cupti: cupti.keep(),
            subscription: Mutex::new(subscription),
            unseen,
        }),
        Err(why) => {
            // It would keep other tools out.
            cupti.unsubscribe(subscription);
            Err(why)
        }
    }
}

/// Whose fault a refusal of CUPTI's is: another tool's, the driver's, or its own.
fn explain(
    driver_error: impl FnOnce() -> Option<CuResult>,
    driver_version: CudaVersion,
    cupti: &Cupti,
    Refusal { call, code, holder }: Refusal,
) -> Unavailable {
    if matches!(
        code,
        ffi::MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED | ffi::MAX_LIMIT_REACHED
    ) {
        return Unavailable::Taken { by: holder };
    }
    // Without a working driver CUPTI fails in many ways; the driver itself says why it does not
    // work.
    if let Some(error) = driver_error() {
        return Unavailable::NoDriver {
            why: errors::error_name(error),
        };
    }
    if code == ffi::NOT_INITIALIZED {
        return Unavailable::DriverTooOld {
            path: cupti.path().to_owned(),
            driver: driver_version,
        };
    }
    failed(cupti, call, code)
}

/// The domain and id of everything watched.
pub(crate) fn watched() -> impl Iterator<Item = (u32, u32)> {
    let events = EVENTS.iter().map(|(domain, id, _)| (*domain, *id));
    let calls = TABLE.iter().map(|row| (ffi::DOMAIN_DRIVER_API, row.id));
    events.chain(calls)
}

/// Asks to be called back for everything watched; answers with what this driver has and this CUPTI
/// does not know.
fn enable_all(
    driver: &Driver,
    cupti: &Cupti,
    subscription: &mut Subscription,
) -> Result<Vec<&'static str>, Unavailable> {
    let is_creation = |call| matches!(call, Call::Creates(_));
    let calls = |creations| {
        TABLE
            .iter()
            .filter(move |row| is_creation(row.call) == creations)
            .map(|row| (ffi::DOMAIN_DRIVER_API, row.id, row.name))
    };
    // Creations last: what another thread makes meanwhile is then either never seen, or seen to
    // be released.
    let watched = EVENTS.into_iter().chain(calls(false)).chain(calls(true));
    let mut unseen = Vec::new();
    for (domain, id, name) in watched {
        match cupti.enable(subscription, domain, id) {
            ffi::SUCCESS => {}
            ffi::INVALID_PARAMETER if domain == ffi::DOMAIN_DRIVER_API && !driver.has(name) => {}
            ffi::INVALID_PARAMETER => unseen.push(name),
            code => return Err(failed(cupti, "cuptiEnableCallback", code)),
        }
    }
    Ok(unseen)
}

fn failed(cupti: &Cupti, call: &'static str, code: CuptiResult) -> Unavailable {
    Unavailable::Failed {
        call,
        code,
        text: cupti.result_name(code),
    }
}
