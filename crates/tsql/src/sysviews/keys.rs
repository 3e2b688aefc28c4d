//! Certificates, master keys and the endpoint of replicas.

use super::define::{Rows, View};
use super::source::Source;
use crate::error::Result;
use crate::instance::{MASTER, keys};
use daruma_catalog::{EndpointDef, EndpointRole, EndpointState, KeyEncryption};
use std::sync::Arc;

pub(super) const VIEWS: &[View] = &[
    View::sys("certificates", CERTIFICATES, certificates),
    View::sys("symmetric_keys", SYMMETRIC_KEYS, symmetric_keys),
    View::sys(
        "database_mirroring_endpoints",
        DATABASE_MIRRORING_ENDPOINTS,
        mirroring_endpoints,
    ),
];

const CERTIFICATES: &str = "
    name sysname; certificate_id int; principal_id int?; pvt_key_encryption_type char(2);
    pvt_key_encryption_type_desc nvarchar(60)?; is_active_for_begin_dialog bit?; issuer_name nvarchar(442)?;
    cert_serial_number nvarchar(64)?; sid varbinary(85)?; string_sid nvarchar(128)?; subject nvarchar(4000)?;
    expiry_date datetime?; start_date datetime?; thumbprint varbinary(32); attested_by nvarchar(260)?;
    pvt_key_last_backup_date datetime?; key_length int?";

const SYMMETRIC_KEYS: &str = "
    name sysname; principal_id int?; symmetric_key_id int; key_length int; key_algorithm char(2);
    algorithm_desc nvarchar(60)?; create_date datetime; modify_date datetime; key_guid uniqueidentifier?;
    key_thumbprint sql_variant?; provider_type nvarchar(120)?; cryptographic_provider_guid uniqueidentifier?;
    cryptographic_provider_algid sql_variant?";

const DATABASE_MIRRORING_ENDPOINTS: &str = "
    name sysname; endpoint_id int; principal_id int?; protocol tinyint; protocol_desc nvarchar(60)?; type tinyint;
    type_desc nvarchar(60)?; state tinyint?; state_desc nvarchar(60)?; is_admin_endpoint bit; role tinyint?;
    role_desc nvarchar(60)?; is_encryption_enabled bit; connection_auth tinyint; connection_auth_desc nvarchar(60)?;
    certificate_id int; encryption_algorithm tinyint; encryption_algorithm_desc nvarchar(60)?";

/// Those of master, for whoever may see all definitions of the server.
fn sees_keys(source: &Source<'_>) -> bool {
    source.database == MASTER && source.host.has_server_permission("VIEW ANY DEFINITION")
}

fn certificates(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    if !sees_keys(source) {
        return Ok(());
    }
    let date = |seconds: i64| source.utc(seconds.saturating_mul(10_000_000));
    for certificate in source.instance()?.hadr.certificates.all() {
        let text = keys::describe(&certificate.der)?;
        let (encrypted, encrypted_name) = match certificate.private_key.as_ref().map(|k| k.by) {
            None => ("NA", "NO_PRIVATE_KEY"),
            Some(KeyEncryption::MasterKey) => ("MK", "ENCRYPTED_BY_MASTER_KEY"),
            Some(KeyEncryption::Password) => ("PW", "ENCRYPTED_BY_PASSWORD"),
        };
        let thumbprint = keys::thumbprint(&certificate.der);
        rows.add()
            .set("name", &certificate.name)
            .set("certificate_id", certificate.id)
            .set("principal_id", certificate.owner)
            .set("pvt_key_encryption_type", encrypted)
            .set("pvt_key_encryption_type_desc", encrypted_name)
            .set(
                "is_active_for_begin_dialog",
                certificate.active_for_begin_dialog,
            )
            .set("issuer_name", text.issuer)
            .set("cert_serial_number", text.serial_number)
            .set("subject", text.subject)
            .set("expiry_date", date(text.not_after))
            .set("start_date", date(text.not_before))
            .set("thumbprint", thumbprint)
            .set("attested_by", "")
            .set(
                "pvt_key_last_backup_date",
                source.time(certificate.key_backed_up_utc),
            )
            .set("key_length", text.key_bits);
    }
    Ok(())
}

fn symmetric_keys(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    if !sees_keys(source) {
        return Ok(());
    }
    for key in source.instance()?.hadr.master_key.all() {
        rows.add()
            .set("name", "##MS_DatabaseMasterKey##")
            .set("principal_id", 1)
            .set("symmetric_key_id", 101)
            .set("key_length", 256)
            .set("key_algorithm", "A3")
            .set("algorithm_desc", "AES_256")
            .set("create_date", source.time(key.created_utc))
            .set("modify_date", source.time(key.modified_utc))
            .set("key_guid", key.guid.to_vec());
    }
    Ok(())
}

/// Endpoints that users made, for whoever may see them.
pub(super) fn user_endpoints(source: &Source<'_>) -> Result<Vec<Arc<EndpointDef>>> {
    let may = ["VIEW ANY DEFINITION", "ALTER ANY ENDPOINT"];
    match may.iter().any(|p| source.host.has_server_permission(p)) {
        true => Ok(source.instance()?.hadr.endpoints.all()),
        false => Ok(Vec::new()),
    }
}

/// What all views of endpoints show of one that a user made.
pub(super) fn user_endpoint(endpoint: &EndpointDef, rows: &mut Rows<'_>) {
    let (state, state_name) = match endpoint.state {
        EndpointState::Started => (0, "STARTED"),
        EndpointState::Stopped => (1, "STOPPED"),
        EndpointState::Disabled => (2, "DISABLED"),
    };
    rows.add()
        .set("name", &endpoint.name)
        .set("endpoint_id", endpoint.id)
        .set("principal_id", endpoint.owner)
        .set("protocol", 2)
        .set("protocol_desc", "TCP")
        .set("type", 4)
        .set("type_desc", "DATABASE_MIRRORING")
        .set("state", state)
        .set("state_desc", state_name)
        .set("is_admin_endpoint", false);
}

fn mirroring_endpoints(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for endpoint in user_endpoints(source)? {
        user_endpoint(&endpoint, rows);
        let (role, role_name) = match endpoint.role {
            EndpointRole::Partner => (1, "PARTNER"),
            EndpointRole::Witness => (2, "WITNESS"),
            EndpointRole::All => (3, "ALL"),
        };
        rows.set("role", role)
            .set("role_desc", role_name)
            .set("is_encryption_enabled", true)
            .set("connection_auth", 4)
            .set("connection_auth_desc", "CERTIFICATE")
            .set("certificate_id", endpoint.certificate_id)
            .set("encryption_algorithm", 2)
            .set("encryption_algorithm_desc", "AES");
    }
    Ok(())
}
