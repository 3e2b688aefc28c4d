//! Function calls: aggregates, window functions, special forms, scalar functions, functions of the session.
//!
//! Theory: the name decides, in that order. Scalar functions are the value room's: it knows their argument and result
//! types. What it does not know is asked of the host.

use super::next_value::{AGGREGATE, CLAUSE, CONDITIONAL};
use super::operand::Operand;
use super::scope::means_changed;
use super::tree::*;
use super::{Binder, BoundQuery, OutColumn, types};
use crate::error::{Result, SqlError};
use crate::host::VirtualTable;
use daruma_syntax::ast::{
    self, Expr, Frame, FrameBound, FrameUnit, FunctionCall, Literal, Niladic, NullTreatment,
    ObjectName, PseudoColumn,
};
use daruma_value::functions::WRITE;
use daruma_value::functions::json::{ARRAY, MODIFY_WITH_JSON, OBJECT};
use daruma_value::temporal::DatePart;
use daruma_value::{DataType, Len, Value, ValueError};
use std::sync::Arc;

/// Functions whose first argument is a date part, written like a column.
const DATE_PART_FUNCTIONS: &[&str] = &[
    "DATEADD",
    "DATEDIFF",
    "DATEDIFF_BIG",
    "DATEPART",
    "DATENAME",
    "DATETRUNC",
    "DATE_BUCKET",
];

