//! Training data of a case, and the forms of its files.

use super::text::Text;
use crate::dice::Dice;

/// Training data of a case.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Data {
    Text(Text),
    /// The built-in stream.
    Stream {
        examples: u64,
        vocab_scale: &'static str,
    },
}

/// Form of a text file. For the built-in stream, `Plain` means generated on the fly, and the others
/// are files that `stepwell synth` and `stepwell convert` write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Form {
    Plain,
    Gzip,
    Zstd,
    /// As packed by `stepwell convert`.
    Packed,
}

/// Draws a form for each file, and whether training files are joined.
pub(super) fn forms(dice: &mut Dice, data: &Data) -> (Vec<Form>, bool) {
    let Data::Text(text) = data else {
        return (vec![dice.pick(&[Form::Plain, Form::Plain, Form::Zstd, Form::Packed])], false);
    };
    let (parts, may_be_packed) = (text.parts.len(), text.malformed == 0);
    let count = parts + usize::from(text.evaluation.is_some());
    let one = dice.chance(50);
    let mut forms: Vec<Form> = (0..count).map(|_| form(dice, may_be_packed)).collect();
    if one {
        forms = vec![forms[0]; count];
    }
    let joined = may_be_packed && parts > 1 && dice.chance(40);
    if joined {
        forms[..parts].fill(Form::Packed);
    }
    (forms, joined)
}

fn form(dice: &mut Dice, may_be_packed: bool) -> Form {
    let packed = if may_be_packed { Form::Packed } else { Form::Zstd };
    dice.pick(&[Form::Plain, Form::Plain, Form::Gzip, Form::Zstd, packed])
}
