//! Opaque handles. They are unique among live objects. After a destroy they are reused immediately,
//! newest first, like the real driver's heap pointers.

use std::collections::HashMap;

/// A `CUcontext`, `CUstream`, `CUevent` and so on: a pointer-sized value that has no meaning to
/// its holder.
pub(crate) type Handle = u64;

/// The live objects of one kind.
#[derive(Debug)]
pub(crate) struct Table<T> {
    live: HashMap<Handle, T>,
    free: Vec<Handle>,
    /// The next number, if handles are numbers instead of addresses.
    next: Option<Handle>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self {
            live: HashMap::new(),
            free: Vec::new(),
            next: None,
        }
    }
}

impl<T> Table<T> {
    /// A table whose handles are numbers from 1, so two such tables can contain equal handles.
    pub(crate) fn numbered() -> Self {
        Self {
            next: Some(1),
            ..Self::default()
        }
    }

    pub(crate) fn insert(&mut self, object: T) -> Handle {
        let handle = self.free.pop().unwrap_or_else(|| match &mut self.next {
            Some(next) => {
                *next += 1;
                *next - 1
            }
            // A real heap address cannot equal a handle of another table or a device address.
            None => std::ptr::from_mut(Box::leak(Box::new([0_u8; 64]))) as u64,
        });
        self.live.insert(handle, object);
        handle
    }

    pub(crate) fn remove(&mut self, handle: Handle) -> Option<T> {
        let object = self.live.remove(&handle)?;
        self.free.push(handle);
        Some(object)
    }

    pub(crate) fn get(&self, handle: Handle) -> Option<&T> {
        self.live.get(&handle)
    }

    pub(crate) fn get_mut(&mut self, handle: Handle) -> Option<&mut T> {
        self.live.get_mut(&handle)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Handle, &T)> {
        self.live.iter().map(|(&handle, object)| (handle, object))
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.live.values_mut()
    }

    pub(crate) fn len(&self) -> usize {
        self.live.len()
    }

    /// Destroys every object for which `doomed` returns true, as the end of a context does.
    pub(crate) fn remove_where(&mut self, doomed: impl Fn(&T) -> bool) {
        let handles: Vec<Handle> = self
            .iter()
            .filter(|(_, object)| doomed(object))
            .map(|(handle, _)| handle)
            .collect();
        for handle in handles {
            self.remove(handle);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destroyed_handle_is_the_next_one_given_out() {
        let mut table = Table::default();
        let (first, second) = (table.insert(1), table.insert(2));
        assert_ne!(first, second);
        assert_eq!(table.remove(first), Some(1));
        assert_eq!(table.remove(first), None);
        assert_eq!(table.insert(3), first);
        assert_eq!(table.len(), 2);
    }

    #[test]
    fn numbers_begin_at_one_and_come_back_too() {
        let mut table = Table::numbered();
        assert_eq!((table.insert(()), table.insert(())), (1, 2));
        table.remove(1);
        assert_eq!((table.insert(()), table.insert(())), (1, 3));
    }
}
