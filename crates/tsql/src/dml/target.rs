//! A table made ready for writing: its defaults, computed columns, checks and index filters as prepared expressions.
//!
//! Theory: a row travels through a statement as one `Value` for each column of the definition. `complete` turns the
//! values a statement gives into the values to store; the same order holds for every way a row can come about:
//! computed columns, then NOT NULL, then CHECK. Unique and foreign keys are looked at when the row is written.

use super::errors::{self, Verb};
use super::expr::{Evaluators, RowCondition, RowScalar};
use super::guard::Guard;
use crate::access::{TableAccess, damaged};
use crate::error::{Result, SqlError};
use crate::host::{Host, TableRef};
use daruma_catalog::{ColumnDef, IndexKind, TableDef};
use daruma_value::{DataType, Value};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, LazyLock, Weak};

/// A CHECK constraint that is enforced.
pub struct Check {
    /// Position in `TableDef::checks`.
    pub position: usize,
    condition: RowCondition,
    /// The condition in the plain form that most have.
    guards: Option<Vec<Guard>>,
    /// By column: may the condition read it?
    pub reads: Vec<bool>,
    /// Asked when the row is written: a function in it may count the rows of the table.
    is_late: bool,
}

impl Check {
    /// `None` is unknown, which satisfies a check.
    #[inline]
    pub fn test<'a>(
        &'a self,
        evaluators: &Evaluators<'a>,
        values: &[Value],
    ) -> Result<Option<bool>> {
        match &self.guards {
            Some(guards) if guards.iter().all(|g| g.holds(values)) => Ok(Some(true)),
            _ => self.condition.test(evaluators, values),
        }
    }
}

/// A computed column.
pub struct Computed {
    pub ordinal: usize,
    pub value: RowScalar,
    pub persisted: bool,
    pub reads: Vec<bool>,
}

/// Index filter; entries exist for rows that satisfy it.
struct Filter {
    condition: RowCondition,
    reads: Vec<bool>,
}

/// Rules of the definition for rows. Made once for each definition.
pub struct Rules {
    pub defaults: Vec<Option<RowScalar>>,
    pub computed: Vec<Computed>,
    pub checks: Vec<Check>,
    /// Parallel to `TableDef::indexes`.
    filters: Vec<Option<Filter>>,
    pub identity: Option<usize>,
    pub rowversion: Option<usize>,
    pub ignores_duplicates: bool,
    /// Can a row be so long that values move to blobs?
    pub has_movable_columns: bool,
    /// Does an index, a filter or a check read a computed column that is not stored?
    pub needs_virtual: bool,
}

/// A table with its rules. Cheap to make again.
pub struct Writable {
    pub access: TableAccess,
    rules: Arc<Rules>,
}

impl Deref for Writable {
    type Target = Rules;

    fn deref(&self) -> &Rules {
        &self.rules
    }
}

