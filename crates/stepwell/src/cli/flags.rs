//! Flags of settings: one for each, named by its key.

use std::ffi::OsString;

use clap::{Arg, ArgAction, ArgMatches, Command};
use stepwell_cli::args::Named;
use stepwell_settings::{Config, SETTINGS, Setting, default_text};

/// Settings that have a second flag, and that flag. Of both, the last one given counts, except for
/// `--data`, which may be given several times.
const ALSO: [(&str, &str); 4] = [
    ("data.paths", "data"),
    ("data.preset", "preset"),
    ("model.kind", "model"),
    ("checkpoint.dir", "checkpoint"),
];
/// Well-known names of settings.
const ALIASES: [(&str, &str); 4] = [
    ("data.skip_max", "skip-max"),
    ("data.epochs", "epochs"),
    ("data.mini_batch", "batch-size"),
    ("model.dim", "dim"),
];
/// The flag that sets all learning rates, and their settings.
const RATE: &str = "lr";
const RATES: [&str; 2] = ["optim.rows.lr", "optim.dense.lr"];

/// Settings whose flags the short help shows.
const SHOWN: [&str; 8] = [
    "threads",
    "memory",
    "seed",
    "data.epochs",
    "data.mini_batch",
    "model.dim",
    "tiers.dram",
    "tiers.ssd",
];

/// Whether a setting depends on the machine and not on the model, so that a command that scores
/// may choose it anew.
pub(crate) fn of_machine(key: &str) -> bool {
    let tiers = key.starts_with("tiers.") && key != "tiers.ssd";
    let of_table =
        key.starts_with("tables.") && [".place", ".dram"].iter().any(|of| key.ends_with(of));
    let others = [
        "threads",
        "memory",
        "device",
        "train.dense",
        "data.batch",
        "pipeline.lookahead",
        "pipeline.horizon",
    ];
    tiers || of_table || others.contains(&key)
}

