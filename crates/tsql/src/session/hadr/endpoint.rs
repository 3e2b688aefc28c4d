//! CREATE, ALTER and DROP ENDPOINT: the one endpoint over which replicas speak to each other.
//!
//! Theory: it speaks TLS with certificates on both sides, so encryption cannot be turned off and Windows cannot vouch for
//! anybody. A login that stands for a certificate and has CONNECT on the endpoint is a peer.

use super::options::{integer, not_recognized, word};
use super::{Execution, class};
use crate::error::Result;
use crate::messages;
use daruma_catalog::{EndpointDef, EndpointRole, EndpointState, names_equal};
use daruma_syntax::ast::{CreateEndpoint, Expr, Literal, OptionItem, OptionValue};
use std::net::IpAddr;
use std::sync::Arc;

/// The product's first id of an endpoint that users make.
const FIRST_ID: i32 = 65_536;

impl Execution<'_> {
    pub(crate) fn run_endpoint(&self, statement: &CreateEndpoint) -> Result<()> {
        match statement.alter {
            false => self.create_endpoint(statement),
            true => self.alter_endpoint(statement),
        }
    }

    /// Errors 15247 and 15151.
    pub(crate) fn may_run_endpoint(&self, statement: &CreateEndpoint) -> Result<()> {
        match statement.alter {
            false => self.may_create_endpoint(),
            true => self.endpoint_to("alter", &statement.name.text).map(|_| ()),
        }
    }

    fn may_create_endpoint(&self) -> Result<()> {
        match self.state.server_rights().has("CREATE ENDPOINT") {
            true => Ok(()),
            false => Err(messages::error(15247, &[])),
        }
    }

    /// One that the session may change; 15151 when there is none, or it may not.
    pub(super) fn endpoint_to(&self, verb: &str, name: &str) -> Result<Arc<EndpointDef>> {
        let found = self.instance().hadr.endpoint(name);
        found
            .filter(|e| self.may_alter_endpoint(e.id))
            .ok_or_else(|| messages::error(15151, &[&verb, &"endpoint", &name]))
    }

    fn create_endpoint(&self, statement: &CreateEndpoint) -> Result<()> {
        self.may_create_endpoint()?;
        let rights = self.state.server_rights();
        if statement.owner.is_some() {
            return Err(messages::not_supported("CREATE ENDPOINT .. AUTHORIZATION"));
        }
        let instance = self.instance();
        let hadr = &instance.hadr;
        let endpoints = &hadr.endpoints;
        let make = |id| {
            let mut endpoint = EndpointDef {
                id,
                name: statement.name.text.clone(),
                owner: rights.login.as_ref().map_or(1, |l| l.id),
                state: EndpointState::Stopped,
                port: 0,
                address: None,
                role: EndpointRole::All,
                certificate_id: 0,
            };
            let (transport, payload) = (&statement.transport, &statement.payload);
            let (Some(_), Some(_)) = (transport, payload) else {
                return Err(messages::error(102, &[&statement.name.text]));
            };
            self.change_endpoint(&mut endpoint, statement)?;
            if endpoint.port == 0 {
                return Err(messages::error(102, &[&"TCP"]));
            }
            if endpoint.certificate_id == 0 {
                return Err(messages::not_supported("AUTHENTICATION = WINDOWS"));
            }
            if endpoints.find(|_| true).is_some() {
                return Err(messages::error(7862, &[]));
            }
            self.tell_endpoint(&endpoint)?;
            Ok(endpoint)
        };
        // Its certificate is not dropped before it is stored.
        let certificates = &hadr.certificates;
        certificates.unchanged(|| endpoints.create(FIRST_ID, make))?;
        Ok(())
    }

    fn alter_endpoint(&self, statement: &CreateEndpoint) -> Result<()> {
        let name = statement.name.text.as_str();
        let instance = self.instance();
        let missing = || messages::error(15151, &[&"alter", &"endpoint", &name]);
        let found = self.endpoint_to("alter", name)?;
        let unchanged = statement.state.is_none()
            && statement.transport.is_none()
            && statement.payload.is_none();
        if unchanged {
            return Err(messages::error(7863, &[]));
        }
        let change = |endpoint: &mut EndpointDef| {
            self.change_endpoint(endpoint, statement)?;
            self.tell_endpoint(endpoint)
        };
        let hadr = &instance.hadr;
        let changed = hadr
            .certificates
            .unchanged(|| hadr.endpoints.change(found.id, change))?;
        changed.map(drop).ok_or_else(missing)
    }

    fn may_alter_endpoint(&self, id: i32) -> bool {
        self.may_alter_hadr("ALTER ANY ENDPOINT", class::ENDPOINT, id)
    }

    pub(super) fn drop_endpoint(&self, name: &str) -> Result<()> {
        let hadr = &self.instance().hadr;
        let missing = || messages::error(15151, &[&"drop", &"endpoint", &name]);
        // Nobody waits, and nobody waits for him, who may not.
        self.endpoint_to("drop", name)?;
        let fits = |e: &EndpointDef| names_equal(&e.name, name);
        let may = |id| self.may_alter_endpoint(id);
        let picked = self.leave(&hadr.endpoints, class::ENDPOINT, fits, may)?;
        let (found, _mark) = picked.ok_or_else(missing)?;
        let service = hadr.service();
        hadr.endpoints
            .remove(found.id, || service.set_endpoint(None))
    }

    fn tell_endpoint(&self, endpoint: &EndpointDef) -> Result<()> {
        self.instance().tell_endpoint(endpoint)
    }

    fn change_endpoint(&self, endpoint: &mut EndpointDef, by: &CreateEndpoint) -> Result<()> {
        if let Some(state) = &by.state {
            endpoint.state = match state.as_str() {
                "STARTED" => EndpointState::Started,
                "STOPPED" => EndpointState::Stopped,
                "DISABLED" => EndpointState::Disabled,
                other => return Err(not_recognized(other, "ENDPOINT STATE")),
            };
        }
        if let Some(transport) = &by.transport {
            if !transport.is("TCP") {
                return Err(messages::not_supported(&format!("AS {}", transport.name)));
            }
            items(transport)
                .iter()
                .try_for_each(|item| transport_option(endpoint, item))?;
        }
        if let Some(payload) = &by.payload {
            if !payload.is("DATABASE_MIRRORING") && !payload.is("DATA_MIRRORING") {
                return Err(messages::not_supported(&format!("FOR {}", payload.name)));
            }
            items(payload)
                .iter()
                .try_for_each(|item| self.payload_option(endpoint, item))?;
        }
        Ok(())
    }

    fn payload_option(&self, endpoint: &mut EndpointDef, item: &OptionItem) -> Result<()> {
        let words = word(item)?;
        match item.name.to_uppercase().as_str() {
            "ROLE" => {
                endpoint.role = match words.to_uppercase().as_str() {
                    "ALL" => EndpointRole::All,
                    "PARTNER" => EndpointRole::Partner,
                    "WITNESS" => EndpointRole::Witness,
                    other => return Err(not_recognized(other, "ROLE")),
                }
            }
            "AUTHENTICATION" => {
                let name = certificate_name(&words)?;
                let found = self.instance().hadr.certificate(&name);
                let found = found
                    .ok_or_else(|| messages::error(15151, &[&"find", &"certificate", &name]))?;
                endpoint.certificate_id = found.id;
            }
            "ENCRYPTION" => check_encryption(&words)?,
            other => return Err(not_recognized(other, "ENDPOINT")),
        }
        Ok(())
    }
}

