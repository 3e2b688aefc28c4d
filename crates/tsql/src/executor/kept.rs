//! Plans that the cache keeps for further executions, whatever they are plans of.

use super::api::{ConditionPlan, ScalarPlan, SelectPlan};
use crate::instance::query_stats::QueryStats;
use crate::showplan::Picture;
use std::any::Any;
use std::sync::Arc;

/// A plan in the cache: of a query, of a data change, or of an expression.
pub trait KeptPlan: Any + Send + Sync {
    /// The tables have grown or shrunk so much that another plan may be better.
    fn is_outdated(&self) -> bool;

    /// Cost of the executions; statements count them, expressions do not.
    fn stats(&self) -> Option<&QueryStats> {
        None
    }

    /// The operators, for those who show them; `None` of what has none.
    fn picture(&self) -> Option<Picture<'_>> {
        None
    }

    /// For the cache's reader, which knows the kind that it put there.
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

impl KeptPlan for SelectPlan {
    fn is_outdated(&self) -> bool {
        self.plan().is_outdated()
    }

    fn stats(&self) -> Option<&QueryStats> {
        Some(SelectPlan::stats(self))
    }

    fn picture(&self) -> Option<Picture<'_>> {
        Some(SelectPlan::picture(self))
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

impl KeptPlan for ScalarPlan {
    fn is_outdated(&self) -> bool {
        self.plan().is_outdated()
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

impl KeptPlan for ConditionPlan {
    fn is_outdated(&self) -> bool {
        self.plan().is_outdated()
    }

    fn picture(&self) -> Option<Picture<'_>> {
        ConditionPlan::picture(self)
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}
