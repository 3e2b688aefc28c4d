//! Operands that an expression looks at more than once: of BETWEEN, simple CASE, NULLIF, CHOOSE and IN.
//!
//! Theory: T-SQL defines these forms by others that name the operand several times. A short operand is copied, so that
//! indexes and column kernels see plain comparisons; a long one, or one with a subquery, is bound once by [`Kind::Let`].
//! Copying it would double an expression with each level of nesting.

use super::tree::*;
use super::types;
use crate::error::Result;
use daruma_syntax::ast::CompareOp;

/// Operands of no more nodes are copied.
const COPIED_NODES: usize = 12;
/// All copies of one operand of IN.
const COPIED_IN_ALL: usize = 1 << 14;

/// An operand, and what stands for it where it is looked at.
pub(super) struct Operand {
    shared: Option<Scalar>,
    stand_in: Scalar,
}

impl Operand {
    pub(super) fn new(scalar: Scalar) -> Operand {
        match is_short(&scalar) {
            true => Operand {
                shared: None,
                stand_in: scalar,
            },
            false => Operand::shared(scalar),
        }
    }

    fn shared(scalar: Scalar) -> Operand {
        Operand {
            stand_in: Scalar::new(Kind::Local, scalar.ty),
            shared: Some(scalar),
        }
    }

    pub(super) fn again(&self) -> Scalar {
        self.stand_in.clone()
    }

    /// `body`, which looks at the operand.
    pub(super) fn around(self, body: Scalar) -> Scalar {
        match self.shared {
            None => body,
            Some(value) => {
                let ty = body.ty;
                let (value, body) = (Box::new(value), Box::new(body));
                Scalar::new(Kind::Let { value, body }, ty)
            }
        }
    }
}

fn is_short(scalar: &Scalar) -> bool {
    scalar.size(COPIED_NODES + 1) <= COPIED_NODES
        && !scalar.any(&|s| {
            matches!(
                s.kind,
                Kind::Subquery(_) | Kind::UserFunction { .. } | Kind::XmlMethod { .. }
            )
        })
}

/// `expr IN (list)`: one node when the members compare with the expression as it is, otherwise a chain of ORs.
pub(super) fn in_list(expr: Scalar, list: Vec<Scalar>) -> Result<Scalar> {
    // The conversions of the comparisons are found out with a stand-in, so that the expression is not copied for each member.
    let stand_in = match expr.is_null_literal() {
        true => expr.clone(),
        false => Scalar::new(Kind::Local, expr.ty),
    };
    let mut pairs = Vec::with_capacity(list.len());
    for member in list {
        pairs.push(types::comparable(stand_in.clone(), member, "equal to")?);
    }
    if let Some((first, _)) = pairs.first()
        && first.kind == stand_in.kind
        && pairs.len() > 1
        && pairs.iter().all(|(l, _)| l == first)
    {
        let expr = Box::new(Scalar {
            kind: expr.kind,
            ty: first.ty,
        });
        let list = pairs.into_iter().map(|(_, r)| r).collect();
        return Ok(Scalar::condition(Kind::InList { expr, list }));
    }
    let nodes = expr.size(COPIED_IN_ALL).saturating_mul(pairs.len());
    let is_copied = pairs.len() == 1 || is_short(&expr) && nodes <= COPIED_IN_ALL;
    let operand = match is_copied {
        true => Operand {
            shared: None,
            stand_in: expr,
        },
        false => Operand::shared(expr),
    };
    let mut equal = Vec::with_capacity(pairs.len());
    for (mut left, right) in pairs {
        in_place(&mut left, &operand.stand_in);
        let (left, right) = (Box::new(left), Box::new(right));
        let op = CompareOp::Equal;
        equal.push(Scalar::condition(Kind::Compare { op, left, right }));
    }
    if equal.len() == 1
        && let Some(only) = equal.pop()
    {
        return Ok(only);
    }
    Ok(operand.around(Scalar::condition(Kind::Or(equal))))
}

/// Puts the operand where its stand-in is: bare, or below conversions.
fn in_place(scalar: &mut Scalar, operand: &Scalar) {
    match &mut scalar.kind {
        Kind::Local => scalar.kind = operand.kind.clone(),
        Kind::Convert { input, .. } => in_place(input, operand),
        _ => {}
    }
}
