//! TYPE_INFO: a type as the wire describes it, and its relation to `DataType`.

use super::{Place, WireCollation, type_token as t};
use crate::wire::{Reader, put_b_varchar, put_us_varchar};
use crate::{Result, TdsError, TdsVersion};
use daruma_value::{DataType, Len};

/// `max_bytes` of a `max` type.
pub(super) const PLP: u32 = 0xFFFF;
const SHORT_BYTES_MAX: u16 = 8000;
const VARIANT_BYTES_MAX: u32 = 8009;
const TEXT_BYTES_MAX: u32 = 0x7FFF_FFFF;
const NTEXT_BYTES_MAX: u32 = 0x7FFF_FFFE;

/// TYPE_INFO: a type as the wire describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeInfo {
    /// One of `type_token`.
    pub token: u8,
    /// Bytes of the longest value, 0xFFFF for `max` types.
    pub max_bytes: u32,
    /// Digits of decimal and numeric, 1 to 38; 0 for other types.
    pub precision: u8,
    /// Decimals of decimal, numeric and the fractional times; 0 for other types.
    pub scale: u8,
    /// Of character types, and of the character data inside a variant.
    pub collation: WireCollation,
    /// The name of a CLR type; for the token `UDT` alone.
    pub udt: Option<Box<UdtName>>,
    /// The schema collection of an xml column that has one.
    pub xml_schema: Option<Box<XmlSchema>>,
}

/// The name of a CLR type.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct UdtName {
    pub database: String,
    pub schema: String,
    pub name: String,
    /// Not sent with parameters.
    pub assembly: String,
}

/// The schema collection that an xml column is bound to.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct XmlSchema {
    pub database: String,
    pub owner: String,
    pub collection: String,
}

/// How many bytes say how long a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Prefix {
    /// Only NULL exists.
    Null,
    Fixed(usize),
    Byte,
    Short,
    Plp,
    /// text, ntext, image.
    Long,
    Variant,
}

impl TypeInfo {
    fn simple(token: u8, max_bytes: u32) -> TypeInfo {
        let collation = WireCollation::NONE;
        TypeInfo {
            token,
            max_bytes,
            precision: 0,
            scale: 0,
            collation,
            udt: None,
            xml_schema: None,
        }
    }

    fn scaled(token: u8, max_bytes: u32, scale: u8) -> TypeInfo {
        TypeInfo {
            scale,
            ..TypeInfo::simple(token, max_bytes)
        }
    }

    fn text(token: u8, max_bytes: u32, collation: WireCollation) -> TypeInfo {
        TypeInfo {
            collation,
            ..TypeInfo::simple(token, max_bytes)
        }
    }

    /// The nullable form of `data_type`, as parameters and return values use it.
    pub fn nullable(data_type: DataType, collation: WireCollation) -> TypeInfo {
        use DataType as D;
        match data_type {
            D::Bit => TypeInfo::simple(t::BIT_N, 1),
            D::TinyInt => TypeInfo::simple(t::INT_N, 1),
            D::SmallInt => TypeInfo::simple(t::INT_N, 2),
            D::Int => TypeInfo::simple(t::INT_N, 4),
            D::BigInt => TypeInfo::simple(t::INT_N, 8),
            D::Real => TypeInfo::simple(t::FLOAT_N, 4),
            D::Float => TypeInfo::simple(t::FLOAT_N, 8),
            D::SmallMoney => TypeInfo::simple(t::MONEY_N, 4),
            D::Money => TypeInfo::simple(t::MONEY_N, 8),
            D::SmallDateTime => TypeInfo::simple(t::DATETIME_N, 4),
            D::DateTime => TypeInfo::simple(t::DATETIME_N, 8),
            D::UniqueIdentifier => TypeInfo::simple(t::GUID, 16),
            D::Decimal { precision, scale } => {
                let max_bytes = decimal_bytes(precision);
                TypeInfo {
                    precision,
                    ..TypeInfo::scaled(t::NUMERIC_N, max_bytes, scale)
                }
            }
            D::Date => TypeInfo::simple(t::DATE_N, 3),
            D::Time { scale } => TypeInfo::scaled(t::TIME_N, time_bytes(scale), scale),
            D::DateTime2 { scale } => {
                TypeInfo::scaled(t::DATETIME2_N, time_bytes(scale) + 3, scale)
            }
            D::DateTimeOffset { scale } => {
                TypeInfo::scaled(t::DATETIMEOFFSET_N, time_bytes(scale) + 5, scale)
            }
            D::Char(len) => TypeInfo::text(t::CHAR, u32::from(len.0), collation),
            D::VarChar(len) => TypeInfo::text(t::VARCHAR, u32::from(len.0), collation),
            D::NChar(len) => TypeInfo::text(t::NCHAR, utf16_bytes(len), collation),
            D::NVarChar(len) => TypeInfo::text(t::NVARCHAR, utf16_bytes(len), collation),
            D::Binary(len) => TypeInfo::simple(t::BINARY, u32::from(len.0)),
            D::RowVersion => TypeInfo::simple(t::BINARY, 8),
            D::VarBinary(len) => TypeInfo::simple(t::VARBINARY, u32::from(len.0)),
            D::Text => TypeInfo::text(t::TEXT, TEXT_BYTES_MAX, collation),
            D::NText => TypeInfo::text(t::NTEXT, NTEXT_BYTES_MAX, collation),
            D::Image => TypeInfo::simple(t::IMAGE, TEXT_BYTES_MAX),
            D::Variant => TypeInfo::text(t::VARIANT, VARIANT_BYTES_MAX, collation),
            D::Xml => TypeInfo::text(t::XML, PLP, collation),
            D::HierarchyId => udt("hierarchyid", "SqlHierarchyId", 892),
            D::Geography => udt("geography", "SqlGeography", PLP),
            D::Geometry => udt("geometry", "SqlGeometry", PLP),
        }
    }

