//! The reports of CUPTI: the subscription, and the facts that its callbacks report.

#![expect(unsafe_code, reason = "CUPTI's interface is C")]

use std::collections::BTreeSet;
use std::env;
use std::ffi::{CStr, CString, c_char, c_void};
use std::sync::{Mutex, OnceLock, PoisonError};

use gpu_leak_check::ledger::Kind;
use gpu_leak_check::ledger::event::Space;

use crate::fact::{Fact, Where};
use crate::rows::{Does, Place, ROWS, Size};

/// `CUPTI_CB_DOMAIN_DRIVER_API`
const DRIVER_API: u32 = 1;
/// `CUPTI_API_EXIT`
const EXIT: u32 = 1;
/// `CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD`. The capture continues.
const WRONG_THREAD: u32 = 908;

type Callback = unsafe extern "C" fn(*mut c_void, u32, u32, *const CallbackData);

/// `CUpti_CallbackData`, whose layout is that of every CUPTI from 11.8 to 13.5.
#[repr(C)]
struct CallbackData {
    site: u32,
    function: *const c_char,
    parameters: *const u8,
    returned: *const u32,
    symbol: *const c_char,
    context: *const c_void,
    context_uid: u32,
    correlation_data: *mut u64,
    correlation_id: u32,
}

struct Functions {
    subscribe: unsafe extern "C" fn(*mut *mut c_void, Callback, *mut c_void) -> u32,
    enable: unsafe extern "C" fn(u32, *mut c_void, u32, u32) -> u32,
    version: unsafe extern "C" fn(*mut u32) -> u32,
    device_of: unsafe extern "C" fn(*const c_void, *mut u32) -> u32,
}

/// The CUPTI library of this process, and the function that records what CUPTI reports.
struct Listener {
    functions: Functions,
    take: fn(Fact),
    /// The live resources that the driver may return again instead of creating new ones.
    there: Mutex<BTreeSet<u64>>,
}

static LISTENER: OnceLock<Listener> = OnceLock::new();

/// Subscribes to CUPTI, and passes its reports to `take`. Returns CUPTI's version, or the reason
/// why it cannot be used.
pub(crate) fn subscribe(take: fn(Fact)) -> Result<String, String> {
    let functions = functions()?;
    let listener = LISTENER.get_or_init(|| Listener {
        functions,
        take,
        there: Mutex::default(),
    });
    let (mut subscriber, mut version) = (std::ptr::null_mut(), 0);
    // SAFETY: CUPTI's functions have these signatures, the out pointers are to local variables, and
    // the callback stays valid.
    let error = unsafe {
        (listener.functions.version)(&raw mut version);
        (listener.functions.subscribe)(&raw mut subscriber, called_back, std::ptr::null_mut())
    };
    if error != 0 {
        return Err(format!("CUPTI refuses, with error {error}"));
    }
    let mut missing = Vec::new();
    for row in ROWS {
        // SAFETY: the subscription is new, and only this thread uses it.
        let error = unsafe { (listener.functions.enable)(1, subscriber, DRIVER_API, row.id) };
        if error != 0 {
            missing.push(row.name);
        }
    }
    let missing = match missing.is_empty() {
        true => String::new(),
        false => format!(" without {}", missing.join(", ")),
    };
    Ok(format!("CUPTI {version}{missing}"))
}