fn items(list: &OptionItem) -> &[OptionItem] {
    match &list.value {
        OptionValue::List(items) => items,
        _ => &[],
    }
}

fn transport_option(endpoint: &mut EndpointDef, item: &OptionItem) -> Result<()> {
    match item.name.to_uppercase().as_str() {
        "LISTENER_PORT" => {
            let port = u16::try_from(integer(item)?)
                .ok()
                .filter(|port| *port >= 1_024);
            endpoint.port = port.ok_or_else(|| not_recognized("LISTENER_PORT", "ENDPOINT"))?;
        }
        "LISTENER_IP" => endpoint.address = listener_address(item)?,
        other => return Err(not_recognized(other, "ENDPOINT")),
    }
    Ok(())
}

/// `ALL`, or `('address')`.
fn listener_address(item: &OptionItem) -> Result<Option<String>> {
    let bad = || not_recognized("LISTENER_IP", "ENDPOINT");
    let OptionValue::List(list) = &item.value else {
        return match word(item)?.eq_ignore_ascii_case("ALL") {
            true => Ok(None),
            false => Err(bad()),
        };
    };
    match list.as_slice() {
        [
            OptionItem {
                value: OptionValue::Expr(Expr::Literal(Literal::String { text, .. })),
                ..
            },
        ] => {
            let address: IpAddr = text.trim().parse().map_err(|_| bad())?;
            Ok(Some(address.to_string()))
        }
        _ => Err(bad()),
    }
}

/// The name in `CERTIFICATE c`; whoever asks for Windows gets it nowhere.
fn certificate_name(words: &str) -> Result<String> {
    let windows = || messages::not_supported("AUTHENTICATION = WINDOWS");
    let (first, rest) = words.trim().split_once(' ').ok_or_else(windows)?;
    if !first.eq_ignore_ascii_case("CERTIFICATE") {
        return Err(windows());
    }
    let rest = rest.trim();
    let Some(quoted) = rest.strip_prefix('[') else {
        return match rest.contains(' ') {
            true => Err(windows()),
            false => Ok(rest.to_string()),
        };
    };
    let name = quoted.strip_suffix(']').ok_or_else(windows)?;
    Ok(name.replace("]]", "]"))
}

/// TLS 1.3 with AES or ChaCha, always.
fn check_encryption(words: &str) -> Result<()> {
    let upper = words.to_uppercase();
    let refused = || messages::not_supported(&format!("ENCRYPTION = {upper}"));
    match upper.split(' ').collect::<Vec<_>>().as_slice() {
        ["REQUIRED" | "SUPPORTED"] | ["REQUIRED" | "SUPPORTED", "ALGORITHM", "AES"] => Ok(()),
        _ => Err(refused()),
    }
}
