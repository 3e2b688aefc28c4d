//! Remote procedure calls as clients send them.

use daruma_tsql::session::{RpcArgument, RpcProcedure, RpcRequest};
use daruma_value::{DataType, Value};

/// An argument; by its place when it has no name.
pub fn arg(name: &str, value: Value, data_type: DataType) -> RpcArgument {
    RpcArgument {
        name: name.to_string(),
        value: Some(value),
        data_type,
        output: false,
        table: None,
    }
}

pub fn int(value: i32) -> RpcArgument {
    arg("", Value::Int(value), DataType::Int)
}

pub fn text(value: &str) -> RpcArgument {
    arg("", Value::str(value), DataType::NVARCHAR_MAX)
}

pub fn output(argument: RpcArgument) -> RpcArgument {
    RpcArgument {
        output: true,
        ..argument
    }
}

/// A call of the procedure with this number.
pub fn request(id: u16, args: Vec<RpcArgument>) -> RpcRequest {
    RpcRequest {
        procedure: RpcProcedure::Id(id),
        args,
        no_metadata: false,
    }
}
