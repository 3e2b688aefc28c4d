//! sp_addextendedproperty, sp_updateextendedproperty and sp_dropextendedproperty.
//!
//! The levels of a name (`SCHEMA dbo, TABLE t, COLUMN c`) are looked up by [`crate::session::Located`].

use super::define::Procedure;
use crate::error::{Result, SqlError};
use crate::messages;
use crate::session::{Level, Located, SystemCall, locate};
use daruma_catalog::{Change, PropertyDef, PropertySet, PropertyValue, Put, names_equal};
use daruma_storage::LockMode;
use daruma_value::convert::{ConvertContext, convert};
use daruma_value::{DataType, Value};

pub(super) const PROCEDURES: &[Procedure] = &[
    Procedure::native("sp_addextendedproperty", WITH_VALUE, add),
    Procedure::native("sp_updateextendedproperty", WITH_VALUE, update),
    Procedure::native("sp_dropextendedproperty", WITHOUT_VALUE, remove),
];

const WITH_VALUE: &str = "
    @name sysname; @value sql_variant = NULL; @level0type varchar(128) = NULL; @level0name sysname = NULL;
    @level1type varchar(128) = NULL; @level1name sysname = NULL; @level2type varchar(128) = NULL; @level2name sysname = NULL";
const WITHOUT_VALUE: &str = "
    @name sysname; @level0type varchar(128) = NULL; @level0name sysname = NULL; @level1type varchar(128) = NULL;
    @level1name sysname = NULL; @level2type varchar(128) = NULL; @level2name sysname = NULL";

/// Longest value.
const VALUE_BYTES_MAX: usize = 7_500;

fn add(call: &SystemCall<'_, '_>) -> Result<i32> {
    let name = property_name(call, "sp_addextendedproperty")?;
    let value = stored_value(call.arg(1))?;
    change(call, "sp_addextendedproperty", 2, |list, at| {
        if position(list, at.minor, &name).is_some() {
            return Err(messages::error_state(15233, 1, &[&name, &at.shown]));
        }
        list.push(PropertyDef {
            minor: at.minor,
            name: name.clone(),
            value: value.clone(),
        });
        Ok(())
    })
}

fn update(call: &SystemCall<'_, '_>) -> Result<i32> {
    let name = property_name(call, "sp_updateextendedproperty")?;
    let value = stored_value(call.arg(1))?;
    change(call, "sp_updateextendedproperty", 2, |list, at| {
        let found = position(list, at.minor, &name).and_then(|p| list.get_mut(p));
        let found = found.ok_or_else(|| missing(&name, at))?;
        found.value = value.clone();
        Ok(())
    })
}

fn remove(call: &SystemCall<'_, '_>) -> Result<i32> {
    let name = property_name(call, "sp_dropextendedproperty")?;
    change(call, "sp_dropextendedproperty", 1, |list, at| {
        let found = position(list, at.minor, &name).ok_or_else(|| missing(&name, at))?;
        list.remove(found);
        Ok(())
    })
}

fn property_name(call: &SystemCall<'_, '_>, procedure: &str) -> Result<String> {
    let name = call.text(0).filter(|name| !name.is_empty());
    name.ok_or_else(|| messages::error(15600, &[&procedure]))
}

fn missing(name: &str, at: &Located) -> SqlError {
    messages::error(15217, &[&name, &at.shown])
}

fn position(list: &[PropertyDef], minor: i32, name: &str) -> Option<usize> {
    list.iter()
        .position(|p| p.minor == minor && names_equal(&p.name, name))
}

/// Finds what the levels from argument `first` on name, and changes its list.
fn change(
    call: &SystemCall<'_, '_>,
    procedure: &str,
    first: usize,
    work: impl Fn(&mut Vec<PropertyDef>, &Located) -> Result<()>,
) -> Result<i32> {
    let levels: Vec<Level> = (0..3)
        .map(|n| Level {
            kind: call
                .text(first + n * 2)
                .map(|t| t.trim().to_ascii_uppercase()),
            name: call.text(first + n * 2 + 1),
        })
        .collect();
    let ex = call.execution;
    let work = || {
        let located = locate(ex, call.database, procedure, &levels)?;
        located.check(ex, call.database)?;
        // Its object comes first, as for those who change or drop that.
        if let Some(object) = located.object_id() {
            let open = ex.instance().open_database(call.database)?;
            ex.lock_schema(&open.storage, object)?;
        }
        ex.lock_properties(call.database, located.class, located.major)?;
        // It may have gone meanwhile, and something else have its name, which is asked for and locked as the statement begins anew.
        let before = (located.class, located.major);
        let located = locate(ex, call.database, procedure, &levels)?;
        if (located.class, located.major) != before {
            return Err(messages::error(2801, &[&located.shown]));
        }
        located.check(ex, call.database)?;
        let catalog = ex.state.catalog(call.database)?;
        let known = catalog.properties_of(located.class, located.major);
        let mut list = known.map_or(Vec::new(), |set| set.list.clone());
        work(&mut list, &located)?;
        let event = match procedure {
            "sp_addextendedproperty" => "CREATE_EXTENDED_PROPERTY",
            "sp_updateextendedproperty" => "ALTER_EXTENDED_PROPERTY",
            _ => "DROP_EXTENDED_PROPERTY",
        };
        let property = call.text(0).unwrap_or_default();
        let event = ex.event_of_property(event, call.database, (&property, &located.shown));
        let told = ex.told_of_events(event.into_iter().collect())?;
        let set = PropertySet {
            class: located.class,
            major: located.major,
            list,
        };
        ex.state
            .change(call.database, Change::PutProperties(Put::of(known, set)))?;
        ex.fire(
            &told,
            &format!("EXEC {procedure} N'{}'", property.replace('\'', "''")),
        )
    };
    ex.with_definitions(call.database, LockMode::Shared, || ex.atomic(work))?;
    Ok(0)
}

/// The value as text of its own type. Error 15097 when it is too long.
fn stored_value(value: &Value) -> Result<Option<PropertyValue>> {
    let Value::Variant(variant) = value else {
        return Ok(None);
    };
    let data_type = variant.data_type;
    let bytes = match &variant.value {
        Value::Str(text) if matches!(data_type, DataType::NVarChar(_) | DataType::NChar(_)) => {
            text.encode_utf16().count() * 2
        }
        Value::Str(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        _ => 0,
    };
    if bytes > VALUE_BYTES_MAX {
        return Err(messages::error(15097, &[]));
    }
    let style = text_style(data_type);
    let context = ConvertContext::default();
    let text = convert(
        &variant.value,
        data_type,
        DataType::NVARCHAR_MAX,
        style,
        &context,
    )?;
    Ok(match text {
        Value::Str(text) => Some(PropertyValue {
            data_type,
            text: text.to_string(),
        }),
        _ => None,
    })
}

/// The style that writes every digit, and in which the text is read again.
pub(crate) fn text_style(data_type: DataType) -> Option<i32> {
    match data_type {
        t if t.is_binary() => Some(1),
        t if t.is_temporal() => Some(121),
        DataType::Float | DataType::Real => Some(3),
        DataType::Money | DataType::SmallMoney => Some(2),
        _ => None,
    }
}
