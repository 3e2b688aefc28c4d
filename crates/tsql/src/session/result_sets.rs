//! EXECUTE .. WITH RESULT SETS: the columns that a client is promised, whatever the module sends.
//!
//! Theory: the sets are described before the module runs. When it sends the columns of a result, the client gets those
//! of the description instead, and each value is converted as an assignment would. Too many or too few sets or columns,
//! types that do not convert and NULLs where none are allowed are errors 11535 to 11538 and 11553.

use super::execution::Execution;
use super::fail::Step;
use crate::error::{Result, SqlError};
use crate::host::Host;
use crate::messages;
use crate::sink::OutputColumn;
use daruma_syntax::ast::{ResultColumn, ResultSet, ResultSets};
use daruma_value::types::check_implicit;
use daruma_value::{CollationId, DataType, Value};
use std::cell::Cell;

pub(crate) struct DescribedSets {
    sets: Vec<Vec<OutputColumn>>,
    /// How many the module has sent.
    sent: usize,
    /// An error was told already.
    failed: Cell<bool>,
    /// Types of the columns that the module sends now.
    from: Vec<DataType>,
}

impl Execution<'_> {
    /// Runs `work` with its result sets described; `None` and UNDEFINED leave them as they are.
    pub(super) fn with_result_sets(
        &self,
        written: Option<&ResultSets>,
        work: impl FnOnce() -> Step<()>,
    ) -> Step<()> {
        let sets = match written {
            None | Some(ResultSets::Undefined) => return work(),
            Some(ResultSets::None) => Ok(Vec::new()),
            Some(ResultSets::Defined(sets)) => sets.iter().map(|s| self.result_set(s)).collect(),
        };
        let sets: Vec<Vec<OutputColumn>> = sets.map_err(|e| self.fail(e))?;
        if self.described.borrow().is_some() {
            let what = "WITH RESULT SETS inside an EXECUTE WITH RESULT SETS";
            return Err(self.fail(messages::not_supported(what)));
        }
        let wanted = sets.len();
        *self.described.borrow_mut() = Some(DescribedSets {
            sets,
            sent: 0,
            failed: Cell::new(false),
            from: Vec::new(),
        });
        let result = work();
        let described = self.described.borrow_mut().take();
        result?;
        let failed = described.as_ref().is_some_and(|d| d.failed.get());
        match described.map_or(0, |d| d.sent) {
            sent if sent < wanted && !failed => {
                Err(self.fail(messages::error(11_536, &[&wanted, &sent])))
            }
            _ => Ok(()),
        }
    }

    fn result_set(&self, set: &ResultSet) -> Result<Vec<OutputColumn>> {
        match set {
            ResultSet::Columns(columns) => columns.iter().map(|c| self.result_column(c)).collect(),
            ResultSet::AsObject(_) | ResultSet::AsType(_) | ResultSet::AsForXml => Err(
                messages::not_supported("WITH RESULT SETS with AS OBJECT, AS TYPE or AS FOR XML"),
            ),
        }
    }

    fn result_column(&self, column: &ResultColumn) -> Result<OutputColumn> {
        let (data_type, nullable, _) = self.type_of(&column.data_type)?;
        let collation = match &column.collation {
            Some(name) => CollationId::from_name(&name.text)
                .ok_or_else(|| messages::error(448, &[&name.text]))?,
            None => self.collation(self.current_database()),
        };
        Ok(OutputColumn {
            name: column.name.text.clone(),
            data_type,
            collation,
            nullable: column.nullable.or(nullable).unwrap_or(true),
            identity: false,
            computed: true,
        })
    }
}

impl DescribedSets {
    /// The described columns for a result of these columns.
    pub fn begin(&mut self, columns: &[OutputColumn]) -> Result<&[OutputColumn]> {
        self.failed.set(true);
        let number = self.sent + 1;
        let Some(described) = self.sets.get(self.sent) else {
            return Err(messages::error(11_535, &[&self.sets.len()]));
        };
        if described.len() != columns.len() {
            return Err(messages::error(
                11_537,
                &[&described.len(), &number, &columns.len()],
            ));
        }
        for (position, (to, from)) in described.iter().zip(columns).enumerate() {
            check_implicit(from.data_type, to.data_type)
                .map_err(|_| no_conversion(position + 1, number, from, to))?;
        }
        self.from = columns.iter().map(|c| c.data_type).collect();
        self.sent = number;
        self.failed.set(false);
        Ok(described)
    }

    /// The row converted to the result set it belongs to; a NULL where WITH RESULT SETS says NOT NULL is error 11553.
    pub fn row(&self, row: &[Value], ex: &Execution<'_>) -> Result<Vec<Value>> {
        let columns = self.sent.checked_sub(1).and_then(|at| self.sets.get(at));
        let columns = columns.map_or(&[][..], Vec::as_slice);
        let cells = row.iter().zip(columns).zip(&self.from).enumerate();
        let convert =
            |(position, ((value, to), from)): (usize, ((&Value, &OutputColumn), &DataType))| {
                if value.is_null() && !to.nullable {
                    return Err(messages::error(11_553, &[&(position + 1), &self.sent]));
                }
                super::convert::assign(value.clone(), *from, to.data_type, ex)
            };
        cells.map(convert).collect()
    }
}

fn no_conversion(
    position: usize,
    number: usize,
    from: &OutputColumn,
    to: &OutputColumn,
) -> SqlError {
    messages::error(
        11_538,
        &[&to.data_type, &position, &number, &from.data_type],
    )
}