impl Binder<'_> {
    pub(super) fn function(&mut self, call: &FunctionCall) -> Result<Scalar> {
        if !call.within_group.is_empty() && !is_ordered_within_group(call) {
            let name = &call.name.name.text;
            if name.to_ascii_uppercase().starts_with("APPROX_PERCENTILE_") {
                return Err(crate::messages::not_supported(name));
            }
            return Err(crate::messages::error(10757, &[name]));
        }
        if call.name.schema.is_some() && !call.name.schema.as_ref().is_some_and(|s| s.is("sys")) {
            if let Some(method) = self.column_method(call)? {
                return Ok(method);
            }
            return self.user_function(call);
        }
        let name = call.name.name.text.to_ascii_uppercase();
        if let Some(function) = aggregate_named(&name) {
            let aggregate = self.aggregate(function, call)?;
            return match &call.over {
                Some(window) => {
                    self.windowed(WindowFunction::Aggregate(function), aggregate, window)
                }
                None => {
                    if let Some(column) = self.outer_aggregate(&aggregate)? {
                        return Ok(column);
                    }
                    let ty = self.aggregate_type(&aggregate)?;
                    Ok(Scalar::new(Kind::Aggregate(Box::new(aggregate)), ty))
                }
            };
        }
        if let Some(function) = window_named(&name) {
            return self.window_function(function, &name, call);
        }
        match name.as_str() {
            "IDENTITY" => Err(crate::messages::error(177, &[])),
            "GROUPING" | "GROUPING_ID" => {
                let args = self.args(&call.args)?;
                let data_type = if name == "GROUPING" {
                    DataType::TinyInt
                } else {
                    DataType::Int
                };
                let bits = Scalar::new(Kind::Grouping(args), Type::new(DataType::Int, false));
                types::convert(bits, data_type)
            }
            "CHECKSUM" | "BINARY_CHECKSUM" if call.star => {
                let columns = self.expand_wildcard(None)?;
                let args = columns.iter().map(|(_, id)| self.column(*id)).collect();
                self.call_by_name(&name, args)
            }
            "ISNULL" => self.without_next_value(CONDITIONAL, |b| b.isnull(call)),
            "ISJSON" if call.args.len() == 2 => {
                let mut args = self.args(call.args.get(..1).unwrap_or_default())?;
                args.push(match call.args.get(1) {
                    Some(Expr::Column(word)) if is_json_kind(word) => {
                        self.text(&word.name.text, false)
                    }
                    _ => return Err(ValueError::new(1023, 1, &[&2, &"isjson"]).into()),
                });
                self.call_by_name(&name, args)
            }
            OBJECT | ARRAY => self.made_json(&name, call),
            "JSON_MODIFY" => {
                let args = self.args(&call.args)?;
                let name = match args.get(2).is_some_and(|value| self.gives_json(value)) {
                    true => MODIFY_WITH_JSON,
                    false => name.as_str(),
                };
                self.call_by_name(name, args)
            }
            "CHOOSE" => self.without_next_value(CONDITIONAL, |b| b.choose(call)),
            WRITE => self.written_value(call),
            // Those that other forms are spelled out as have names of several words.
            _ if name.contains(' ') => Err(unknown_function(&name)),
            _ if DATE_PART_FUNCTIONS.contains(&name.as_str()) => {
                let part = match call.args.first() {
                    Some(Expr::Column(column)) if column.table.is_none() => {
                        self.text(&column.name.text, false)
                    }
                    Some(_) => {
                        return Err(SqlError::new(
                            1023,
                            15,
                            1,
                            format!("Invalid parameter 1 specified for {}.", name.to_lowercase()),
                        ));
                    }
                    None => return self.call_by_name(&name, Vec::new()),
                };
                if name == "DATENAME" && is_named_part(&part) {
                    self.check_language("en")?;
                }
                let mut args = vec![part];
                args.extend(self.args(call.args.get(1..).unwrap_or_default())?);
                self.call_by_name(&name, args)
            }
            _ => {
                if name == "FORMAT" && call.args.len() == 2 {
                    self.check_language("en-US")?;
                }
                let args = self.args(&call.args)?;
                self.call_by_name(&name, args)
            }
        }
    }

    /// JSON_OBJECT shows NULLs unless it is told not to, JSON_ARRAY leaves them out.
    fn made_json(&mut self, name: &str, call: &FunctionCall) -> Result<Scalar> {
        let is_object = name == OBJECT;
        let shows_null = match call.nulls {
            Some(NullTreatment::NullOnNull) => true,
            Some(NullTreatment::AbsentOnNull) => false,
            _ => is_object,
        };
        let values = self.args(&call.args)?;
        let step = if is_object { 2 } else { 1 };
        let of_values = values.iter().skip(step - 1).step_by(step);
        let flags = of_values.map(|value| self.gives_json(value));
        let flags = std::iter::once(shows_null).chain(flags);
        let flags: String = flags.map(|flag| if flag { '1' } else { '0' }).collect();
        let mut args = vec![self.text(&flags, true)];
        args.extend(values);
        self.call_by_name(name, args)
    }

    /// The new value of a column after `.WRITE`, whose old value nobody needs the right to read.
    fn written_value(&mut self, call: &FunctionCall) -> Result<Scalar> {
        let (column, rest) = match call.args.split_first() {
            Some((Expr::Column(column), rest)) if means_changed(column) => (column, rest),
            _ => return Err(unknown_function(WRITE)),
        };
        let (_, _, id) = self.find_column(column)?;
        let mut args = vec![self.column(id)];
        args.extend(self.args(rest)?);
        self.call_by_name(WRITE, args)
    }

    fn args(&mut self, args: &[Expr]) -> Result<Vec<Scalar>> {
        args.iter().map(|a| self.expr(a)).collect()
    }

    /// A scalar function of the value room or of the session: error 195.
    pub(super) fn call_by_name(&mut self, name: &str, args: Vec<Scalar>) -> Result<Scalar> {
        if name.eq_ignore_ascii_case("NEWSEQUENTIALID") && !self.in_default {
            return Err(crate::messages::error(302, &[]));
        }
        if let Some(bound) = super::scalar::bind(name, &args) {
            return bound;
        }
        match self.host.system_function_type(name) {
            Some(data_type) => {
                let kind = Kind::System {
                    name: name.into(),
                    args,
                };
                Ok(Scalar::new(kind, Type::new(data_type, true)))
            }
            None => Err(unknown_function(name)),
        }
    }

    pub(super) fn niladic(&mut self, niladic: Niladic) -> Result<Scalar> {
        let name = match niladic {
            Niladic::CurrentTimestamp => "GETDATE",
            Niladic::CurrentDate => {
                let now = self.call_by_name("GETDATE", Vec::new())?;
                return types::convert(now, DataType::Date);
            }
            Niladic::SystemUser => "SUSER_SNAME",
            Niladic::CurrentUser | Niladic::SessionUser | Niladic::User => "USER_NAME",
        };
        self.call_by_name(name, Vec::new())
    }

    fn isnull(&mut self, call: &FunctionCall) -> Result<Scalar> {
        let args = self.args(&call.args)?;
        let [check, replacement] = <[Scalar; 2]>::try_from(args)
            .map_err(|_| SqlError::from(ValueError::new(174, 1, &[&"isnull", &"2"])))?;
        if check.is_null_literal() {
            return Ok(replacement);
        }
        let ty = check
            .ty
            .nullable(check.ty.nullable && replacement.ty.nullable);
        let replacement = if types::same_representation(replacement.ty.data_type, ty.data_type) {
            replacement
        } else if replacement.is_null_literal() {
            Scalar::null(ty.data_type)
        } else {
            daruma_value::types::check_implicit(replacement.ty.data_type, ty.data_type)?;
            types::make_convert(replacement, ty.data_type, true)
        };
        Ok(Scalar::new(
            Kind::IsNullFn(Box::new(check), Box::new(replacement)),
            ty,
        ))
    }

    fn choose(&mut self, call: &FunctionCall) -> Result<Scalar> {
        let mut args = self.args(&call.args)?;
        if args.len() < 2 {
            return Err(ValueError::new(189, 1, &[&"choose", &"2", &"254"]).into());
        }
        let index = Operand::new(types::convert(args.remove(0), DataType::Int)?);
        let mut whens = Vec::with_capacity(args.len());
        for (position, value) in args.into_iter().enumerate() {
            let number = Scalar::constant(Value::Int(position as i32 + 1), DataType::Int);
            whens.push((
                super::compare(ast::CompareOp::Equal, index.again(), number)?,
                value,
            ));
        }
        let chosen = super::expr::case_of(whens, None)?;
        Ok(index.around(chosen))
    }

    pub(super) fn trim(
        &mut self,
        side: Option<ast::TrimSide>,
        characters: Option<&Expr>,
        from: &Expr,
    ) -> Result<Scalar> {
        let mut args = vec![self.expr(from)?];
        if let Some(characters) = characters {
            args.push(self.expr(characters)?);
        }
        let name = match side {
            None | Some(ast::TrimSide::Both) => "TRIM",
            Some(ast::TrimSide::Leading) => "LTRIM",
            Some(ast::TrimSide::Trailing) => "RTRIM",
        };
        self.call_by_name(name, args)
    }

    pub(super) fn pseudo(&mut self, pseudo: PseudoColumn) -> Result<Scalar> {
        let wanted = |column: &super::ColumnInfo| match pseudo {
            PseudoColumn::Identity => column.identity.is_some(),
            PseudoColumn::RowGuid => column.rowguid,
            // Only OUTPUT of a MERGE has it.
            PseudoColumn::Action => column.name == "$action",
            PseudoColumn::Cuid => false,
        };
        let tables = self.scopes.last().into_iter().flat_map(|s| &s.tables);
        let found = tables
            .flat_map(|t| {
                t.columns
                    .iter()
                    .enumerate()
                    .map(move |(at, c)| (t, at, c.1))
            })
            .find(|(.., id)| wanted(&self.columns[*id as usize]));
        match found {
            Some((table, at, id)) => {
                self.note_read(table, at);
                Ok(self.column(id))
            }
            None => {
                let name = match pseudo {
                    PseudoColumn::Action => "$action",
                    PseudoColumn::Identity => "$identity",
                    PseudoColumn::RowGuid => "$rowguid",
                    PseudoColumn::Cuid => "$cuid",
                };
                Err(SqlError::new(
                    207,
                    16,
                    1,
                    format!("Invalid column name '{name}'."),
                ))
            }
        }
    }

    pub(super) fn at_time_zone(&mut self, args: Vec<Scalar>) -> Result<Scalar> {
        let t = args.first().map_or(DataType::Int, |a| a.ty.data_type);
        let scale = match t {
            DataType::DateTime2 { scale } | DataType::DateTimeOffset { scale } => scale,
            DataType::DateTime => 3,
            DataType::SmallDateTime => 0,
            _ => return Err(ValueError::invalid_argument(t, 1, "at time zone").into()),
        };
        let kind = Kind::Call {
            name: "AT TIME ZONE".into(),
            args,
        };
        Ok(Scalar::new(
            kind,
            Type::new(DataType::DateTimeOffset { scale }, true),
        ))
    }

    fn aggregate(&mut self, function: AggregateFunction, call: &FunctionCall) -> Result<Aggregate> {
        use AggregateFunction as F;
        let name = call.name.name.text.to_ascii_lowercase();
        if call.star {
            return Ok(Aggregate {
                function,
                arg: None,
                distinct: false,
                separator: None,
                order: Vec::new(),
            });
        }
        let mut args = self.without_next_value(AGGREGATE, |b| b.args(&call.args))?;
        let wanted = if function == F::StringAgg { 2 } else { 1 };
        if args.len() != wanted {
            return Err(ValueError::new(174, 1, &[&name, &wanted]).into());
        }
        let separator = if function == F::StringAgg {
            args.pop()
        } else {
            None
        };
        let mut arg = args.remove(0);
        let nested = arg.any(&|s| matches!(s.kind, Kind::Aggregate(_)));
        if nested && call.over.is_none() || arg.any(&|s| matches!(s.kind, Kind::Subquery(_))) {
            return Err(SqlError::new(
                130,
                16,
                1,
                "Cannot perform an aggregate function on an expression containing an aggregate or a subquery.",
            ));
        }
        if arg.any(&|s| matches!(s.kind, Kind::Window(_))) {
            return Err(SqlError::new(
                4109,
                15,
                1,
                "Windowed functions cannot be used in the context of another windowed function or aggregate.",
            ));
        }
        if arg.is_null_literal() && !matches!(function, F::Count | F::CountBig | F::Min | F::Max) {
            return Err(SqlError::new(
                8117,
                16,
                1,
                format!("Operand data type NULL is invalid for {name} operator."),
            ));
        }
        if function == F::StringAgg && !arg.ty.data_type.is_character() {
            arg = types::convert(arg, DataType::NVarChar(Len(4000)))?;
        }
        if matches!(function, F::Stdev | F::StdevP | F::Var | F::VarP)
            && arg.ty.data_type.is_numeric()
        {
            arg = types::convert(arg, DataType::Float)?;
        }
        let mut order = Vec::new();
        for item in &call.within_group {
            let key = self.without_next_value(CLAUSE, |b| b.expr(&item.expr))?;
            order.push((key, item.descending));
        }
        // MIN and MAX are the same with and without DISTINCT.
        let distinct = call.distinct && !matches!(function, F::Min | F::Max);
        let aggregate = Aggregate {
            function,
            arg: Some(arg),
            distinct,
            separator,
            order,
        };
        self.aggregate_type(&aggregate)?;
        Ok(aggregate)
    }

    /// Result type of an aggregate: error 8117.
    pub(super) fn aggregate_type(&self, aggregate: &Aggregate) -> Result<Type> {
        use AggregateFunction as F;
        use DataType::*;
        let Some(arg) = &aggregate.arg else {
            let t = if aggregate.function == F::CountBig {
                BigInt
            } else {
                Int
            };
            return Ok(Type::new(t, false));
        };
        let t = arg.ty.data_type;
        let invalid = |name: &str| Err(ValueError::invalid_operand(t, name).into());
        let data_type = match aggregate.function {
            F::Count => return Ok(Type::new(Int, false)),
            F::CountBig | F::ApproxCountDistinct => return Ok(Type::new(BigInt, false)),
            F::Sum | F::Avg => {
                let name = if aggregate.function == F::Sum {
                    "sum"
                } else {
                    "avg"
                };
                match t {
                    TinyInt | SmallInt | Int => Int,
                    BigInt => BigInt,
                    Decimal { scale, .. } if aggregate.function == F::Sum => Decimal {
                        precision: 38,
                        scale,
                    },
                    Decimal { scale, .. } => Decimal {
                        precision: 38,
                        scale: scale.max(6),
                    },
                    SmallMoney | Money => Money,
                    Real | Float => Float,
                    _ => return invalid(name),
                }
            }
            F::Min | F::Max => {
                let name = if aggregate.function == F::Min {
                    "min"
                } else {
                    "max"
                };
                if !daruma_value::types::is_comparable(t) || t == Bit {
                    return invalid(name);
                }
                t
            }
            F::Stdev | F::StdevP | F::Var | F::VarP => {
                if !t.is_numeric() {
                    return invalid(match aggregate.function {
                        F::Stdev => "stdev",
                        F::StdevP => "stdevp",
                        F::Var => "var",
                        _ => "varp",
                    });
                }
                Float
            }
            F::StringAgg => match t {
                VarChar(len) if len.is_max() => VarChar(Len::MAX),
                NVarChar(len) if len.is_max() => NVarChar(Len::MAX),
                t if t.is_unicode() => NVarChar(Len(4000)),
                _ => VarChar(Len(8000)),
            },
            F::ChecksumAgg => {
                if !t.is_integer() {
                    return invalid("checksum_agg");
                }
                Int
            }
            F::Any => t,
        };
        Ok(Type {
            data_type,
            nullable: true,
            ..arg.ty
        })
    }

    fn windowed(
        &mut self,
        function: WindowFunction,
        aggregate: Aggregate,
        window: &ast::Window,
    ) -> Result<Scalar> {
        if aggregate.distinct {
            return Err(SqlError::new(
                10759,
                15,
                1,
                "Use of DISTINCT is not allowed with the OVER clause.",
            ));
        }
        let ty = self.aggregate_type(&aggregate)?;
        let args = aggregate
            .arg
            .into_iter()
            .chain(aggregate.separator)
            .collect();
        self.window_call(function, args, window, false, ty)
    }

    fn window_function(
        &mut self,
        function: WindowFunction,
        name: &str,
        call: &FunctionCall,
    ) -> Result<Scalar> {
        use WindowFunction as W;
        let Some(window) = &call.over else {
            return Err(SqlError::new(
                10753,
                15,
                3,
                format!("The function '{name}' must have an OVER clause."),
            ));
        };
        if matches!(function, W::PercentileCont | W::PercentileDisc) {
            return self.percentile(function, name, call, window);
        }
        let mut args = self.args(&call.args)?;
        let expected = match function {
            W::RowNumber | W::Rank | W::DenseRank | W::PercentRank | W::CumeDist => 0..=0,
            W::NTile | W::FirstValue | W::LastValue => 1..=1,
            _ => 1..=3,
        };
        if !expected.contains(&args.len()) {
            return Err(
                ValueError::new(174, 1, &[&name.to_ascii_lowercase(), expected.start()]).into(),
            );
        }
        let ty = match function {
            W::RowNumber | W::Rank | W::DenseRank => Type::new(DataType::BigInt, false),
            W::NTile => {
                args[0] = types::convert(args[0].clone(), DataType::BigInt)?;
                Type::new(DataType::BigInt, false)
            }
            W::PercentRank | W::CumeDist => Type::new(DataType::Float, false),
            _ => {
                if let Some(offset) = args.get_mut(1) {
                    *offset = types::convert(offset.clone(), DataType::BigInt)?;
                }
                let ty = args[0].ty.nullable(true);
                if let Some(default) = args.get_mut(2) {
                    *default = types::convert(default.clone(), ty.data_type)?;
                }
                ty
            }
        };
        let named = window.name.is_some();
        if window.order_by.is_empty() && !named {
            return Err(SqlError::new(
                4112,
                15,
                1,
                format!("The function '{name}' must have an OVER clause with ORDER BY."),
            ));
        }
        if window.frame.is_some() && !matches!(function, W::FirstValue | W::LastValue) {
            return Err(SqlError::new(
                10752,
                15,
                1,
                format!("The function '{name}' may not have a window frame."),
            ));
        }
        self.window_call(
            function,
            args,
            window,
            call.nulls == Some(ast::NullTreatment::Ignore),
            ty,
        )
    }

    /// PERCENTILE_CONT and PERCENTILE_DISC: their order is that of WITHIN GROUP, and OVER has the partition alone.
    fn percentile(
        &mut self,
        function: WindowFunction,
        name: &str,
        call: &FunctionCall,
        window: &ast::Window,
    ) -> Result<Scalar> {
        let refused = |number| Err(crate::messages::error(number, &[&name]));
        let [key] = call.within_group.as_slice() else {
            return refused(match call.within_group.is_empty() {
                true => 10754,
                false => 10751,
            });
        };
        if window.frame.is_some() {
            return refused(10752);
        }
        if !window.order_by.is_empty() {
            return refused(10758);
        }
        let mut args = self.args(&call.args)?;
        if args.len() != 1 {
            return Err(ValueError::new(174, 1, &[&name.to_ascii_lowercase(), &1]).into());
        }
        args[0] = types::convert(args[0].clone(), DataType::Float)?;
        let value = self.without_next_value(CLAUSE, |b| b.expr(&key.expr))?;
        let is_continuous = function == WindowFunction::PercentileCont;
        let data_type = value.ty.data_type;
        if is_continuous && !data_type.is_numeric() {
            let name = name.to_ascii_lowercase();
            return Err(ValueError::new(8117, 1, &[&data_type.name(), &name]).into());
        }
        let (value, ty) = match is_continuous {
            true => (
                types::convert(value, DataType::Float)?,
                Type::new(DataType::Float, true),
            ),
            false => (value.clone(), value.ty.nullable(true)),
        };
        args.insert(0, value);
        let ordered = ast::Window {
            order_by: call.within_group.clone(),
            ..window.clone()
        };
        self.window_call(function, args, &ordered, false, ty)
    }

    fn window_call(
        &mut self,
        function: WindowFunction,
        args: Vec<Scalar>,
        window: &ast::Window,
        ignore_nulls: bool,
        ty: Type,
    ) -> Result<Scalar> {
        let window = self.named_window(window)?;
        let partition = self.without_next_value(CLAUSE, |b| b.args(&window.partition_by))?;
        let mut order = Vec::with_capacity(window.order_by.len());
        for item in &window.order_by {
            if matches!(item.expr, Expr::Literal(Literal::Integer(_))) {
                return Err(SqlError::new(
                    5308,
                    16,
                    1,
                    "Windowed functions, aggregates and NEXT VALUE FOR functions do not support integer indices as ORDER BY \
                     clause expressions.",
                ));
            }
            let key = self.without_next_value(CLAUSE, |b| b.expr(&item.expr))?;
            order.push((key, item.descending));
        }
        // An order that is a constant orders nothing: ORDER BY (SELECT NULL).
        order.retain(|(s, _)| !constant_subquery(s));
        if window.frame.is_some() && window.order_by.is_empty() {
            return Err(crate::messages::error(10756, &[]));
        }
        let frame = window.frame.as_ref().map(|f| self.frame(f)).transpose()?;
        let call = WindowCall {
            function,
            args,
            partition,
            order,
            frame,
            ignore_nulls,
        };
        Ok(Scalar::new(Kind::Window(Box::new(call)), ty))
    }

    /// `OVER w` and `OVER (w ...)`: error 5362.
    fn named_window(&self, window: &ast::Window) -> Result<ast::Window> {
        let Some(name) = &window.name else {
            return Ok(window.clone());
        };
        let known = self
            .windows
            .last()
            .into_iter()
            .flatten()
            .find(|(n, _)| daruma_catalog::names_equal(&n.text, &name.text));
        let Some((_, base)) = known else {
            return Err(SqlError::new(
                5362,
                16,
                2,
                format!("Window '{}' is undefined.", name.text),
            ));
        };
        let mut merged = if base.name.is_some() {
            ast::Window {
                name: None,
                ..base.clone()
            }
        } else {
            base.clone()
        };
        if !window.partition_by.is_empty() {
            merged.partition_by.clone_from(&window.partition_by);
        }
        if !window.order_by.is_empty() {
            merged.order_by.clone_from(&window.order_by);
        }
        if window.frame.is_some() {
            merged.frame.clone_from(&window.frame);
        }
        Ok(merged)
    }

    fn frame(&mut self, frame: &Frame) -> Result<WindowFrame> {
        let rows = frame.unit == FrameUnit::Rows;
        let end = match &frame.end {
            Some(end) => self.frame_end(end, rows)?,
            None => FrameEnd::CurrentRow,
        };
        Ok(WindowFrame {
            rows,
            start: self.frame_end(&frame.start, rows)?,
            end,
        })
    }

    fn frame_end(&mut self, bound: &FrameBound, rows: bool) -> Result<FrameEnd> {
        let count = |expr: &Expr| match expr {
            Expr::Literal(Literal::Integer(digits)) if rows => match digits.parse::<u64>() {
                Ok(n) => Ok(n),
                Err(_) => Err(SqlError::new(
                    1060,
                    15,
                    1,
                    "The number of rows provided for a window frame is too large.",
                )),
            },
            _ if !rows => Err(SqlError::new(
                4194,
                16,
                1,
                "RANGE is only supported with UNBOUNDED and CURRENT ROW window frame delimiters.",
            )),
            _ => Err(SqlError::new(102, 15, 1, "Incorrect syntax near 'ROWS'.")),
        };
        Ok(match bound {
            FrameBound::UnboundedPreceding => FrameEnd::UnboundedPreceding,
            FrameBound::Preceding(n) => FrameEnd::Preceding(count(n)?),
            FrameBound::CurrentRow => FrameEnd::CurrentRow,
            FrameBound::Following(n) => FrameEnd::Following(count(n)?),
            FrameBound::UnboundedFollowing => FrameEnd::UnboundedFollowing,
        })
    }

    /// Table functions that need nothing but their arguments.
    pub(super) fn builtin_rows(
        &mut self,
        name: &ObjectName,
        args: &[Scalar],
    ) -> Result<Option<BoundQuery>> {
        if !name.is_bare() {
            return Ok(None);
        }
        let Some(table) = crate::executor::builtin_table(&name.name.text, args)? else {
            return Ok(None);
        };
        self.rows_of_builtin(name, table, args).map(Some)
    }

    /// The rows of a table function that needs nothing but its arguments.
    pub(super) fn rows_of_builtin(
        &mut self,
        name: &ObjectName,
        table: Arc<dyn VirtualTable>,
        args: &[Scalar],
    ) -> Result<BoundQuery> {
        if !table.arguments().contains(&args.len()) {
            return Err(ValueError::new(
                189,
                1,
                &[
                    &name.name.text.to_lowercase(),
                    table.arguments().start(),
                    table.arguments().end(),
                ],
            )
            .into());
        }
        let mut columns = Vec::new();
        for column in table.columns() {
            let ty = Type {
                collation: column.collation,
                ..Type::new(column.data_type, column.nullable)
            };
            let id = self.new_computed(
                &column.name,
                &Scalar::new(Kind::Const(Value::Bit(false)), ty),
            )?;
            columns.push(OutColumn {
                name: column.name.clone(),
                id,
            });
        }
        let scan = VirtualScan {
            table,
            database: self.host.current_database(),
            args: args.to_vec(),
            columns: columns.iter().map(|c| c.id).collect(),
            alias: name.name.text.clone(),
        };
        Ok(BoundQuery {
            rel: Rel::Virtual(Box::new(scan)),
            columns,
            assignments: Vec::new(),
        })
    }
}

