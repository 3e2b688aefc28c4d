//! `mssql.conf`: sections in brackets, lines of `name = value`, comments after `#` or `;`.
//!
//! Theory: lines are kept as they are, and a change touches one of them. The file is replaced as a whole, by renaming one that is
//! synced, so a crash leaves the old one or the new one. Names are compared without regard to case.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::{Path, PathBuf};

/// Far more than all settings take.
const BYTES_MAX: u64 = 1 << 20;

/// A configuration file, or what is to become one.
#[derive(Debug)]
pub struct ConfFile {
    path: PathBuf,
    lines: Vec<Line>,
}

#[derive(Debug)]
enum Line {
    /// Empty, or a comment.
    Other(String),
    Section(String),
    /// `section.name` and value.
    Entry(String, String),
}

impl ConfFile {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<ConfFile, String> {
        let failed = |e: io::Error| format!("{}: {e}", path.display());
        let bytes = fs::metadata(path).map_err(failed)?.len();
        if bytes > BYTES_MAX {
            return Err(format!(
                "{}: {bytes} bytes are no configuration",
                path.display()
            ));
        }
        ConfFile::parse(path.into(), fs::read_to_string(path).map_err(failed)?)
    }

    /// Reads a file, or takes one that is not there for an empty one.
    pub fn read_or_begin(path: &Path) -> Result<ConfFile, String> {
        match path.exists() {
            true => ConfFile::read(path),
            false => ConfFile::parse(path.into(), String::new()),
        }
    }

    /// Takes a file's text apart; a line that cannot be read, or a name that is there twice, is an error.
    pub fn parse(path: PathBuf, text: String) -> Result<ConfFile, String> {
        let mut file = ConfFile {
            path,
            lines: Vec::new(),
        };
        let mut section = None;
        for (index, line) in text.lines().enumerate() {
            let at = format!("{}, line {}", file.path.display(), index + 1);
            let trimmed = line.trim();
            if trimmed.is_empty() || trimmed.starts_with(['#', ';']) {
                file.lines.push(Line::Other(line.to_string()));
            } else if let Some(rest) = trimmed.strip_prefix('[') {
                let name = rest.strip_suffix(']').map(str::trim);
                let name = name.filter(|n| !n.is_empty());
                let name = name.ok_or_else(|| format!("{at}: '{trimmed}' is no [section]"))?;
                section = Some(name.to_ascii_lowercase());
                file.lines.push(Line::Section(name.to_string()));
            } else {
                let entry = entry(section.as_deref(), trimmed);
                let (name, value) = entry.map_err(|why| format!("{at}: {why}"))?;
                if file.get(&name).is_some() {
                    return Err(format!("{at}: {name} is there twice; remove one of them"));
                }
                file.lines.push(Line::Entry(name, value));
            }
        }
        Ok(file)
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Names as `section.name`, and values, in their order.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &str)> {
        self.lines.iter().filter_map(|line| match line {
            Line::Entry(name, value) => Some((name.as_str(), value.as_str())),
            _ => None,
        })
    }

    /// The value of a name.
    pub fn get(&self, name: &str) -> Option<&str> {
        let mut entries = self.entries();
        let found = entries.find(|(n, _)| n.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value)
    }

    /// Gives a name a value: in its line, or in a new one at the end of its section.
    pub fn set(&mut self, name: &str, value: &str) {
        let name = name.to_ascii_lowercase();
        let new = Line::Entry(name.clone(), value.to_string());
        let is_it = |line: &Line| matches!(line, Line::Entry(n, _) if *n == name);
        if let Some(line) = self.lines.iter_mut().find(|line| is_it(line)) {
            *line = new;
            return;
        }
        let section = name.split_once('.').map_or("", |(section, _)| section);
        let is_section =
            |line: &Line| matches!(line, Line::Section(s) if s.eq_ignore_ascii_case(section));
        let Some(head) = self.lines.iter().position(is_section) else {
            if !self.lines.is_empty() {
                self.lines.push(Line::Other(String::new()));
            }
            self.lines.extend([Line::Section(section.to_string()), new]);
            return;
        };
        let rest = self.lines.iter().enumerate().skip(head + 1);
        let own = rest.take_while(|(_, line)| !matches!(line, Line::Section(_)));
        let last = own
            .filter(|(_, line)| matches!(line, Line::Entry(..)))
            .last();
        let at = last.map_or(head, |(index, _)| index);
        self.lines.insert(at + 1, new);
    }

    /// Takes a name out; was it there?
    pub fn unset(&mut self, name: &str) -> bool {
        let before = self.lines.len();
        self.lines
            .retain(|line| !matches!(line, Line::Entry(n, _) if n.eq_ignore_ascii_case(name)));
        self.lines.len() < before
    }

    /// As it is written.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for line in &self.lines {
            match line {
                Line::Other(line) => text.push_str(line),
                Line::Section(name) => text.push_str(&format!("[{name}]")),
                Line::Entry(name, value) => {
                    let short = name.split_once('.').map_or(name.as_str(), |(_, n)| n);
                    text.push_str(&format!("{short} = {value}"));
                }
            }
            text.push('\n');
        }
        text
    }

    /// Replaces the file.
    pub fn write(&self) -> Result<(), String> {
        self.replace()
            .map_err(|e| format!("{}: {e}", self.path.display()))
    }

    fn replace(&self) -> io::Result<()> {
        // A link stays one: what it leads to is replaced.
        let path = match self.path.exists() {
            true => self.path.canonicalize()?,
            false => self.path.clone(),
        };
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let mut name = path.file_name().unwrap_or_default().to_os_string();
        name.push(".new");
        let new = folder.join(name);
        // What a crash has left, or somebody else has laid there, is removed and never written through.
        match fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = File::create_new(&new)?;
        if let Ok(old) = fs::metadata(&path) {
            file.set_permissions(old.permissions())?;
            let made = file.metadata()?;
            if (made.uid(), made.gid()) != (old.uid(), old.gid()) {
                fchown(&file, Some(old.uid()), Some(old.gid()))?;
            }
        }
        file.write_all(self.text().as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, &path)?;
        File::open(folder)?.sync_all()
    }
}

fn entry(section: Option<&str>, line: &str) -> Result<(String, String), String> {
    let (name, value) = line
        .split_once('=')
        .ok_or_else(|| format!("'{line}' is no 'name = value'"))?;
    let (name, value) = (name.trim().to_ascii_lowercase(), value.trim());
    let section = section.ok_or_else(|| format!("'{name}' stands before any [section]"))?;
    match value.is_empty() {
        true => Err(format!(
            "{section}.{name} has no value; give it one or remove the line"
        )),
        false => Ok((format!("{section}.{name}"), value.to_string())),
    }
}
