//! The prices on a command line.

use clap::Args;

use super::super::price_file::{self, Entry, Fields};

#[derive(Args)]
pub(crate) struct Given {
    /// USD per million tokens of the prompt
    #[arg(long, value_name = "USD", allow_hyphen_values = true)]
    input_per_1m: Option<String>,
    /// USD per million tokens of the completion
    #[arg(long, value_name = "USD", allow_hyphen_values = true)]
    output_per_1m: Option<String>,
    /// USD per million cached tokens of the prompt [default: as other tokens of the prompt]
    #[arg(long, value_name = "USD", allow_hyphen_values = true)]
    cached_input_per_1m: Option<String>,
    /// USD per million tokens where only the total is known [default: as the prompt, as an estimate]
    #[arg(long, value_name = "USD", allow_hyphen_values = true)]
    total_per_1m: Option<String>,
    /// USD per million tokens of the prompt written to a cache of the default lifetime [default: as the prompt]
    #[arg(long, value_name = "USD", allow_hyphen_values = true)]
    cache_write_per_1m: Option<String>,
    /// USD per million tokens of the prompt written to a cache that lasts one hour [default: as other cache writes]
    #[arg(
        long = "cache-write-1h-per-1m",
        value_name = "USD",
        allow_hyphen_values = true
    )]
    cache_write_1h_per_1m: Option<String>,
    /// USD per million audio tokens of the prompt [default: as the prompt]
    #[arg(long, value_name = "USD", allow_hyphen_values = true)]
    input_audio_per_1m: Option<String>,
    /// USD per million image tokens of the prompt [default: as the prompt]
    #[arg(long, value_name = "USD", allow_hyphen_values = true)]
    input_image_per_1m: Option<String>,
    /// USD per million audio tokens of the completion [default: as the completion]
    #[arg(long, value_name = "USD", allow_hyphen_values = true)]
    output_audio_per_1m: Option<String>,
    /// USD per million tokens of reasoning [default: as the completion]
    #[arg(long, value_name = "USD", allow_hyphen_values = true)]
    reasoning_per_1m: Option<String>,
    /// USD per thousand tokens of the prompt
    #[arg(long, value_name = "USD", allow_hyphen_values = true)]
    input_per_1k: Option<String>,
    /// USD per thousand tokens of the completion
    #[arg(long, value_name = "USD", allow_hyphen_values = true)]
    output_per_1k: Option<String>,
    /// USD per thousand cached tokens of the prompt
    #[arg(long, value_name = "USD", allow_hyphen_values = true)]
    cached_input_per_1k: Option<String>,
    /// USD per thousand tokens where only the total is known
    #[arg(long, value_name = "USD", allow_hyphen_values = true)]
    total_per_1k: Option<String>,
    /// USD per thousand tokens of the prompt written to a cache of the default lifetime
    #[arg(long, value_name = "USD", allow_hyphen_values = true)]
    cache_write_per_1k: Option<String>,
    /// USD per thousand tokens of the prompt written to a cache that lasts one hour
    #[arg(
        long = "cache-write-1h-per-1k",
        value_name = "USD",
        allow_hyphen_values = true
    )]
    cache_write_1h_per_1k: Option<String>,
    /// USD per thousand audio tokens of the prompt
    #[arg(long, value_name = "USD", allow_hyphen_values = true)]
    input_audio_per_1k: Option<String>,
    /// USD per thousand image tokens of the prompt
    #[arg(long, value_name = "USD", allow_hyphen_values = true)]
    input_image_per_1k: Option<String>,
    /// USD per thousand audio tokens of the completion
    #[arg(long, value_name = "USD", allow_hyphen_values = true)]
    output_audio_per_1k: Option<String>,
    /// USD per thousand tokens of reasoning
    #[arg(long, value_name = "USD", allow_hyphen_values = true)]
    reasoning_per_1k: Option<String>,
    /// USD per request, beside its tokens
    #[arg(long, value_name = "USD", allow_hyphen_values = true)]
    request: Option<String>,
    /// Prices of requests with longer prompts, in the unit of the others, such as `200000:input=6,output=22.5`
    #[arg(long = "tier", value_name = "TOKENS:KIND=USD,...")]
    tiers: Vec<String>,
    /// Factor of the charge of tokens for a service tier, such as `batch=0.5`
    #[arg(long = "service-tier", value_name = "NAME=FACTOR")]
    service_tiers: Vec<String>,
    /// Applies to runs that start at or after this time or date (UTC) [default: no start date]
    #[arg(long, value_name = "DATE")]
    from: Option<String>,
    /// Applies to all models with this prefix that have no price of their own
    #[arg(long)]
    prefix: bool,
}