    /// The form a column takes in results for a client of `version`: fixed types where NULL cannot occur, and older
    /// types for clients that do not know the newer ones.
    pub fn for_column(
        data_type: DataType,
        nullable: bool,
        collation: WireCollation,
        version: TdsVersion,
    ) -> TypeInfo {
        let mut info = TypeInfo::nullable(known_type(data_type, version), collation);
        if !nullable && let Some(token) = fixed_token(info.token, info.max_bytes) {
            info.token = token;
        }
        info
    }

    /// The type a value of this description has. JSON reads as nvarchar(max), vectors and foreign UDTs as varbinary.
    pub fn data_type(&self) -> DataType {
        use DataType as D;
        let len = Len(u16::try_from(self.max_bytes).unwrap_or(u16::MAX).max(1));
        let units = if len.is_max() {
            len
        } else {
            Len((len.0 / 2).max(1))
        };
        let (precision, scale) = (self.precision, self.scale);
        match (self.token, self.max_bytes) {
            (t::BIT | t::BIT_N, _) => D::Bit,
            (t::INT1, _) | (t::INT_N, 1) => D::TinyInt,
            (t::INT2, _) | (t::INT_N, 2) => D::SmallInt,
            (t::INT8, _) | (t::INT_N, 8) => D::BigInt,
            (t::REAL, _) | (t::FLOAT_N, 4) => D::Real,
            (t::FLOAT | t::FLOAT_N, _) => D::Float,
            (t::SMALL_MONEY, _) | (t::MONEY_N, 4) => D::SmallMoney,
            (t::MONEY | t::MONEY_N, _) => D::Money,
            (t::SMALL_DATETIME, _) | (t::DATETIME_N, 4) => D::SmallDateTime,
            (t::DATETIME | t::DATETIME_N, _) => D::DateTime,
            (t::GUID, _) => D::UniqueIdentifier,
            (t::DECIMAL_N | t::NUMERIC_N | t::OLD_DECIMAL | t::OLD_NUMERIC, _) => {
                D::Decimal { precision, scale }
            }
            (t::DATE_N, _) => D::Date,
            (t::TIME_N, _) => D::Time { scale },
            (t::DATETIME2_N, _) => D::DateTime2 { scale },
            (t::DATETIMEOFFSET_N, _) => D::DateTimeOffset { scale },
            (t::CHAR | t::OLD_CHAR, _) => D::Char(len),
            (t::VARCHAR | t::OLD_VARCHAR, _) => D::VarChar(len),
            (t::NCHAR, _) => D::NChar(units),
            (t::NVARCHAR, _) => D::NVarChar(units),
            (t::BINARY | t::OLD_BINARY, _) => D::Binary(len),
            (t::VARBINARY | t::OLD_VARBINARY | t::VECTOR, _) => D::VarBinary(len),
            (t::TEXT, _) => D::Text,
            (t::NTEXT, _) => D::NText,
            (t::IMAGE, _) => D::Image,
            (t::VARIANT, _) => D::Variant,
            (t::XML, _) => D::Xml,
            (t::JSON, _) => D::NVARCHAR_MAX,
            (t::UDT, _) => self.udt_type(),
            // INTN of any other size is refused by `decode`; the NULL type carries no value to have one.
            _ => D::Int,
        }
    }

