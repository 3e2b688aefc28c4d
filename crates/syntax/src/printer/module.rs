//! Views, procedures, functions, triggers.

use super::statement::Statements;
use super::{Clause, Commas, Flag, Parens, switch};
use crate::ast::*;
use std::fmt::{self, Display, Formatter};

impl Display for DefineMode {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DefineMode::Create => "CREATE",
            DefineMode::CreateOrAlter => "CREATE OR ALTER",
            DefineMode::Alter => "ALTER",
        })
    }
}

impl Display for CreateView {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} VIEW {}{}",
            self.mode,
            self.name,
            Parens(&self.columns)
        )?;
        write!(
            f,
            "{} AS {}{}",
            self.options,
            self.query,
            Flag("WITH CHECK OPTION", self.check_option)
        )
    }
}

impl Display for CreateProcedure {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} PROCEDURE {}", self.mode, self.name)?;
        if let Some(number) = self.number {
            write!(f, ";{number}")?;
        }
        write!(f, "{}{}", Parens(&self.parameters), self.options)?;
        write!(
            f,
            "{} AS{}",
            Flag("FOR REPLICATION", self.for_replication),
            self.body
        )
    }
}

impl Display for ModuleBody {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            ModuleBody::Statements(statements) => write!(
                f,
                "\n{}",
                Statements {
                    statements,
                    depth: 0
                }
            ),
            ModuleBody::External(name) => write!(f, " EXTERNAL NAME {name}"),
        }
    }
}

impl Display for Parameter {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.data_type)?;
        f.write_str(super::table::nullability(self.nullable))?;
        write!(
            f,
            "{}{}",
            Clause("=", &self.default),
            Flag("OUTPUT", self.output)
        )?;
        write!(f, "{}", Flag("READONLY", self.read_only))
    }
}

impl Display for ParameterType {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            ParameterType::Named(data_type) => data_type.fmt(f),
            ParameterType::Cursor { varying } => write!(f, "CURSOR{}", Flag("VARYING", *varying)),
        }
    }
}

impl Display for ModuleOptions {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let flags = [
            ("NATIVE_COMPILATION", self.native_compilation),
            ("ENCRYPTION", self.encryption),
            ("SCHEMABINDING", self.schema_binding),
            ("VIEW_METADATA", self.view_metadata),
            ("RECOMPILE", self.recompile),
            (
                "RETURNS NULL ON NULL INPUT",
                self.returns_null_on_null_input == Some(true),
            ),
            (
                "CALLED ON NULL INPUT",
                self.returns_null_on_null_input == Some(false),
            ),
        ];
        let mut words: Vec<String> = flags
            .into_iter()
            .filter(|(_, set)| *set)
            .map(|(word, _)| word.to_owned())
            .collect();
        words.extend(
            self.execute_as
                .iter()
                .map(|context| format!("EXECUTE AS {context}")),
        );
        words.extend(
            self.inline
                .iter()
                .map(|on| format!("INLINE = {}", switch(*on))),
        );
        if words.is_empty() {
            Ok(())
        } else {
            write!(f, " WITH {}", words.join(", "))
        }
    }
}

impl Display for CreateFunction {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} FUNCTION {} ({}) RETURNS ",
            self.mode,
            self.name,
            Commas(&self.parameters)
        )?;
        write!(f, "{}{} AS {}", self.returns, self.options, self.body)
    }
}

impl Display for FunctionReturns {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            FunctionReturns::Scalar(data_type) => data_type.fmt(f),
            FunctionReturns::Table => f.write_str("TABLE"),
            FunctionReturns::TableVariable { name, definition } => {
                write!(f, "{name} TABLE {definition}")
            }
            FunctionReturns::TableDefinition(definition) => write!(f, "TABLE {definition}"),
        }
    }
}

impl Display for FunctionBody {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            FunctionBody::Statements(statements) => {
                write!(
                    f,
                    "BEGIN\n{}END",
                    Statements {
                        statements,
                        depth: 1
                    }
                )
            }
            FunctionBody::Query(query) => write!(f, "RETURN ({query})"),
            FunctionBody::External(name) => write!(f, "EXTERNAL NAME {name}"),
        }
    }
}

impl Display for CreateTrigger {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} TRIGGER {} ON {}{}",
            self.mode, self.name, self.on, self.options
        )?;
        f.write_str(match self.timing {
            TriggerTiming::After => " AFTER ",
            TriggerTiming::InsteadOf => " INSTEAD OF ",
        })?;
        write!(
            f,
            "{}{}",
            self.events.join(", "),
            Flag("WITH APPEND", self.append)
        )?;
        write!(
            f,
            "{} AS{}",
            Flag("NOT FOR REPLICATION", self.not_for_replication),
            self.body
        )
    }
}