impl Given {
    /// The price in the format of the API.
    pub(super) fn entry(self, model: String) -> Result<Entry, String> {
        let is_per_thousand = self.input_per_1k.is_some() || self.output_per_1k.is_some();
        let unit = if is_per_thousand {
            "_per_1k"
        } else {
            "_per_1m"
        };
        let tiers: Vec<String> = self
            .tiers
            .iter()
            .map(|tier| tier_json(tier, unit))
            .collect::<Result<_, _>>()?;
        let factors: Vec<String> = self
            .service_tiers
            .iter()
            .map(|tier| factor_json(tier))
            .collect::<Result<_, _>>()?;
        let listed = |all: &[String], open: &str, close: &str| {
            (!all.is_empty()).then(|| format!("{open}{}{close}", all.join(",")))
        };
        let values = [
            ("model", Some(model)),
            ("input_per_1m", self.input_per_1m),
            ("output_per_1m", self.output_per_1m),
            ("cached_input_per_1m", self.cached_input_per_1m),
            ("total_per_1m", self.total_per_1m),
            ("cache_write_per_1m", self.cache_write_per_1m),
            ("cache_write_1h_per_1m", self.cache_write_1h_per_1m),
            ("input_audio_per_1m", self.input_audio_per_1m),
            ("input_image_per_1m", self.input_image_per_1m),
            ("output_audio_per_1m", self.output_audio_per_1m),
            ("reasoning_per_1m", self.reasoning_per_1m),
            ("input_per_1k", self.input_per_1k),
            ("output_per_1k", self.output_per_1k),
            ("cached_input_per_1k", self.cached_input_per_1k),
            ("total_per_1k", self.total_per_1k),
            ("cache_write_per_1k", self.cache_write_per_1k),
            ("cache_write_1h_per_1k", self.cache_write_1h_per_1k),
            ("input_audio_per_1k", self.input_audio_per_1k),
            ("input_image_per_1k", self.input_image_per_1k),
            ("output_audio_per_1k", self.output_audio_per_1k),
            ("reasoning_per_1k", self.reasoning_per_1k),
            ("request", self.request),
            ("tiers", listed(&tiers, "[", "]")),
            ("service_tiers", listed(&factors, "{", "}")),
            ("effective_from", self.from),
            ("prefix", self.prefix.then(|| "true".to_owned())),
        ];
        let given = values
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)));
        let fields: Result<Fields, String> = given
            .map(|(name, value)| Ok((name.to_owned(), price_file::field(name, value)?)))
            .collect();
        price_file::entry(fields?)
    }
}

/// The JSON of `200000:input=6,output=22.5`.
fn tier_json(tier: &str, unit: &str) -> Result<String, String> {
    let fault = || {
        format!(
            "`--tier` has to be TOKENS:KIND=USD,..., such as 200000:input=6,output=22.5, not `{tier}`"
        )
    };
    let (above, rates) = tier.split_once(':').ok_or_else(fault)?;
    let mut fields = vec![format!(r#""above_input_tokens":{above}"#)];
    for rate in rates.split(',') {
        let (kind, price) = rate.split_once('=').ok_or_else(fault)?;
        let name = serde_json::Value::from(format!("{kind}{unit}"));
        fields.push(format!("{name}:{price}"));
    }
    Ok(format!("{{{}}}", fields.join(",")))
}

/// The JSON of `batch=0.5`.
fn factor_json(tier: &str) -> Result<String, String> {
    let (name, factor) = tier.split_once('=').ok_or_else(|| {
        format!("`--service-tier` has to be NAME=FACTOR, such as batch=0.5, not `{tier}`")
    })?;
    Ok(format!("{}:{factor}", serde_json::Value::from(name)))
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use schemas::price::SpecialRates;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        given: Given,
    }

    fn entry(arguments: &[&str]) -> Result<Entry, String> {
        let all = ["set", "--input-per-1m", "3", "--output-per-1m", "15"];
        let line =
            Line::try_parse_from(all.iter().chain(arguments)).map_err(|error| error.to_string())?;
        line.given.entry("m".to_owned())
    }

    #[test]
    fn every_kind_and_tier_has_a_flag() {
        let entry = entry(&[
            "--cache-write-per-1m",
            "3.75",
            "--cache-write-1h-per-1m",
            "6",
            "--input-audio-per-1m",
            "7",
            "--input-image-per-1m",
            "8",
            "--output-audio-per-1m",
            "9",
            "--reasoning-per-1m",
            "10",
            "--request",
            "0.01",
            "--tier",
            "200000:input=6,cached_input=0.6",
            "--tier",
            "500000:input=9",
            "--service-tier",
            "batch=0.5",
            "--service-tier",
            "priority=2",
        ])
        .unwrap();
        let special = entry
            .row
            .rates
            .special
            .as_deref()
            .map(SpecialRates::to_text);
        assert_eq!(
            special.as_deref(),
            Some(concat!(
                r#"{"kinds":{"cache_write":0.00000375,"cache_write_1h":0.000006,"input_audio":0.000007,"#,
                r#""input_image":0.000008,"output_audio":0.000009,"reasoning":0.00001},"request":0.01,"#,
                r#""tiers":[{"above_input_tokens":200000,"kinds":{"cached_input":0.0000006,"input":0.000006}},"#,
                r#"{"above_input_tokens":500000,"kinds":{"input":0.000009}}],"#,
                r#""service_tiers":{"batch":0.5,"priority":2}}"#,
            ))
        );
    }

    #[test]
    fn a_flag_that_does_not_fit_is_named() {
        for (arguments, named) in [
            (["--tier", "input=6"], "`--tier` has to be"),
            (["--tier", "200000"], "`--tier` has to be"),
            (["--tier", "200000:input"], "`--tier` has to be"),
            (["--tier", "200000:colour=1"], "colour_per_1m"),
            (["--tier", "many:input=1"], "`tiers` cannot be"),
            (["--service-tier", "batch"], "`--service-tier` has to be"),
            (["--service-tier", "batch=-1"], "service_tiers.batch"),
            (["--input-audio-per-1k", "1"], "cannot stand together"),
        ] {
            let fault = entry(&arguments).unwrap_err();
            assert!(fault.contains(named), "{arguments:?}: {fault}");
        }
    }
}
