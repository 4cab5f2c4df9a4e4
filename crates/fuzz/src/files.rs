//! The files of a case: drawn text in every form that its variants read.

use std::fs;
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use stepwell_base::hash;

use crate::check;
use crate::draw::{Case, Data, Form, Part, Text};
use crate::fault::{Result, broken, found};
use crate::process::{Call, Shop};

/// Folder of the data in the folder of a case.
const FOLDER: &str = "data";

/// The files of a case, and what they hold.
#[derive(Debug, Default)]
pub(crate) struct Files {
    /// For each file, those to train on first, whether each of its lines is an example.
    pub(crate) lines: Vec<Vec<bool>>,
    /// Files to train on; the one behind them is to be evaluated on.
    parts: usize,
    /// Name and checksum of everything that was written.
    sums: Vec<(String, u64)>,
}

impl Files {
    /// Writes what the variants of `case` read, and plain text for the reference.
    pub(crate) fn write(case: &Case, shop: &mut Shop) -> Result<Self> {
        let mut files = Self::default();
        let Data::Text(text) = &case.data else { return Ok(files) };
        files.parts = text.parts.len();
        fs::create_dir_all(shop.path(FOLDER)).map_err(broken("make a folder for data"))?;
        for (at, part) in case.parts().into_iter().enumerate() {
            let mut forms = vec![Form::Plain];
            forms.extend(case.variants.iter().map(|variant| variant.forms[at]));
            forms.sort();
            forms.dedup();
            files.write_part(text, part, &forms, at, shop)?;
        }
        Ok(files)
    }

    fn write_part(
        &mut self,
        text: &Text,
        part: &Part,
        forms: &[Form],
        at: usize,
        shop: &mut Shop,
    ) -> Result<()> {
        let drawn = text.content(part);
        for form in forms {
            let name = self.name(at, *form);
            match form {
                Form::Plain => shop.write(&name, &drawn.bytes)?,
                Form::Gzip => shop.write(&name, &gzip(&drawn.bytes)?)?,
                Form::Zstd => shop.write(&name, &zstd(&drawn.bytes)?)?,
                Form::Packed => {
                    let plain = self.name(at, Form::Plain);
                    let call = Call::new(&["convert", &plain, "--out", &name]);
                    let ran = shop.run(&call, None)?;
                    check::well(&ran)?;
                }
            }
            let bytes = fs::read(shop.path(&name)).map_err(broken("read a file of data"))?;
            self.sums.push((name, hash::checksum(&bytes)));
        }
        self.lines.push(drawn.examples);
        Ok(())
    }

    /// The name of a file in the folder of the case.
    fn name(&self, at: usize, form: Form) -> String {
        let stem = if at < self.parts { format!("part-{at}") } else { "evaluation".to_owned() };
        format!("{FOLDER}/{stem}{}", ending(form))
    }

    /// The flags that name the files, each in its form.
    pub(crate) fn flags(&self, forms: &[Form], pattern: bool) -> Vec<String> {
        let mut flags = Vec::new();
        let train = &forms[..self.parts.min(forms.len())];
        let one = train.first().filter(|first| train.iter().all(|form| form == *first));
        let names = match one {
            Some(form) if pattern => vec![format!("{FOLDER}/part-*{}", ending(*form))],
            _ => train.iter().enumerate().map(|(at, form)| self.name(at, *form)).collect(),
        };
        for name in names {
            flags.extend(["--data".to_owned(), name]);
        }
        if let Some(form) = forms.get(self.parts) {
            flags.extend(["--data.eval_paths".to_owned(), self.name(self.parts, *form)]);
        }
        flags
    }

    /// Checks that no file of data was changed.
    pub(crate) fn check(&self, shop: &Shop) -> Result<()> {
        for (name, sum) in &self.sums {
            match fs::read(shop.path(name)) {
                Ok(bytes) if hash::checksum(&bytes) == *sum => {}
                _ => return Err(found(format!("{name}, a file of data, was changed"))),
            }
        }
        Ok(())
    }
}

fn ending(form: Form) -> &'static str {
    match form {
        Form::Plain => ".tsv",
        Form::Gzip => ".tsv.gz",
        Form::Zstd => ".tsv.zst",
        Form::Packed => ".packed",
    }
}

fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let written = encoder.write_all(bytes).and_then(|()| encoder.finish());
    written.map_err(broken("compress data"))
}

fn zstd(bytes: &[u8]) -> Result<Vec<u8>> {
    zstd::encode_all(bytes, 1).map_err(broken("compress data"))
}