    fn udt_type(&self) -> DataType {
        let name = self
            .udt
            .as_ref()
            .map(|udt| udt.name.to_ascii_lowercase())
            .unwrap_or_default();
        match name.as_str() {
            "hierarchyid" => DataType::HierarchyId,
            "geography" => DataType::Geography,
            "geometry" => DataType::Geometry,
            _ => DataType::VARBINARY_MAX,
        }
    }

    /// text, ntext, image: columns of these types carry a table name.
    pub const fn is_text_pointer(&self) -> bool {
        matches!(self.token, t::TEXT | t::NTEXT | t::IMAGE)
    }

    /// Does a collation follow the type's length?
    pub const fn has_collation(&self) -> bool {
        matches!(
            self.token,
            t::CHAR | t::VARCHAR | t::NCHAR | t::NVARCHAR | t::TEXT | t::NTEXT
        )
    }

    pub(super) fn prefix(&self) -> Prefix {
        match self.token {
            t::NULL => Prefix::Null,
            t::INT1 | t::BIT => Prefix::Fixed(1),
            t::INT2 => Prefix::Fixed(2),
            t::INT4 | t::SMALL_DATETIME | t::REAL | t::SMALL_MONEY => Prefix::Fixed(4),
            t::MONEY | t::DATETIME | t::FLOAT | t::INT8 => Prefix::Fixed(8),
            t::VARCHAR | t::NVARCHAR | t::VARBINARY if self.max_bytes == PLP => Prefix::Plp,
            t::CHAR
            | t::VARCHAR
            | t::NCHAR
            | t::NVARCHAR
            | t::BINARY
            | t::VARBINARY
            | t::VECTOR => Prefix::Short,
            t::XML | t::UDT | t::JSON => Prefix::Plp,
            t::TEXT | t::NTEXT | t::IMAGE => Prefix::Long,
            t::VARIANT => Prefix::Variant,
            _ => Prefix::Byte,
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'_>, place: Place) -> Result<TypeInfo> {
        let token = reader.u8("type")?;
        TypeInfo::decode_after_token(token, reader, place)
    }

    pub(crate) fn decode_after_token(
        token: u8,
        reader: &mut Reader<'_>,
        place: Place,
    ) -> Result<TypeInfo> {
        let info = match token {
            t::NULL => TypeInfo::simple(token, 0),
            t::INT1 | t::BIT => TypeInfo::simple(token, 1),
            t::INT2 => TypeInfo::simple(token, 2),
            t::INT4 | t::SMALL_DATETIME | t::REAL | t::SMALL_MONEY => TypeInfo::simple(token, 4),
            t::MONEY | t::DATETIME | t::FLOAT | t::INT8 => TypeInfo::simple(token, 8),
            t::INT_N => sized(token, reader, &[1, 2, 4, 8], "1, 2, 4 or 8")?,
            t::BIT_N => sized(token, reader, &[1], "1")?,
            t::FLOAT_N | t::MONEY_N | t::DATETIME_N => sized(token, reader, &[4, 8], "4 or 8")?,
            t::GUID => sized(token, reader, &[16], "16")?,
            t::DECIMAL_N | t::NUMERIC_N | t::OLD_DECIMAL | t::OLD_NUMERIC => {
                decode_decimal(token, reader)?
            }
            t::DATE_N => TypeInfo::simple(token, 3),
            t::TIME_N | t::DATETIME2_N | t::DATETIMEOFFSET_N => decode_time(token, reader)?,
            t::OLD_CHAR | t::OLD_VARCHAR | t::OLD_BINARY | t::OLD_VARBINARY => {
                TypeInfo::simple(token, u32::from(reader.u8("type length")?))
            }
            t::CHAR | t::VARCHAR | t::NCHAR | t::NVARCHAR | t::BINARY | t::VARBINARY => {
                decode_short(token, reader)?
            }
            t::TEXT | t::NTEXT | t::IMAGE => TypeInfo::simple(token, reader.u32("type length")?),
            t::VARIANT => TypeInfo::simple(token, reader.u32("type length")?),
            t::XML => decode_xml(token, reader)?,
            t::UDT => decode_udt(token, reader, place)?,
            t::JSON => TypeInfo::simple(token, PLP),
            t::VECTOR => {
                let max_bytes = u32::from(reader.u16("vector length")?);
                TypeInfo::scaled(token, max_bytes, reader.u8("vector base type")?)
            }
            found => {
                let expected = "a type of TDS 7";
                return Err(TdsError::Unexpected {
                    what: "type",
                    expected,
                    found: found.into(),
                });
            }
        };
        if !info.has_collation() {
            return Ok(info);
        }
        Ok(TypeInfo {
            collation: WireCollation(reader.array("collation")?),
            ..info
        })
    }

    pub(crate) fn encode(&self, place: Place, out: &mut Vec<u8>) {
        out.push(self.token);
        match self.token {
            t::INT_N | t::BIT_N | t::FLOAT_N | t::MONEY_N | t::DATETIME_N | t::GUID => {
                out.push(self.max_bytes as u8)
            }
            t::OLD_CHAR | t::OLD_VARCHAR | t::OLD_BINARY | t::OLD_VARBINARY => {
                out.push(self.max_bytes as u8)
            }
            t::DECIMAL_N | t::NUMERIC_N | t::OLD_DECIMAL | t::OLD_NUMERIC => {
                out.extend_from_slice(&[self.max_bytes as u8, self.precision, self.scale]);
            }
            t::TIME_N | t::DATETIME2_N | t::DATETIMEOFFSET_N => out.push(self.scale),
            t::CHAR | t::VARCHAR | t::NCHAR | t::NVARCHAR | t::BINARY | t::VARBINARY => {
                self.put_short_length(out)
            }
            t::TEXT | t::NTEXT | t::IMAGE | t::VARIANT => {
                out.extend_from_slice(&self.max_bytes.to_le_bytes())
            }
            t::XML => self.encode_xml(out),
            t::UDT => self.encode_udt(place, out),
            t::VECTOR => {
                self.put_short_length(out);
                out.push(self.scale);
            }
            _ => {}
        }
        if self.has_collation() {
            out.extend_from_slice(&self.collation.0);
        }
    }

    fn put_short_length(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(
            &u16::try_from(self.max_bytes)
                .unwrap_or(u16::MAX)
                .to_le_bytes(),
        );
    }

    fn encode_xml(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.xml_schema.is_some()));
        if let Some(schema) = &self.xml_schema {
            put_b_varchar(out, &schema.database);
            put_b_varchar(out, &schema.owner);
            put_us_varchar(out, &schema.collection);
        }
    }

    fn encode_udt(&self, place: Place, out: &mut Vec<u8>) {
        let unnamed = UdtName::default();
        let udt = self.udt.as_deref().unwrap_or(&unnamed);
        if place == Place::Column {
            self.put_short_length(out);
        }
        put_b_varchar(out, &udt.database);
        put_b_varchar(out, &udt.schema);
        put_b_varchar(out, &udt.name);
        if place == Place::Column {
            put_us_varchar(out, &udt.assembly);
        }
    }
}

