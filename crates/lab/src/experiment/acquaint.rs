//! Servers that let each other's log in: an endpoint, its certificate, and a login for the certificate of each other server.

use super::LabError;
use crate::server::free_port;
use crate::sql::Ask;
use daruma_client::client::{Client, ClientError};

const KEY_PASSWORD: &str = "Lab-in-a-scratch-folder-1";
const PORT_ATTEMPTS: usize = 32;

/// Certificate and endpoint; its port.
pub fn create_endpoint(client: &mut Client) -> Result<u16, LabError> {
    client.execute(&format!(
        "USE master; CREATE MASTER KEY ENCRYPTION BY PASSWORD = '{KEY_PASSWORD}'"
    ))?;
    client.execute(
        "CREATE CERTIFICATE lab_certificate WITH SUBJECT = 'daruma lab', EXPIRY_DATE = '20991231'",
    )?;
    let mut attempts = 0;
    loop {
        let port = free_port();
        let created = client.execute(&format!(
            "CREATE ENDPOINT lab_endpoint STATE = STARTED AS TCP (LISTENER_PORT = {port}, LISTENER_IP = ('127.0.0.1')) \
             FOR DATABASE_MIRRORING (ROLE = ALL, AUTHENTICATION = CERTIFICATE lab_certificate, ENCRYPTION = REQUIRED ALGORITHM AES)"
        ));
        attempts += 1;
        match created {
            Ok(()) => return Ok(port),
            // Somebody else was faster.
            Err(error) if attempts < PORT_ATTEMPTS && !error.is_fatal() => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The endpoint's certificate as a constant in a statement.
pub fn certificate(client: &mut Client) -> Result<String, ClientError> {
    client.text("SELECT CONVERT(varchar(max), CERTENCODED(CERT_ID('lab_certificate')), 1)")
}

/// The server lets in whoever has this certificate, and knows it and its login by this name.
pub fn believe(client: &mut Client, peer: &str, certificate: &str) -> Result<(), ClientError> {
    client.execute(&format!(
        "CREATE CERTIFICATE {peer} FROM BINARY = {certificate}; CREATE LOGIN {peer} FROM CERTIFICATE {peer}; \
         GRANT CONNECT ON ENDPOINT::lab_endpoint TO {peer}"
    ))
}
