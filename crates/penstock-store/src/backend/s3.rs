//! S3, and what speaks its protocol: settings checked before the first request, errors in the words of its users.

use std::time::Duration;

use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::{ClientConfigKey, RetryConfig};
use url::Url;

use crate::{Error, Result};

/// A server that is not there is said to be so after this, not after the crate's three minutes.
const RETRY: RetryConfig = RetryConfig {
    backoff: object_store::BackoffConfig {
        init_backoff: Duration::from_millis(100),
        max_backoff: Duration::from_secs(5),
        base: 2.,
    },
    max_retries: 5,
    retry_timeout: Duration::from_secs(30),
};

/// The bucket of an `s3://bucket/prefix`. `settings`: the `AWS_*` variables in lower case; unknown ones are others' affair.
///
/// # Errors
/// `Value`: an endpoint without TLS that was not asked for, or a setting that cannot be read.
pub(super) fn bucket(url: &Url, settings: impl IntoIterator<Item = (String, String)>) -> Result<AmazonS3> {
    let mut builder = AmazonS3Builder::new().with_url(url.as_str()).with_retry(RETRY);
    for (name, value) in settings {
        if let Ok(key) = name.parse::<AmazonS3ConfigKey>() {
            builder = builder.with_config(key, value);
        }
    }
    let asked = |key: AmazonS3ConfigKey| builder.get_config_value(&key);
    let endpoint = asked(AmazonS3ConfigKey::Endpoint).unwrap_or_default();
    let plain = asked(AmazonS3ConfigKey::Client(ClientConfigKey::AllowHttp)).unwrap_or_default();
    if endpoint.to_ascii_lowercase().starts_with("http:") && !matches!(plain.as_str(), "true" | "1") {
        const RULE: &str =
            "requests and keys would travel in the clear: name an https endpoint, or set AWS_ALLOW_HTTP=true";
        return Err(Error::value("AWS_ENDPOINT_URL", endpoint, RULE));
    }
    builder.build().map_err(|error| {
        const RULE: &str = "a bucket and AWS_* settings that S3's protocol knows (docs/keystore.md)";
        Error::value("store", format!("'{url}' ({error})"), RULE)
    })
}