/// The keys of settings of named tables, features and columns that occur as flags in `args`, as
/// there is no list of all such keys.
pub(super) fn keys_of_parts(args: &[OsString]) -> Vec<String> {
    let key = |arg: &OsString| {
        let flag = arg.to_str()?.strip_prefix("--")?;
        let key = flag.split_once('=').map_or(flag, |(key, _)| key);
        let is_of_part = ["tables.", "features.", "columns.", "model.layers."]
            .iter()
            .any(|part| key.starts_with(part));
        is_of_part.then(|| key.to_owned())
    };
    let mut keys: Vec<String> = Vec::new();
    for key in args.iter().filter_map(key) {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    keys
}

/// Adds a flag for each setting, and for each key in `of_parts`, of a table, a feature, columns or
/// a layer.
/// The help shows the `wanted` ones.
pub(super) fn with_flags(
    command: Command,
    of_parts: &[String],
    wanted: fn(&str) -> bool,
) -> Command {
    let command = SETTINGS.iter().fold(command, |command, setting| {
        let shown = SHOWN.contains(&setting.key);
        let flag = flag_of(setting, &command).hide_short_help(!shown).hide(!wanted(setting.key));
        let command = command.arg(flag);
        match setting.short {
            Some(short) => command.arg(short_flag(short, setting.key).hide(!wanted(setting.key))),
            None => command,
        }
    });
    let rate =
        flag(RATE).help("Learning rate of rows and dense parameters; their own settings win");
    let command = with_helps(command.arg(rate.hide(!wanted(RATES[0]))));
    of_parts.iter().fold(command, |command, key| command.arg(flag(key).hide(true)))
}

/// Adds a help on common flags, and one on all flags.
fn with_helps(command: Command) -> Command {
    let help = Arg::new("help").short('h').long("help").action(ArgAction::HelpShort);
    let all = Arg::new("help_all").long("help-all").action(ArgAction::HelpLong);
    command
        .disable_help_flag(true)
        .arg(help.help("Print help on common flags"))
        .arg(all.help("Print help on all flags, one for each setting"))
}

/// Changes the defaults shown by a command that takes settings not given from a checkpoint.
pub(super) fn of_checkpoint(command: Command) -> Command {
    SETTINGS.iter().fold(command, |command, setting| {
        command.mut_arg(setting.key, |flag| {
            // Scoring does not use the devices that the model was trained on.
            let default = match setting.key {
                "device" => "auto",
                "train.dense" => "host",
                _ => "as in training",
            };
            flag.help(format!("{} [default: {default}]", setting.help))
        })
    })
}

/// The flag of a setting; its help shows the default and the possible names.
fn flag_of(setting: &Setting, command: &Command) -> Arg {
    let (help, default) = (setting.help, default_text(setting, &Config::default()));
    let help = match default.as_str() {
        "" => help.to_owned(),
        default => format!("{help} [default: {default}]"),
    };
    let (mut flag, values) = (flag(setting.key), setting.values());
    let mut help = help;
    let is_there = |other: &str| command.get_arguments().any(|arg| arg.get_long() == Some(other));
    let also = ALSO.iter().find(|(key, other)| *key == setting.key && is_there(other));
    if let Some((_, other)) = also {
        help = format!("`--{other}` for short: {help}");
        flag = flag.overrides_with(*other);
    }
    if let Some((_, alias)) = ALIASES.iter().find(|(key, _)| *key == setting.key) {
        flag = flag.visible_alias(*alias);
    }
    let flag = flag.help(help);
    if values.is_empty() { flag } else { flag.value_parser(Named(values)) }
}

fn flag(key: &str) -> Arg {
    Arg::new(key.to_owned())
        .long(key.to_owned())
        .value_name("VALUE")
        .help_heading("Settings")
        .overrides_with(key.to_owned())
        .allow_negative_numbers(true)
}

/// The flag of a setting's short name. Of both flags, the last one given counts.
fn short_flag(short: &'static str, key: &'static str) -> Arg {
    let help = format!("short for --{key}");
    flag(short).overrides_with(key).help(help).hide_short_help(true)
}

/// The values given with the flags of [`with_flags`], by key.
pub(super) fn by_key(matches: &ArgMatches, of_parts: &[String]) -> Vec<(String, String)> {
    let of_run = SETTINGS.iter().flat_map(Setting::names);
    let keys = of_run.map(str::to_owned).chain(of_parts.iter().cloned());
    let rate: Option<String> = matches.get_one(RATE).cloned();
    // First, so that a rate's own flag wins.
    let rates = rate.iter().flat_map(|rate| RATES.map(|key| (key.to_owned(), rate.clone())));
    let given = keys.filter_map(|key| matches.get_one(&key).cloned().map(|value| (key, value)));
    rates.chain(given).collect()
}

#[cfg(test)]
mod tests {
    use stepwell_settings::{FEATURE_SETTINGS, Kept, TABLE_SETTINGS, find};

    use super::*;

    #[test]
    fn other_flags_are_of_settings() {
        let keys = ALSO.iter().chain(&ALIASES).map(|(key, _)| key).chain(&RATES).chain(&SHOWN);
        keys.for_each(|key| assert!(find(key).is_ok(), "{key}"));
    }

    #[test]
    fn settings_of_the_machine_never_reach_the_model() {
        let of_machine = SETTINGS.iter().filter(|setting| of_machine(setting.key));
        let kept: Vec<Kept> = of_machine.map(|setting| setting.kept).collect();
        assert!(kept.len() >= 10 && kept.iter().all(|kept| *kept == Kept::Never), "{kept:?}");
        for setting in TABLE_SETTINGS {
            let chosen_anew = super::of_machine(&format!("tables.users.{}", setting.key));
            assert_eq!(chosen_anew, setting.kept == Kept::Never, "{}", setting.key);
        }
        for setting in FEATURE_SETTINGS {
            assert!(!super::of_machine(&format!("features.1.{}", setting.key)), "{}", setting.key);
        }
    }

    #[test]
    fn of_a_flag_and_its_short_one_the_last_counts() {
        for (args, value) in [
            (["train", "--ranks", "2", "--ranks.count=3"], ("ranks.count", "3")),
            (["train", "--ranks.count", "2", "--ranks=3"], ("ranks", "3")),
        ] {
            let command = with_flags(Command::new("train"), &[], |_| true);
            let matches = command.try_get_matches_from(args).unwrap();
            let given = by_key(&matches, &[]);
            let given: Vec<_> = given.iter().map(|(key, value)| (&key[..], &value[..])).collect();
            assert_eq!(given, [value]);
        }
    }

    #[test]
    fn one_rate_is_that_of_all_but_of_those_that_have_their_own() {
        let command = with_flags(Command::new("train"), &[], |_| true);
        let args = ["train", "--optim.dense.lr=0.5", "--lr", "0.1", "--epochs=3", "--dim", "8"];
        let given = by_key(&command.try_get_matches_from(args).unwrap(), &[]);
        let mut config = Config::default();
        given.iter().for_each(|(key, value)| find(key).unwrap().set(&mut config, value).unwrap());
        assert_eq!((config.optim.rows.lr, config.optim.dense.lr), (Some(0.1), Some(0.5)));
        assert_eq!((config.data.epochs, config.model.dim), (3, 8));
    }

    #[test]
    fn flags_of_tables_and_features_are_those_that_are_given() {
        let args =
            ["train", "--tables.a.dim", "8", "--features.1.ids=2", "--tables.a.dim=9", "--x"];
        let keys = keys_of_parts(&args.map(OsString::from));
        assert_eq!(keys, ["tables.a.dim", "features.1.ids"]);
        let command = with_flags(Command::new("train"), &keys, |_| true);
        let matches = command.try_get_matches_from(&args[..5]).unwrap();
        let given = by_key(&matches, &keys);
        let given: Vec<_> = given.iter().map(|(key, value)| (&key[..], &value[..])).collect();
        assert_eq!(given, [("tables.a.dim", "9"), ("features.1.ids", "2")]);
    }
}