/// What ISJSON may be asked for.
fn is_json_kind(word: &ast::ColumnRef) -> bool {
    let kinds = ["VALUE", "SCALAR", "ARRAY", "OBJECT"];
    word.table.is_none() && kinds.iter().any(|kind| word.name.is(kind))
}

/// Months and days of the week have names.
fn is_named_part(part: &Scalar) -> bool {
    let Kind::Const(Value::Str(text)) = &part.kind else {
        return false;
    };
    matches!(
        DatePart::parse(text),
        Some(DatePart::Month | DatePart::WeekDay)
    )
}

fn constant_subquery(scalar: &Scalar) -> bool {
    match &scalar.kind {
        Kind::Const(_) => true,
        Kind::Subquery(sub) => {
            matches!(&sub.rel, Rel::Compute { input, items } if matches!(**input, Rel::One)
                && items.iter().all(|(_, s)| matches!(s.kind, Kind::Const(_))))
        }
        _ => false,
    }
}

/// The functions that take their rows in an order of their own.
fn is_ordered_within_group(call: &FunctionCall) -> bool {
    const ORDERED: [&str; 3] = ["PERCENTILE_CONT", "PERCENTILE_DISC", "STRING_AGG"];
    let name = &call.name.name;
    call.name.schema.is_none() && ORDERED.iter().any(|ordered| name.is(ordered))
}

