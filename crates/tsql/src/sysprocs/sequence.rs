//! sp_sequence_get_range.

use super::define::{Procedure, integer};
use crate::error::Result;
use crate::messages;
use crate::session::SystemCall;
use daruma_syntax::{ParseOptions, parse_object_name};
use daruma_value::Value;

pub(super) const PROCEDURES: &[Procedure] = &[Procedure::native(
    "sp_sequence_get_range",
    "@sequence_name nvarchar(776); @range_size bigint; @range_first_value sql_variant output;
    @range_last_value sql_variant = NULL output; @range_cycle_count int = NULL output;
    @sequence_increment sql_variant = NULL output; @sequence_min_value sql_variant = NULL output;
    @sequence_max_value sql_variant = NULL output",
    get_range,
)];

fn get_range(call: &SystemCall<'_, '_>) -> Result<i32> {
    let text = call.text(0).unwrap_or_default();
    let name = parse_object_name(&text, &ParseOptions::default());
    let name = name.map_err(|_| messages::error(208, &[&text]))?;
    let size = integer(call, 1).filter(|size| *size > 0);
    let size = size.ok_or_else(|| messages::error(11732, &[&text]))?;
    let range = call.execution.take_sequence_range(&name, size)?;
    call.set_output(2, range.variant(range.first)?);
    call.set_output(3, range.variant(range.last)?);
    let cycles = i32::try_from(range.cycles).unwrap_or(i32::MAX);
    call.set_output(4, Value::Int(cycles));
    call.set_output(5, range.variant(range.sequence.increment)?);
    call.set_output(6, range.variant(range.sequence.minimum)?);
    call.set_output(7, range.variant(range.sequence.maximum)?);
    Ok(0)
}
