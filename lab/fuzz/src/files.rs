//! The files of a case: random text in every form that its variants read.

use std::fs;
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use stepwell_base::hash;

use crate::check;
use crate::draw::{Case, Data, Form, Part, Text, Variant};
use crate::fault::{Result, broken, found};
use crate::process::{Call, Shop};

/// Data directory inside the directory of a case.
const FOLDER: &str = "data";
/// All training files packed into one.
const JOINED: &str = "data/joined.packed";

/// The files of a case and their contents.
#[derive(Debug, Default)]
pub(crate) struct Files {
    /// For each file, training files first, whether each line is an example.
    pub(crate) lines: Vec<Vec<bool>>,
    /// Number of training files; a file after them is for evaluation.
    parts: usize,
    /// Name and checksum of every file written.
    sums: Vec<(String, u64)>,
}

impl Files {
    /// Writes the files for the variants of `case`, and plain text for the reference.
    pub(crate) fn write(case: &Case, shop: &mut Shop) -> Result<Self> {
        let mut files = Self::default();
        let text = match &case.data {
            Data::Text(text) => text,
            Data::Stream { .. } => {
                fs::create_dir_all(shop.path(FOLDER))
                    .map_err(broken("create a folder for data"))?;
                files.write_stream(case, shop)?;
                return Ok(files);
            }
        };
        files.parts = text.parts.len();
        fs::create_dir_all(shop.path(FOLDER)).map_err(broken("create a folder for data"))?;
        for (at, part) in case.parts().into_iter().enumerate() {
            let mut forms = vec![Form::Plain];
            let apart = case.variants.iter().filter(|variant| !variant.joined || at >= files.parts);
            forms.extend(apart.map(|variant| variant.forms[at]));
            forms.sort();
            forms.dedup();
            files.write_part(text, part, &forms, at, shop)?;
        }
        if case.variants.iter().any(|variant| variant.joined) {
            let mut call = Call::new(&["convert", "--out", JOINED]);
            call.args.extend((0..files.parts).map(|at| files.name(at, Form::Plain)));
            check::well(&shop.run(&call, None)?)?;
            files.remember(JOINED, shop)?;
        }
        Ok(files)
    }

    /// Writes the built-in stream of a case in the forms that its variants read.
    fn write_stream(&mut self, case: &Case, shop: &mut Shop) -> Result<()> {
        let Data::Stream { examples, vocab_scale } = &case.data else { return Ok(()) };
        self.parts = 1;
        let of = ["--seed", case.model.get("seed"), "--examples", &examples.to_string()];
        for (form, command) in [(Form::Zstd, "synth"), (Form::Packed, "convert")] {
            if !case.variants.iter().any(|variant| variant.forms[0] == form) {
                continue;
            }
            let plain = self.name(0, Form::Plain);
            let name = if form == Form::Zstd { plain } else { self.name(0, form) };
            let mut call = Call::new(&[command, "--out", &name]).with(&of);
            call = call.with(&["--vocab-scale", vocab_scale]);
            if form == Form::Packed {
                call = call.with(&["--synth"]);
            }
            check::well(&shop.run(&call, None)?)?;
            if form == Form::Zstd {
                let bytes = fs::read(shop.path(&name)).map_err(broken("read a data file"))?;
                shop.write(&self.name(0, form), &zstd(&bytes)?)?;
            }
            self.remember(&self.name(0, form), shop)?;
        }
        Ok(())
    }

    /// Records the checksum of a file.
    fn remember(&mut self, name: &str, shop: &Shop) -> Result<()> {
        let bytes = fs::read(shop.path(name)).map_err(broken("read a data file"))?;
        self.sums.push((name.to_owned(), hash::checksum(&bytes)));
        Ok(())
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
            self.remember(&name, shop)?;
        }
        self.lines.push(drawn.examples);
        Ok(())
    }

    /// Name of a file in the directory of the case.
    fn name(&self, at: usize, form: Form) -> String {
        let stem = if at < self.parts { format!("part-{at}") } else { "evaluation".to_owned() };
        format!("{FOLDER}/{stem}{}", ending(form))
    }

    /// Flags for plain text, or for the built-in stream.
    pub(crate) fn plain_flags(&self) -> Vec<String> {
        self.named(&vec![Form::Plain; self.lines.len().max(1)], false)
    }

    /// Flags for the files of a variant.
    pub(crate) fn flags(&self, variant: &Variant) -> Vec<String> {
        let mut flags = self.named(&variant.forms, variant.pattern);
        if variant.joined {
            let joined = ["--data", JOINED].map(str::to_owned);
            let behind = flags.iter().position(|flag| flag == "--data.eval_paths");
            flags.splice(..behind.unwrap_or(flags.len()), joined);
        }
        flags
    }

    fn named(&self, forms: &[Form], pattern: bool) -> Vec<String> {
        let mut flags = Vec::new();
        if self.lines.is_empty() && forms == [Form::Plain] {
            return flags;
        }
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

    /// Checks that no data file has changed.
    pub(crate) fn check(&self, shop: &Shop) -> Result<()> {
        for (name, sum) in &self.sums {
            match fs::read(shop.path(name)) {
                Ok(bytes) if hash::checksum(&bytes) == *sum => {}
                _ => return Err(found(format!("data file {name} was changed"))),
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