/// What stands for `data_type` with a client that does not know it.
fn known_type(data_type: DataType, version: TdsVersion) -> DataType {
    use DataType as D;
    let data_type = match data_type {
        D::Date if !version.has_new_dates() => D::NVarChar(Len(10)),
        D::Time { .. } if !version.has_new_dates() => D::NVarChar(Len(16)),
        D::DateTime2 { .. } if !version.has_new_dates() => D::NVarChar(Len(27)),
        D::DateTimeOffset { .. } if !version.has_new_dates() => D::NVarChar(Len(34)),
        D::HierarchyId if !version.has_new_dates() => D::VarBinary(Len(892)),
        D::Geography | D::Geometry if !version.has_new_dates() => D::VARBINARY_MAX,
        same => same,
    };
    if version.has_wide_fields() {
        return data_type;
    }
    match data_type {
        D::VarChar(Len::MAX) => D::Text,
        D::NVarChar(Len::MAX) | D::Xml => D::NText,
        D::VarBinary(Len::MAX) => D::Image,
        same => same,
    }
}

const fn fixed_token(token: u8, max_bytes: u32) -> Option<u8> {
    Some(match (token, max_bytes) {
        (t::BIT_N, _) => t::BIT,
        (t::INT_N, 1) => t::INT1,
        (t::INT_N, 2) => t::INT2,
        (t::INT_N, 4) => t::INT4,
        (t::INT_N, 8) => t::INT8,
        (t::FLOAT_N, 4) => t::REAL,
        (t::FLOAT_N, 8) => t::FLOAT,
        (t::MONEY_N, 4) => t::SMALL_MONEY,
        (t::MONEY_N, 8) => t::MONEY,
        (t::DATETIME_N, 4) => t::SMALL_DATETIME,
        (t::DATETIME_N, 8) => t::DATETIME,
        _ => return None,
    })
}

fn utf16_bytes(len: Len) -> u32 {
    if len.is_max() {
        PLP
    } else {
        u32::from(len.0) * 2
    }
}