fn functions() -> Result<Functions, String> {
    let chosen = env::var("GPU_LEAK_ORACLE_CUPTI").ok();
    let names = ["libcupti.so.13", "libcupti.so.12", "libcupti.so"].map(str::to_owned);
    let names = chosen.map_or_else(|| names.to_vec(), |chosen| vec![chosen]);
    let open = |name: &String| {
        let name = CString::new(name.as_str()).ok()?;
        // SAFETY: the name is a C string, and CUPTI's constructors may run at any time.
        let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
        (!library.is_null()).then_some(library)
    };
    let library = names.iter().find_map(open);
    let library = library.ok_or_else(|| format!("no CUPTI is found: {}", names.join(", ")))?;
    let find = |name: &CStr| {
        // SAFETY: the library is open, and the name is a C string.
        let found = unsafe { libc::dlsym(library, name.as_ptr()) };
        if found.is_null() {
            Err(format!("it has no {}", name.to_string_lossy()))
        } else {
            Ok(found)
        }
    };
    // SAFETY: CUPTI's headers declare these functions with these signatures.
    unsafe {
        use std::mem::transmute;
        Ok(Functions {
            subscribe: transmute::<
                *mut c_void,
                unsafe extern "C" fn(*mut *mut c_void, Callback, *mut c_void) -> u32,
            >(find(c"cuptiSubscribe")?),
            enable: transmute::<*mut c_void, unsafe extern "C" fn(u32, *mut c_void, u32, u32) -> u32>(
                find(c"cuptiEnableCallback")?,
            ),
            version: transmute::<*mut c_void, unsafe extern "C" fn(*mut u32) -> u32>(find(
                c"cuptiGetVersion",
            )?),
            device_of: transmute::<*mut c_void, unsafe extern "C" fn(*const c_void, *mut u32) -> u32>(
                find(c"cuptiGetDeviceId")?,
            ),
        })
    }
}

/// The callback that CUPTI calls.
///
/// # Safety
///
/// Only CUPTI may call it, for the only enabled domain.
unsafe extern "C" fn called_back(_: *mut c_void, _: u32, id: u32, data: *const CallbackData) {
    let (Some(listener), Some(row)) = (LISTENER.get(), ROWS.iter().find(|row| row.id == id)) else {
        return;
    };
    // SAFETY: in this domain, CUPTI passes this structure, with the parameters of the call that the
    // id identifies and, when the call ends, its result.
    let fact = unsafe {
        let data = &*data;
        if data.site != EXIT {
            return;
        }
        let call = Call {
            parameters: data.parameters,
            context: data.context,
            error: *data.returned,
            listener,
        };
        call.fact(&row.does)
    };
    if let Some(fact) = fact {
        (listener.take)(fact);
    }
}

/// The data of a call that has returned.
struct Call<'a> {
    parameters: *const u8,
    context: *const c_void,
    error: u32,
    listener: &'a Listener,
}

