//! Locks and conditions of this crate, from one place, so that a model checker can stand in for the threads.
//!
//! Outside of the feature `model` these are parking_lot's, and the standard library's in [`plain`]. With it they belong to
//! shuttle, which runs the threads of a test one at a time and lets a seed choose who goes on at every lock, wait and
//! yield: orders that real threads meet once in a million runs (`tests/interleavings.rs`). Atomics are the real ones: they
//! are no places where another thread may come in, and all threads see them in one order.

#[cfg(not(feature = "model"))]
pub use parking_lot::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
#[cfg(not(feature = "model"))]
pub use std::thread::yield_now;

/// Conditions that wake everybody by one system call.
pub mod plain {
    #[cfg(feature = "model")]
    pub use shuttle::sync::{Condvar, Mutex};
    #[cfg(not(feature = "model"))]
    pub use std::sync::{Condvar, Mutex};
}

#[cfg(feature = "model")]
pub use model::{Condvar, Mutex, MutexGuard, RwLock};
#[cfg(feature = "model")]
pub use shuttle::sync::{RwLockReadGuard, RwLockWriteGuard};
#[cfg(feature = "model")]
pub use shuttle::thread::yield_now;

/// parking_lot's interface, as far as it is used here, over shuttle's locks. A thread that panics ends the test, so
/// poison is never met.
#[cfg(feature = "model")]
mod model {
    use shuttle::sync;
    use std::ops::{Deref, DerefMut};
    use std::sync::{PoisonError, TryLockError};
    use std::time::Duration;

    /// The model checker's mutex in the form of parking_lot's: without poisoning.
    #[derive(Debug, Default)]
    pub struct Mutex<T>(sync::Mutex<T>);

    /// Unlocks when it is dropped.
    pub struct MutexGuard<'a, T> {
        mutex: &'a sync::Mutex<T>,
        /// Empty only while a condition waits.
        held: Option<sync::MutexGuard<'a, T>>,
    }

    impl<T> Mutex<T> {
        /// An unlocked mutex.
        pub fn new(value: T) -> Mutex<T> {
            Mutex(sync::Mutex::new(value))
        }

        /// Waits for the mutex; the model checker decides which thread goes on.
        pub fn lock(&self) -> MutexGuard<'_, T> {
            self.held(self.0.lock().unwrap_or_else(PoisonError::into_inner))
        }

        /// The guard, if the mutex is free.
        pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            match self.0.try_lock() {
                Ok(guard) => Some(self.held(guard)),
                Err(TryLockError::Poisoned(error)) => Some(self.held(error.into_inner())),
                Err(TryLockError::WouldBlock) => None,
            }
        }

        fn held<'a>(&'a self, guard: sync::MutexGuard<'a, T>) -> MutexGuard<'a, T> {
            MutexGuard {
                mutex: &self.0,
                held: Some(guard),
            }
        }

        /// The value, which nobody else can have borrowed.
        pub fn get_mut(&mut self) -> &mut T {
            self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
        }
    }

    impl<T> Deref for MutexGuard<'_, T> {
        type Target = T;
        fn deref(&self) -> &T {
            self.held.as_ref().expect("no condition waits")
        }
    }

    impl<T> DerefMut for MutexGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.held.as_mut().expect("no condition waits")
        }
    }

    /// A guard may be kept as `impl Drop`, as parking_lot's.
    impl<T> Drop for MutexGuard<'_, T> {
        fn drop(&mut self) {
            self.held = None;
        }
    }

    /// The model checker's condition variable, for guards of this module.
    #[derive(Debug, Default)]
    pub struct Condvar(sync::Condvar);

    impl Condvar {
        /// A condition that no thread waits for.
        pub fn new() -> Condvar {
            Condvar(sync::Condvar::new())
        }

        /// Unlocks, waits for a notification, and locks again.
        pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
            let held = guard.held.take().expect("no other condition waits");
            let held = self.0.wait(held);
            guard.held = Some(held.unwrap_or_else(PoisonError::into_inner));
        }

        /// The time is over as soon as the others have had a turn.
        pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _: Duration) {
            guard.held = None;
            super::yield_now();
            let held = guard.mutex.lock();
            guard.held = Some(held.unwrap_or_else(PoisonError::into_inner));
        }

        /// Wakes one waiting thread, if there is one.
        pub fn notify_one(&self) {
            self.0.notify_one();
        }

        /// Wakes all waiting threads.
        pub fn notify_all(&self) {
            self.0.notify_all();
        }
    }

    /// The model checker's reader-writer lock, without poisoning.
    #[derive(Debug, Default)]
    pub struct RwLock<T>(sync::RwLock<T>);

    /// Turns of the others before a bounded wait for a latch is over.
    const TRIES: usize = 3;

    impl<T> RwLock<T> {
        /// An unlocked lock.
        pub fn new(value: T) -> RwLock<T> {
            RwLock(sync::RwLock::new(value))
        }

        /// Waits until no thread writes.
        pub fn read(&self) -> sync::RwLockReadGuard<'_, T> {
            self.0.read().unwrap_or_else(PoisonError::into_inner)
        }

        /// Waits until no thread reads or writes.
        pub fn write(&self) -> sync::RwLockWriteGuard<'_, T> {
            self.0.write().unwrap_or_else(PoisonError::into_inner)
        }

        /// Without waiting; `None` while another thread reads or writes.
        pub fn try_write(&self) -> Option<sync::RwLockWriteGuard<'_, T>> {
            self.0.try_write().ok()
        }

        /// Tries a fixed number of times in place of a time, of which the model checker knows nothing.
        pub fn try_read_for(&self, _: Duration) -> Option<sync::RwLockReadGuard<'_, T>> {
            for _ in 0..TRIES {
                match self.0.try_read() {
                    Ok(guard) => return Some(guard),
                    Err(_) => super::yield_now(),
                }
            }
            None
        }
    }
}
