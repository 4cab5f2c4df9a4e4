//! The first word of each message of stage `ask`.

use stepwell_fabric::{Malformed, Message, Reader};

/// State of the sender's part of a mini-batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// The sender's request follows.
    Asks {
        /// Whether a checkpoint comes before the batch of this mini-batch.
        after_checkpoint: bool,
    },
    /// The sender's part is malformed: no rank trains this mini-batch.
    Fails {
        /// Whether a checkpoint of the earlier training is written.
        keeps: bool,
        /// File and line, if a line is malformed.
        place: Option<(u32, u64)>,
        /// The reason.
        why: String,
    },
}

const ASKS: u64 = 0;
const ASKS_AFTER_CHECKPOINT: u64 = 1;
const FAILS: u64 = 2;
const FAILS_AND_KEEPS: u64 = 3;

impl Word {
    pub(super) fn put(&self, message: &mut Message) {
        match self {
            Self::Asks { after_checkpoint: false } => message.put(&[ASKS]),
            Self::Asks { after_checkpoint: true } => message.put(&[ASKS_AFTER_CHECKPOINT]),
            Self::Fails { keeps, place, why } => {
                message.put(&[if *keeps { FAILS_AND_KEEPS } else { FAILS }]);
                let words = place.map(|(file, line)| [u64::from(file), line]);
                message.put::<u64>(words.as_ref().map_or(&[], |words| &words[..]));
                message.put(why.as_bytes());
            }
        }
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let word = reader.take_exactly::<u64>(1)?[0];
        Ok(match word {
            ASKS | ASKS_AFTER_CHECKPOINT => {
                Self::Asks { after_checkpoint: word == ASKS_AFTER_CHECKPOINT }
            }
            FAILS | FAILS_AND_KEEPS => {
                let place = match reader.take::<u64>()? {
                    [] => None,
                    [file, line] => Some((*file as u32, *line)),
                    _ => return Err(Malformed::Wrong("it reports a failure without a position")),
                };
                let why = String::from_utf8_lossy(reader.take()?).into_owned();
                Self::Fails { keeps: word == FAILS_AND_KEEPS, place, why }
            }
            _ => return Err(Malformed::Wrong("it is neither a request nor a failure")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_they_were_put() {
        let why = "days.tsv:7: no label";
        let fails = |keeps, place| Word::Fails { keeps, place, why: why.to_owned() };
        let asks = |after_checkpoint| Word::Asks { after_checkpoint };
        for word in [asks(false), asks(true), fails(false, None), fails(true, Some((3, 7)))] {
            let mut message = Message::new();
            word.put(&mut message);
            let mut reader = message.reader();
            assert_eq!(Word::read(&mut reader), Ok(word));
            assert_eq!(reader.end(), Ok(()));
        }
        let mut message = Message::new();
        message.put(&[4u64]);
        assert!(matches!(Word::read(&mut message.reader()), Err(Malformed::Wrong(_))));
    }
}
