//! EVENTDATA: an event as a document.

use super::event::{Event, Part};
use crate::host::Host;
use crate::instance::events::{put_text, timestamp, without_secrets};
use crate::session::execution::Execution;

const MINUTE_100NS: i64 = 600_000_000;

impl Execution<'_> {
    /// The event as text of XML. `text` is the statement.
    pub(super) fn document(&self, event: &Event, text: &str) -> String {
        let state = self.state;
        let name = super::types::by_number(event.number).map_or("", |t| t.name);
        let user = state.rights(event.database).ok();
        let user = user.map_or(String::new(), |rights| rights.user_name.clone());
        let database = match &event.named {
            Some(named) => named.clone(),
            None => {
                let database = state.instance.database(event.database);
                database.map_or(String::new(), |d| d.name())
            }
        };
        let mut out = String::from("<EVENT_INSTANCE>");
        element(&mut out, "EventType", name);
        element(&mut out, "PostTime", &self.post_time());
        element(&mut out, "SPID", &state.entry.spid.to_string());
        element(
            &mut out,
            "ServerName",
            &state.instance.options().server_name,
        );
        element(&mut out, "LoginName", &state.login_name());
        element(&mut out, "UserName", &user);
        if !database.is_empty() {
            element(&mut out, "DatabaseName", &database);
        }
        for part in &event.parts {
            match part {
                Part::Text(name, text) => element(&mut out, name, text),
                Part::List(name, of, texts) => {
                    out.push_str(&format!("<{name}>"));
                    texts.iter().for_each(|text| element(&mut out, of, text));
                    out.push_str(&format!("</{name}>"));
                }
            }
        }
        out.push_str("<TSQLCommand>");
        out.push_str(&self.set_options());
        element(&mut out, "CommandText", &without_secrets(text));
        out.push_str("</TSQLCommand></EVENT_INSTANCE>");
        out
    }

    fn set_options(&self) -> String {
        let settings = self.state.settings.borrow();
        let word = |on: bool| if on { "ON" } else { "OFF" };
        format!(
            "<SetOptions ANSI_NULLS=\"{}\" ANSI_NULL_DEFAULT=\"{}\" ANSI_PADDING=\"{}\" QUOTED_IDENTIFIER=\"{}\" ENCRYPTED=\"FALSE\"/>",
            word(settings.ansi_nulls),
            word(settings.ansi_null_dflt_on),
            word(settings.ansi_padding),
            word(settings.quoted_identifier),
        )
    }

    /// The server's local time, to the millisecond.
    fn post_time(&self) -> String {
        let (utc, offset_minutes) = self.now();
        let local = utc.saturating_add(i64::from(offset_minutes) * MINUTE_100NS);
        timestamp(local).trim_end_matches('Z').to_string()
    }
}

/// An element with a text, in which nothing is markup.
fn element(out: &mut String, name: &str, text: &str) {
    out.push_str(&format!("<{name}>"));
    put_text(out, text);
    out.push_str(&format!("</{name}>"));
}