fn aggregate_named(name: &str) -> Option<AggregateFunction> {
    use AggregateFunction::*;
    Some(match name {
        "COUNT" => Count,
        "COUNT_BIG" => CountBig,
        "SUM" => Sum,
        "AVG" => Avg,
        "MIN" => Min,
        "MAX" => Max,
        "STDEV" => Stdev,
        "STDEVP" => StdevP,
        "VAR" => Var,
        "VARP" => VarP,
        "STRING_AGG" => StringAgg,
        "CHECKSUM_AGG" => ChecksumAgg,
        "APPROX_COUNT_DISTINCT" => ApproxCountDistinct,
        _ => return None,
    })
}

fn window_named(name: &str) -> Option<WindowFunction> {
    use WindowFunction::*;
    Some(match name {
        "ROW_NUMBER" => RowNumber,
        "RANK" => Rank,
        "DENSE_RANK" => DenseRank,
        "NTILE" => NTile,
        "LAG" => Lag,
        "LEAD" => Lead,
        "FIRST_VALUE" => FirstValue,
        "LAST_VALUE" => LastValue,
        "PERCENT_RANK" => PercentRank,
        "CUME_DIST" => CumeDist,
        "PERCENTILE_CONT" => PercentileCont,
        "PERCENTILE_DISC" => PercentileDisc,
        _ => return None,
    })
}

fn unknown_function(name: &str) -> SqlError {
    SqlError::new(
        195,
        15,
        10,
        format!(
            "'{}' is not a recognized built-in function name.",
            name.to_ascii_lowercase()
        ),
    )
}
