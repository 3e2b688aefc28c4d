//! Parameter lists of modules and of texts that clients send, prepared for being called again and again.
//!
//! A call needs of a parameter the key of its name and its type. Both are found once: built-in types mean the same
//! everywhere and for ever, alias types are looked up at each call.

use super::types::named_type;
use super::types::type_arguments;
use daruma_catalog::name_key;
use daruma_syntax::ast::{Parameter, ParameterType};
use daruma_value::DataType;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

#[derive(Debug, Default)]
pub(crate) struct ParameterList {
    pub parameters: Vec<Parameter>,
    pub shape: ParameterShape,
}

/// Facts about parameters that calls need, in their order.
#[derive(Debug, Default)]
pub(crate) struct ParameterShape {
    /// Keys of the names.
    pub keys: Vec<Arc<str>>,
    /// Built-in types; `None` for others and for wrong ones.
    pub types: Vec<Option<DataType>>,
    /// Hash of names and types when all are built in.
    pub signature: Option<u64>,
}

impl ParameterList {
    /// The list with its shape, by which plans are found.
    pub fn new(parameters: Vec<Parameter>) -> ParameterList {
        let shape = ParameterShape::of(&parameters);
        ParameterList { parameters, shape }
    }
}

impl ParameterShape {
    /// Names and types of the parameters; those of user types make plans that are kept for nobody else.
    pub fn of(parameters: &[Parameter]) -> ParameterShape {
        let keys: Vec<Arc<str>> = parameters
            .iter()
            .map(|p| Arc::from(name_key(&p.name)))
            .collect();
        let types: Vec<_> = parameters.iter().map(built_in).collect();
        let known: Option<Vec<DataType>> = types.iter().copied().collect();
        let signature = known.map(|types| signature(keys.iter().zip(types)));
        ParameterShape {
            keys,
            types,
            signature,
        }
    }
}

/// Facts that plans depend on: one text may run with parameters of different types.
pub(crate) fn signature<'a>(parameters: impl Iterator<Item = (&'a Arc<str>, DataType)>) -> u64 {
    let mut hasher = DefaultHasher::new();
    let mut count = 0u64;
    for parameter in parameters {
        parameter.hash(&mut hasher);
        count += 1;
    }
    match count {
        0 => 0,
        _ => hasher.finish(),
    }
}

fn built_in(parameter: &Parameter) -> Option<DataType> {
    match &parameter.data_type {
        ParameterType::Named(name) if name.schema.is_none() => {
            named_type(&name.name.text, &type_arguments(name))?.ok()
        }
        _ => None,
    }
}