impl Rules {
    fn prepare(host: &dyn Host, table: &TableRef) -> Result<Rules> {
        let def = &table.def;
        let default = |c: &ColumnDef| {
            let definition = c.default.as_ref().map(|d| d.definition.as_str());
            definition
                .map(|d| RowScalar::default(host, table, d, c))
                .transpose()
        };
        let defaults = def
            .columns
            .iter()
            .map(default)
            .collect::<Result<Vec<_>>>()?;
        let mut computed = Vec::new();
        for (ordinal, column) in def.columns.iter().enumerate() {
            if let Some(c) = &column.computed {
                let value = RowScalar::over_table(host, table, &c.definition, column)?;
                let reads = columns_named(table, &c.definition);
                computed.push(Computed {
                    ordinal,
                    value,
                    persisted: c.persisted,
                    reads,
                });
            }
        }
        let mut checks = Vec::new();
        for (position, check) in def.checks.iter().enumerate().filter(|(_, c)| !c.disabled) {
            let condition = RowCondition::over_table(host, table, &check.definition)?;
            checks.push(Check {
                position,
                guards: Guard::all_of(&condition.parsed, def),
                is_late: condition.calls_functions(),
                condition,
                reads: columns_named(table, &check.definition),
            });
        }
        let filter = |text: &String| {
            let condition = RowCondition::over_table(host, table, text)?;
            Ok(Filter {
                condition,
                reads: columns_named(table, text),
            })
        };
        let filters = def
            .indexes
            .iter()
            .map(|i| i.filter.as_ref().map(filter).transpose());
        let is_virtual = |o: usize| {
            computed
                .iter()
                .any(|c: &Computed| c.ordinal == o && !c.persisted)
        };
        let reads_virtual =
            |reads: &[bool]| reads.iter().enumerate().any(|(o, r)| *r && is_virtual(o));
        let filters = filters.collect::<Result<Vec<_>>>()?;
        let indexed = def
            .indexes
            .iter()
            .filter(|i| i.kind == IndexKind::Nonclustered);
        let indexed = indexed.flat_map(|i| {
            i.key
                .iter()
                .map(|k| k.column_id)
                .chain(i.included.iter().copied())
        });
        let needs_virtual = indexed.filter_map(|id| def.ordinal(id)).any(is_virtual)
            || checks.iter().any(|c| reads_virtual(&c.reads))
            || filters.iter().flatten().any(|f| reads_virtual(&f.reads));
        Ok(Rules {
            defaults,
            computed,
            checks,
            filters,
            needs_virtual,
            identity: def.columns.iter().position(|c| c.is_identity),
            rowversion: def
                .columns
                .iter()
                .position(|c| c.data_type == DataType::RowVersion),
            ignores_duplicates: def.indexes.iter().any(|i| i.ignore_dup_key),
            has_movable_columns: crate::access::has_movable_columns(def),
        })
    }

    /// Rules by definition. Definitions are immutable and shared, so their address names them while they live.
    fn cached(host: &dyn Host, table: &TableRef) -> Result<Arc<Rules>> {
        type Cache = HashMap<usize, (Weak<TableDef>, Arc<Rules>)>;
        const CACHED_MAX: usize = 1024;
        static CACHE: LazyLock<Mutex<Cache>> = LazyLock::new(Mutex::default);
        let address = Arc::as_ptr(&table.def) as usize;
        let known = CACHE.lock().get(&address).cloned();
        if let Some((def, rules)) = known
            && def.upgrade().is_some_and(|d| Arc::ptr_eq(&d, &table.def))
        {
            return Ok(rules);
        }
        let rules = Arc::new(Rules::prepare(host, table)?);
        let mut cache = CACHE.lock();
        if cache.len() >= CACHED_MAX {
            cache.retain(|_, (def, _)| def.strong_count() > 0);
        }
        if cache.len() >= CACHED_MAX {
            cache.clear();
        }
        cache.insert(address, (Arc::downgrade(&table.def), rules.clone()));
        Ok(rules)
    }
}

impl Writable {
    /// The table with its rules, which are kept as long as its definition does not change.
    pub fn prepare(host: &dyn Host, table: &TableRef) -> Result<Writable> {
        Ok(Writable {
            access: TableAccess::new(table)?,
            rules: Rules::cached(host, table)?,
        })
    }

    /// The table itself.
    pub fn table(&self) -> &TableRef {
        &self.access.table
    }

    /// Columns of a row, computed ones included.
    pub fn width(&self) -> usize {
        self.access.def().columns.len()
    }