impl Call<'_> {
    /// # Safety
    ///
    /// A parameter of this type must begin at this offset.
    unsafe fn value<T: Copy>(&self, at: usize) -> T {
        // SAFETY: the caller upholds the contract.
        unsafe { self.parameters.add(at).cast::<T>().read_unaligned() }
    }

    /// The value to which the parameter at this offset points; `None` if the pointer is null.
    ///
    /// # Safety
    ///
    /// The parameter must be null or a pointer to an initialised value of this type.
    unsafe fn pointed<T: Copy>(&self, at: usize) -> Option<T> {
        // SAFETY: the caller upholds the contract.
        unsafe {
            let pointer = self.value::<*const T>(at);
            (!pointer.is_null()).then(|| pointer.read_unaligned())
        }
    }

    /// # Safety
    ///
    /// The call must belong to a row with this effect.
    unsafe fn fact(&self, does: &Does) -> Option<Fact> {
        // SAFETY: the caller upholds the contract, because the row gives the offsets and types of
        // the parameters.
        unsafe {
            match *does {
                Does::Makes { .. } => self.made(does),
                Does::Registers => Some(Fact::Made {
                    kind: Kind::Registered,
                    value: if self.error == 0 { self.value(0) } else { 0 },
                    bytes: Some(self.value(8)),
                    place: if self.error == 0 {
                        Where::Host
                    } else {
                        Where::Unsaid
                    },
                    error: self.error,
                }),
                Does::Frees { space, value, bits } => {
                    let value = match bits {
                        32 => u64::from(self.value::<u32>(value)),
                        _ => self.value(value),
                    };
                    if self.error == 0 {
                        self.there().remove(&value);
                    }
                    let freed = Fact::Freed {
                        space,
                        value,
                        error: self.error,
                    };
                    (value != 0).then_some(freed)
                }
                _ if self.error != 0 => None,
                Does::RetainsPrimary { device } => Some(Fact::Primary {
                    device: self.value(device),
                    released: false,
                }),
                Does::ReleasesPrimary { device } => Some(Fact::Primary {
                    device: self.value(device),
                    released: true,
                }),
                Does::Maps => Some(Fact::Mapped {
                    address: self.value(0),
                    bytes: self.value(8),
                    handle: self.value(24),
                }),
                Does::RetainsMapped => Some(Fact::Handle {
                    value: self.pointed(0)?,
                    address: self.value(8),
                }),
            }
        }
    }

    fn there(&self) -> std::sync::MutexGuard<'_, BTreeSet<u64>> {
        let there = &self.listener.there;
        there.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// # Safety
    ///
    /// The same conditions as for [`Self::fact`], but for a row that creates something.
    unsafe fn made(&self, does: &Does) -> Option<Fact> {
        let Does::Makes {
            kind,
            space,
            answer,
            bits,
            size,
            place,
            again,
        } = *does
        else {
            return None;
        };
        // SAFETY: the caller upholds the contract, and results are read only after success.
        unsafe {
            if self.error != 0 {
                // `WRONG_THREAD` means that this thread is not allowed to end the capture.
                let is_reported =
                    !(again && kind == Kind::GraphHandle && self.error == WRONG_THREAD);
                let size = match size {
                    Size::Of64(_) | Size::Of32(_) | Size::None => self.bytes(size),
                    _ => None,
                };
                let failed = Fact::Made {
                    kind,
                    value: 0,
                    bytes: size,
                    place: Where::Unsaid,
                    error: self.error,
                };
                return is_reported.then_some(failed);
            }
            let value = match bits {
                32 => u64::from(self.pointed::<u32>(answer)?),
                _ => self.pointed::<u64>(answer)?,
            };
            let is_there = matches!(space, Space::Handle(_) | Space::DevicePointer)
                && !self.there().insert(value);
            if value == 0 || again && is_there {
                return None;
            }
            Some(Fact::Made {
                kind,
                value,
                bytes: self.bytes(size),
                place: self.place(place),
                error: 0,
            })
        }
    }

    /// # Safety
    ///
    /// The same conditions as for [`Self::fact`].
    unsafe fn bytes(&self, size: Size) -> Option<u64> {
        // SAFETY: the caller upholds the contract.
        unsafe {
            match size {
                Size::None => Some(0),
                Size::Unsaid => None,
                Size::Of64(at) => Some(self.value(at)),
                Size::Of32(at) => Some(self.value::<u32>(at).into()),
                Size::Rows64 { pitch, height } => {
                    Some(self.pointed::<u64>(pitch)? * self.value::<u64>(height))
                }
                Size::Rows32 { pitch, height } => {
                    let (pitch, height) = (self.pointed::<u32>(pitch)?, self.value::<u32>(height));
                    Some(u64::from(pitch) * u64::from(height))
                }
                Size::Buffer(at) => Some(self.pointed::<[u64; 2]>(at)?[1]),
            }
        }
    }

    /// # Safety
    ///
    /// The same conditions as for [`Self::fact`].
    unsafe fn place(&self, place: Place) -> Where {
        // SAFETY: the caller upholds the contract.
        unsafe {
            match place {
                Place::Host => Where::Host,
                Place::Unsaid => Where::Unsaid,
                Place::Device(at) => Where::Device(self.value(at)),
                // `allocType`, `handleTypes`, and the location, which is a type (1 for a device)
                // and an ordinal.
                Place::Properties(at) => match self.pointed::<[u32; 4]>(at) {
                    Some([_, _, 1, device]) => Where::Device(device),
                    _ => Where::Unsaid,
                },
                Place::Context if self.context.is_null() => Where::Unsaid,
                Place::Context => {
                    let mut device = 0;
                    let error = (self.listener.functions.device_of)(self.context, &raw mut device);
                    if error == 0 {
                        Where::Device(device)
                    } else {
                        Where::Unsaid
                    }
                }
            }
        }
    }
}
