//! The WHERE of a filtered index: comparisons of columns with constants, IN lists and IS [NOT] NULL, joined by AND.
//!
//! The parser has refused other connectives. Here: whether each comparison is one the product takes (10735), and
//! whether the column may be compared with that constant (10609, 10611, 10619, 10620).

use super::definition;
use super::table::Builder;
use crate::error::{Result, SqlError};
use crate::executor::{prepare_condition, prepare_scalar};
use crate::messages;
use daruma_catalog::ColumnDef;
use daruma_syntax::ast::{Condition, Expr, Literal, UnaryOp};
use daruma_value::DataType;
use daruma_value::types::precedence;

/// Checks the filter of an index; gives its text as the catalog keeps it.
pub(super) fn checked(
    builder: &Builder<'_, '_>,
    index: &str,
    condition: &Condition,
) -> Result<String> {
    let check = Check { builder, index };
    check.condition(condition)?;
    prepare_condition(condition, &builder.full_scope(), builder.ex)?;
    Ok(definition::filter(condition))
}

struct Check<'c, 'e, 'a> {
    builder: &'c Builder<'e, 'a>,
    index: &'c str,
}

impl Check<'_, '_, '_> {
    fn condition(&self, condition: &Condition) -> Result<()> {
        match condition {
            Condition::And(parts) => parts.iter().try_for_each(|part| self.condition(part)),
            Condition::Compare { left, right, .. } => {
                let column = self.column(left)?;
                self.constant(column, right)
            }
            Condition::InList {
                expr,
                list,
                negated: false,
            } => {
                let column = self.column(expr)?;
                list.iter().try_for_each(|item| self.constant(column, item))
            }
            Condition::IsNull { expr, .. } => self.column(expr).map(|_| ()),
            _ => Err(self.incorrect()),
        }
    }

    fn column(&self, expr: &Expr) -> Result<&ColumnDef> {
        let Expr::Column(column) = expr else {
            return Err(self.incorrect());
        };
        let name = &column.name.text;
        let found = self.builder.def.column_named(name);
        let found = found.ok_or_else(|| messages::error(207, &[name]))?;
        if found.computed.is_some() {
            return Err(self.refused(10609, &found.name));
        }
        match found.data_type {
            DataType::HierarchyId | DataType::Geography | DataType::Geometry => {
                Err(self.refused(10619, &found.name))
            }
            _ => Ok(found),
        }
    }

    fn constant(&self, column: &ColumnDef, value: &Expr) -> Result<()> {
        if matches!(value, Expr::Literal(Literal::Null)) {
            return Err(messages::error(
                10620,
                &[&"index", &self.index, &self.builder.written],
            ));
        }
        if !is_constant(value) {
            return Err(self.incorrect());
        }
        let plan = prepare_scalar(value, &self.builder.full_scope(), self.builder.ex)?;
        let constant = plan.data_type();
        if must_convert(column.data_type, constant) {
            let (index, table) = (&self.index, &self.builder.written);
            let name = &column.name;
            return Err(messages::error(
                10611,
                &[&"index", index, table, name, &"indexes", name],
            ));
        }
        Ok(())
    }

    fn incorrect(&self) -> SqlError {
        messages::error(10735, &[&"index", &self.index, &self.builder.written])
    }

    fn refused(&self, number: i32, column: &str) -> SqlError {
        let (index, table) = (&self.index, &self.builder.written);
        messages::error(number, &[&"index", index, table, &column])
    }
}

fn is_constant(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(_) => true,
        Expr::Unary {
            op: UnaryOp::Minus | UnaryOp::Plus,
            expr,
        }
        | Expr::Cast { expr, .. }
        | Expr::Convert { expr, .. } => is_constant(expr),
        _ => false,
    }
}

/// Would the column, and not the constant, be converted for the comparison?
fn must_convert(column: DataType, constant: DataType) -> bool {
    use DataType::{Char, NChar, NVarChar, VarChar};
    let together = column.is_numeric() && constant.is_numeric()
        || column.is_binary() && constant.is_binary()
        || matches!(
            (column, constant),
            (Char(_) | VarChar(_), Char(_) | VarChar(_))
                | (NChar(_) | NVarChar(_), NChar(_) | NVarChar(_))
        );
    !together && precedence(constant) > precedence(column)
}