    /// Does the row have an entry in the index at `position`?
    pub fn is_member<'a>(
        &'a self,
        evaluators: &Evaluators<'a>,
        position: usize,
        values: &[Value],
    ) -> Result<bool> {
        match self.filters.get(position) {
            Some(Some(filter)) => Ok(filter.condition.test(evaluators, values)? == Some(true)),
            _ => Ok(true),
        }
    }

    /// Widens a set of assigned columns by the computed columns that depend on it and by the row's version.
    pub fn widen(&self, assigned: &mut [bool]) {
        if let Some(flag) = self.rowversion.and_then(|i| assigned.get_mut(i)) {
            *flag = true;
        }
        for computed in &self.computed {
            if overlap(&computed.reads, assigned)
                && let Some(flag) = assigned.get_mut(computed.ordinal)
            {
                *flag = true;
            }
        }
    }

    /// Which indexes an update of these columns can change, by position in `TableDef::indexes`. The first tells
    /// whether the row can move.
    pub fn touched_indexes(&self, changed: &[bool]) -> Vec<bool> {
        let has = |ordinal: usize| changed.get(ordinal).copied().unwrap_or(false);
        let moves = self.access.primary().key.iter().any(|k| has(k.ordinal));
        let touched = self.access.layouts.indexes.iter().enumerate().map(|(position, index)| {
            if index.def.kind != IndexKind::Nonclustered {
                return moves;
            }
            let filtered = matches!(self.filters.get(position), Some(Some(f)) if overlap(&f.reads, changed));
            moves || filtered || index.carried.iter().any(|o| has(*o))
        });
        touched.collect()
    }

    /// Fills virtual computed columns of a row that was read.
    pub fn compute_virtual<'a>(
        &'a self,
        evaluators: &Evaluators<'a>,
        values: &mut [Value],
    ) -> Result<()> {
        for computed in self.computed.iter().filter(|c| !c.persisted) {
            let value = computed.value.eval(evaluators, values)?;
            put(values, computed.ordinal, value)?;
        }
        Ok(())
    }

    /// Reads a stored row whole.
    pub fn decode<'a>(&'a self, evaluators: &Evaluators<'a>, payload: &[u8]) -> Result<Vec<Value>> {
        let mut values = Vec::with_capacity(self.width());
        self.access.decode_row(payload, &mut values)?;
        self.compute_virtual(evaluators, &mut values)?;
        Ok(values)
    }

    /// Computes what follows from the given values and checks what a row must satisfy by itself. `changed` limits the
    /// work to what an update can have changed; `None` is a new row. Computed columns that are not stored are left out
    /// unless `shown` or the table itself needs them.
    pub fn complete<'a>(
        &'a self,
        evaluators: &Evaluators<'a>,
        values: &mut [Value],
        changed: Option<&[bool]>,
        verb: Verb,
        shown: bool,
    ) -> Result<()> {
        for computed in &self.computed {
            let wanted = computed.persisted || shown || self.needs_virtual;
            if wanted && changed.is_none_or(|changed| overlap(&computed.reads, changed)) {
                let value = computed.value.eval(evaluators, values)?;
                put(values, computed.ordinal, value)?;
            }
        }
        self.check_not_null(values, changed, verb)?;
        self.check_conditions(evaluators, values, changed, verb)
    }

    /// Value of the column's DEFAULT; NULL without one.
    pub fn default_value<'a>(
        &'a self,
        evaluators: &Evaluators<'a>,
        ordinal: usize,
    ) -> Result<Value> {
        match self.defaults.get(ordinal) {
            Some(Some(default)) => default.eval(evaluators, &[]),
            _ => Ok(Value::Null),
        }
    }

    /// Does the column's DEFAULT call functions of users?
    pub fn default_calls(&self, ordinal: usize) -> bool {
        match self.defaults.get(ordinal) {
            Some(Some(default)) => default.calls_functions(),
            _ => false,
        }
    }

    /// Does the column's DEFAULT take values of a sequence?
    pub fn default_takes_next_value(&self, ordinal: usize) -> bool {
        match self.defaults.get(ordinal) {
            Some(Some(default)) => default.takes_next_value(),
            _ => false,
        }
    }

    /// Computes all computed columns.
    pub fn compute<'a>(&'a self, evaluators: &Evaluators<'a>, values: &mut [Value]) -> Result<()> {
        for computed in &self.computed {
            let value = computed.value.eval(evaluators, values)?;
            put(values, computed.ordinal, value)?;
        }
        Ok(())
    }

    /// 515 for a NULL that its column does not allow; `changed` leaves out the columns that were not written.
    pub fn check_not_null(
        &self,
        values: &[Value],
        changed: Option<&[bool]>,
        verb: Verb,
    ) -> Result<()> {
        for (ordinal, (column, value)) in self.access.def().columns.iter().zip(values).enumerate() {
            let checked = changed.is_none_or(|c| c.get(ordinal).copied().unwrap_or(false));
            let stored = column.computed.as_ref().is_none_or(|c| c.persisted);
            if checked && stored && value.is_null() && !column.nullable {
                return Err(errors::null_not_allowed(self.table(), &column.name, verb));
            }
        }
        Ok(())
    }

    /// 547 for a row that a check constraint refuses; only those that read a changed column are asked.
    pub fn check_conditions<'a>(
        &'a self,
        evaluators: &Evaluators<'a>,
        values: &[Value],
        changed: Option<&[bool]>,
        verb: Verb,
    ) -> Result<()> {
        self.check_those(false, evaluators, values, changed, verb)
    }

    /// Has it checks that are asked when a row is written?
    pub fn has_late_checks(&self) -> bool {
        self.checks.iter().any(|c| c.is_late)
    }

    /// As `check_conditions`, for the checks that are asked when the row is written.
    pub fn check_late<'a>(
        &'a self,
        evaluators: &Evaluators<'a>,
        values: &[Value],
        changed: Option<&[bool]>,
        verb: Verb,
    ) -> Result<()> {
        self.check_those(true, evaluators, values, changed, verb)
    }

    fn check_those<'a>(
        &'a self,
        late: bool,
        evaluators: &Evaluators<'a>,
        values: &[Value],
        changed: Option<&[bool]>,
        verb: Verb,
    ) -> Result<()> {
        for check in self.checks.iter().filter(|c| c.is_late == late) {
            if changed.is_none_or(|c| overlap(&check.reads, c))
                && check.test(evaluators, values)? == Some(false)
            {
                return Err(self.violation(check, verb));
            }
        }
        Ok(())
    }

    /// The error 547 that names the check.
    pub fn violation(&self, check: &Check, verb: Verb) -> SqlError {
        match self.access.def().checks.get(check.position) {
            Some(def) => errors::check_violation(self.table(), def, verb),
            None => damaged("no such check"),
        }
    }
}

