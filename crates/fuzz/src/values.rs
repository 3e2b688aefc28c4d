//! Fields of files, conversions, stored rows.

use daruma_tsql::dml::bulk::fields::{FieldReader, Layout, Record};
use daruma_value::convert::{ConvertContext, convert as convert_value, decode_code_page};
use daruma_value::row::{ColumnSpec, RowLayout, RowView};
use daruma_value::{DataType, Len, Value};

/// Every type, with lengths and scales that make trouble.
const TYPES: &[DataType] = &[
    DataType::Bit,
    DataType::TinyInt,
    DataType::SmallInt,
    DataType::Int,
    DataType::BigInt,
    DataType::Decimal {
        precision: 5,
        scale: 2,
    },
    DataType::Decimal {
        precision: 38,
        scale: 0,
    },
    DataType::Decimal {
        precision: 38,
        scale: 38,
    },
    DataType::SmallMoney,
    DataType::Money,
    DataType::Real,
    DataType::Float,
    DataType::Date,
    DataType::Time { scale: 3 },
    DataType::SmallDateTime,
    DataType::DateTime,
    DataType::DateTime2 { scale: 7 },
    DataType::DateTimeOffset { scale: 7 },
    DataType::Char(Len(3)),
    DataType::VarChar(Len(20)),
    DataType::VARCHAR_MAX,
    DataType::NChar(Len(3)),
    DataType::NVarChar(Len(20)),
    DataType::Binary(Len(3)),
    DataType::VarBinary(Len(20)),
    DataType::VARBINARY_MAX,
    DataType::UniqueIdentifier,
    DataType::RowVersion,
    DataType::Variant,
    DataType::Xml,
];

fn data_type(choice: u8) -> DataType {
    TYPES[usize::from(choice) % TYPES.len()]
}

/// First byte: CSV or plain, wide, terminators of one or two characters; second: columns.
pub fn csv(bytes: &[u8]) {
    let [choice, columns, rest @ ..] = bytes else {
        return;
    };
    let is_long = choice & 4 != 0;
    let wide = choice & 2 != 0;
    let text = |text: &str| -> Vec<u8> {
        match wide {
            true => text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
            false => text.as_bytes().to_vec(),
        }
    };
    let layout = Layout {
        columns: usize::from(columns % 8) + 1,
        field_end: text(if is_long { "||" } else { "," }),
        row_end: text(if is_long { "|\n" } else { "\n" }),
        trim_cr: choice & 8 != 0,
        quote: (choice & 1 != 0).then_some(b'"'),
        wide,
        fields: Vec::new(),
    };
    let length = rest.len();
    let mut file = rest;
    let mut reader = FieldReader::new(&mut file, layout.clone());
    let (mut record, mut rows) = (Record::default(), 0);
    while let Ok(true) = reader.next(&mut record) {
        rows += 1;
        assert!(rows <= length, "a row takes a byte at least");
        assert!(record.count() <= layout.columns);
        for field in 0..record.count() {
            drop(decode_code_page(record.field(field), 1252));
            record.is_quoted(field);
        }
    }
}

/// Type it is read as, type it becomes, style, then text or a stored row of one column. What comes out fits its type: it can
/// be stored and read back.
pub fn convert(bytes: &[u8]) {
    let [from, to, style, rest @ ..] = bytes else {
        return;
    };
    let (from, to) = (data_type(*from), data_type(*to));
    let Some(value) = value_of(from, rest) else {
        return;
    };
    let style = (*style > 0).then_some(i32::from(*style) - 1);
    let Ok(converted) = convert_value(&value, from, to, style, &ConvertContext::default()) else {
        return;
    };
    if converted != Value::Null {
        assert_stored(&converted, to);
    }
}

fn value_of(data_type: DataType, bytes: &[u8]) -> Option<Value> {
    if data_type.is_character() {
        let text = String::from_utf8_lossy(bytes);
        let varchar = DataType::VARCHAR_MAX;
        let text = Value::str(&text);
        return convert_value(&text, varchar, data_type, None, &ConvertContext::default()).ok();
    }
    let layout = layout(&[data_type]);
    let mut row = vec![1, 0, 0];
    row.extend_from_slice(bytes);
    let mut values = Vec::new();
    RowView::new(&layout, &row).ok()?.decode(&mut values).ok()?;
    let value = values.pop()?;
    // Bytes on disk may hold what no statement can write; a conversion is owed nothing for those.
    convert_value(
        &value,
        data_type,
        data_type,
        None,
        &ConvertContext::default(),
    )
    .ok()
}

fn layout(types: &[DataType]) -> RowLayout {
    let columns: Vec<_> = types.iter().copied().map(ColumnSpec::new).collect();
    RowLayout::new(&columns)
}

fn assert_stored(value: &Value, data_type: DataType) {
    let (layout, mut row, mut read) = (layout(&[data_type]), Vec::new(), Vec::new());
    if let Err(error) = layout.encode(std::slice::from_ref(value), &mut row) {
        panic!("{value:?} is no {data_type:?}: {error:?}");
    }
    let view = RowView::new(&layout, &row).expect("a row");
    view.decode(&mut read).expect("its value");
    assert_eq!(
        format!("{:?}", read[0]),
        format!("{value:?}"),
        "as {data_type:?}"
    );
}

/// Number of columns, their types, then a stored row. What decodes can be stored, and reads the same again.
pub fn row(bytes: &[u8]) {
    let [count, rest @ ..] = bytes else {
        return;
    };
    let count = usize::from(count % 12) + 1;
    let (choices, row) = rest.split_at(count.min(rest.len()));
    let types: Vec<DataType> = choices.iter().map(|choice| data_type(*choice)).collect();
    let layout = layout(&types);
    let Ok(view) = RowView::new(&layout, row) else {
        return;
    };
    look(&view, types.len());
    let (mut values, mut again, mut stored) = (Vec::new(), Vec::new(), Vec::new());
    if view.decode(&mut values).is_err() || layout.encode(&values, &mut stored).is_err() {
        return;
    }
    let view = RowView::new(&layout, &stored).expect("a row that was written");
    view.decode(&mut again).expect("its values");
    assert_eq!(format!("{again:?}"), format!("{values:?}"));
}

fn look(view: &RowView<'_>, columns: usize) {
    for column in 0..columns + 2 {
        let _ = (view.value(column), view.value_or_default(column));
        let _ = (
            view.i64(column),
            view.f64(column),
            view.decimal_unscaled(column),
        );
        let _ = (view.str(column), view.bytes(column), view.overflow(column));
        let _ = (
            view.is_null(column),
            view.is_missing(column),
            view.is_overflow(column),
        );
    }
}
