//! The bill of materials, in CycloneDX 1.5 (JSON). It has no serial number, so that the same commit gives the same file.

use super::graph::{Graph, Part};
use serde_json::{Value, json};

const PROGRAM: &str = "daruma";

/// The bill as text.
pub fn json(graph: &Graph, target: &str, epoch: &str) -> Result<String, String> {
    let seconds = epoch.parse().map_err(|_| format!("{epoch} is no time"))?;
    let program = graph.parts.values().find(|part| part.name == PROGRAM);
    let program = program.ok_or("the program is not among its parts")?;
    let others = || graph.parts.values().filter(|part| part.name != PROGRAM);
    let needs = |part: &Part| {
        let on: Vec<String> = part.needs.iter().map(|(n, v)| purl(n, v)).collect();
        json!({ "ref": purl(&part.name, &part.version), "dependsOn": on })
    };
    let mut application = component(program, "application");
    application["properties"] = json!([{ "name": "target", "value": target }]);
    let bill = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "timestamp": utc(seconds), "component": application },
        "components": others().map(|part| component(part, "library")).collect::<Vec<_>>(),
        "dependencies": graph.parts.values().map(needs).collect::<Vec<_>>(),
    });
    let text = serde_json::to_string_pretty(&bill).map_err(|e| e.to_string())?;
    Ok(text + "\n")
}

fn component(part: &Part, kind: &str) -> Value {
    let mut component = json!({
        "type": kind,
        "bom-ref": purl(&part.name, &part.version),
        "name": part.name,
        "version": part.version,
        "licenses": [{ "expression": part.licence.replace(" / ", " OR ").replace('/', " OR ") }],
        "purl": purl(&part.name, &part.version),
    });
    if let Some(checksum) = &part.checksum {
        component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
    }
    if let Some(repository) = &part.repository {
        component["externalReferences"] = json!([{ "type": "vcs", "url": repository }]);
    }
    component
}

fn purl(name: &str, version: &str) -> String {
    format!("pkg:cargo/{name}@{}", version.replace('+', "%2B"))
}

/// Seconds since 1970 as the format wants them. The days by the usual shift of the year to the first of March.
fn utc(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let era_day = days % 146_097;
    let year_of_era = (era_day - era_day / 1_460 + era_day / 36_524 - era_day / 146_096) / 365;
    let day_of_year = era_day - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = days / 146_097 * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    #[test]
    fn times_are_dates() {
        for (seconds, date) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_798_761_599, "2026-12-31T23:59:59Z"),
        ] {
            assert_eq!(super::utc(seconds), date);
        }
    }
}