/// Sign byte and magnitude of the widest value.
const fn decimal_bytes(precision: u8) -> u32 {
    match precision {
        0..=9 => 5,
        10..=19 => 9,
        20..=28 => 13,
        _ => 17,
    }
}

pub(super) const fn time_bytes(scale: u8) -> u32 {
    match scale {
        0..=2 => 3,
        3..=4 => 4,
        _ => 5,
    }
}

/// The system's own CLR types exist in every database; master stands for all of them.
fn udt(name: &str, class: &str, max_bytes: u32) -> TypeInfo {
    let assembly = format!(
        "Microsoft.SqlServer.Types.{class}, Microsoft.SqlServer.Types, \
         Version=11.0.0.0, Culture=neutral, PublicKeyToken=89845dcd8080cc91"
    );
    let udt = UdtName {
        database: "master".into(),
        schema: "sys".into(),
        name: name.into(),
        assembly,
    };
    TypeInfo {
        udt: Some(Box::new(udt)),
        ..TypeInfo::simple(t::UDT, max_bytes)
    }
}

fn sized(
    token: u8,
    reader: &mut Reader<'_>,
    sizes: &[u8],
    expected: &'static str,
) -> Result<TypeInfo> {
    let size = reader.u8("type length")?;
    if !sizes.contains(&size) {
        return Err(TdsError::Unexpected {
            what: "type length",
            expected,
            found: size.into(),
        });
    }
    Ok(TypeInfo::simple(token, u32::from(size)))
}

fn decode_decimal(token: u8, reader: &mut Reader<'_>) -> Result<TypeInfo> {
    let max_bytes = u32::from(reader.u8("type length")?);
    let precision = reader.u8("precision")?;
    let scale = reader.u8("scale")?;
    if !(1..=38).contains(&precision) {
        let expected = "1 to 38";
        return Err(TdsError::Unexpected {
            what: "precision",
            expected,
            found: precision.into(),
        });
    }
    if scale > precision {
        let expected = "at most the precision";
        return Err(TdsError::Unexpected {
            what: "scale",
            expected,
            found: scale.into(),
        });
    }
    Ok(TypeInfo {
        precision,
        ..TypeInfo::scaled(token, max_bytes, scale)
    })
}

fn decode_time(token: u8, reader: &mut Reader<'_>) -> Result<TypeInfo> {
    let scale = reader.u8("scale")?;
    if scale > 7 {
        return Err(TdsError::Unexpected {
            what: "scale",
            expected: "0 to 7",
            found: scale.into(),
        });
    }
    let date_and_offset = match token {
        t::TIME_N => 0,
        t::DATETIME2_N => 3,
        _ => 5,
    };
    Ok(TypeInfo::scaled(
        token,
        time_bytes(scale) + date_and_offset,
        scale,
    ))
}

fn decode_short(token: u8, reader: &mut Reader<'_>) -> Result<TypeInfo> {
    let length = reader.u16("type length")?;
    let may_be_max = matches!(token, t::VARCHAR | t::NVARCHAR | t::VARBINARY);
    if length > SHORT_BYTES_MAX && !(may_be_max && u32::from(length) == PLP) {
        let expected = "at most 8000, or max";
        return Err(TdsError::Unexpected {
            what: "type length",
            expected,
            found: length.into(),
        });
    }
    Ok(TypeInfo::simple(token, u32::from(length)))
}

fn decode_xml(token: u8, reader: &mut Reader<'_>) -> Result<TypeInfo> {
    let mut info = TypeInfo::simple(token, PLP);
    if reader.u8("XML schema flag")? != 0 {
        info.xml_schema = Some(Box::new(XmlSchema {
            database: reader.b_varchar("XML schema database")?,
            owner: reader.b_varchar("XML schema owner")?,
            collection: reader.us_varchar("XML schema collection")?,
        }));
    }
    Ok(info)
}

fn decode_udt(token: u8, reader: &mut Reader<'_>, place: Place) -> Result<TypeInfo> {
    let is_column = place == Place::Column;
    let max_bytes = if is_column {
        u32::from(reader.u16("UDT length")?)
    } else {
        PLP
    };
    let mut udt = UdtName {
        database: reader.b_varchar("UDT database")?,
        schema: reader.b_varchar("UDT schema")?,
        name: reader.b_varchar("UDT name")?,
        assembly: String::new(),
    };
    if is_column {
        udt.assembly = reader.us_varchar("UDT assembly")?;
    }
    Ok(TypeInfo {
        udt: Some(Box::new(udt)),
        ..TypeInfo::simple(token, max_bytes)
    })
}