/// Do both have a column in common?
pub fn overlap(a: &[bool], b: &[bool]) -> bool {
    a.iter().zip(b).any(|(a, b)| *a && *b)
}

fn put(values: &mut [Value], ordinal: usize, value: Value) -> Result<()> {
    *values
        .get_mut(ordinal)
        .ok_or_else(|| damaged("row too short"))? = value;
    Ok(())
}

/// Columns whose names stand in the text as whole words: every column that an expression reads, perhaps more.
fn columns_named(table: &TableRef, text: &str) -> Vec<bool> {
    let text = text.to_lowercase();
    table
        .def
        .columns
        .iter()
        .map(|c| has_word(&text, &c.name.to_lowercase()))
        .collect()
}

fn has_word(text: &str, word: &str) -> bool {
    let part_of_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '@' | '#' | '$');
    text.match_indices(word).any(|(at, found)| {
        let before = text.get(..at).and_then(|t| t.chars().next_back());
        let after = text.get(at + found.len()..).and_then(|t| t.chars().next());
        !before.is_some_and(part_of_name) && !after.is_some_and(part_of_name)
    })
}

#[cfg(test)]
mod tests {
    use super::has_word;

    #[test]
    fn names_are_found_as_whole_words() {
        assert!(has_word("([unitprice]>=(0))", "unitprice"));
        assert!(!has_word("([unitpricediscount]>=(0))", "unitprice"));
        assert!(has_word("(qty>0 and unitqty<1)", "qty"));
        assert!(!has_word("(unitqty<1)", "qty"));
    }
}
