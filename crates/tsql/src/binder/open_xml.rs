//! OPENXML as a source: columns of its WITH clause, or those of a table that it names.

use super::for_xml::encoded;
use super::tree::*;
use super::{Binder, types, unsupported};
use crate::error::Result;
use crate::executor::{OpenXml, XmlColumn};
use crate::host::Resolved;
use crate::messages;
use crate::sink::OutputColumn;
use daruma_syntax::ast::{self, Ident, ObjectName, Rowset, SchemaColumn};
use daruma_value::{CollationId, DataType};
use std::sync::Arc;

impl Binder<'_> {
    /// A rowset function, of which OPENXML is the only one.
    pub(super) fn rowset(&mut self, rowset: &Rowset) -> Result<Rel> {
        match rowset {
            Rowset::OpenXml {
                args,
                schema,
                table,
                alias,
            } => self.open_xml(args, schema, table.as_ref(), alias.as_ref()),
            _ => Err(unsupported("A rowset function")),
        }
    }

    fn open_xml(
        &mut self,
        args: &[ast::Expr],
        schema: &[SchemaColumn],
        table: Option<&ObjectName>,
        alias: Option<&Ident>,
    ) -> Result<Rel> {
        let own = self.own_collation();
        let columns = match table {
            Some(table) => self.columns_of(table)?,
            None => schema
                .iter()
                .map(|column| self.schema_column(column, own))
                .collect::<Result<_>>()?,
        };
        let mut bound = Vec::with_capacity(args.len());
        for (at, arg) in args.iter().enumerate() {
            let wanted = match at {
                1 => DataType::NVARCHAR_MAX,
                _ => DataType::Int,
            };
            let arg = self.table_argument(arg)?;
            bound.push(match arg.is_null_literal() {
                true => Scalar::null(wanted),
                false => types::convert(arg, wanted)?,
            });
        }
        let name = ObjectName::bare(Ident::new("OPENXML"));
        let rows = Arc::new(OpenXml::new(columns, own));
        let bound = self.rows_of_builtin(&name, rows, &bound)?;
        self.named(bound, alias, &[])
    }

    fn schema_column(&mut self, column: &SchemaColumn, own: CollationId) -> Result<XmlColumn> {
        let data_type = self.type_name(&column.data_type, 1)?;
        let collation = match &column.collation {
            Some(name) => CollationId::from_name(&name.text)
                .ok_or_else(|| messages::error(448, &[&name.text]))?,
            None => own,
        };
        let name = &column.name.text;
        Ok(xml_column(name, data_type, collation, column.path.clone()))
    }

    fn columns_of(&mut self, table: &ObjectName) -> Result<Vec<XmlColumn>> {
        let Resolved::Table(table) = self.host.resolve(table)? else {
            return Err(unsupported("OPENXML WITH what is no table"));
        };
        let own = table.def.columns.iter().filter(|c| c.computed.is_none());
        Ok(own
            .map(|c| xml_column(&c.name, c.data_type, c.collation, None))
            .collect())
    }
}

fn xml_column(
    name: &str,
    data_type: DataType,
    collation: CollationId,
    pattern: Option<String>,
) -> XmlColumn {
    let parts: Vec<String> = name.split(':').map(encoded).collect();
    XmlColumn {
        output: OutputColumn {
            name: name.into(),
            data_type,
            collation,
            nullable: true,
            identity: false,
            computed: true,
        },
        pattern,
        name: parts.join(":"),
    }
}
