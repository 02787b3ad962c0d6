//! Keys for tests only: their secrets are in this file.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey};
use serde_json::{Value, json};

pub(super) struct TestKey {
    key: EncodingKey,
    default_algorithm: Algorithm,
}

impl TestKey {
    /// The published part.
    pub(super) fn jwk(&self, id: &str) -> Value {
        let jwk = Jwk::from_encoding_key(&self.key, self.default_algorithm).unwrap();
        let mut jwk = serde_json::to_value(jwk).unwrap();
        jwk["kid"] = json!(id);
        jwk.as_object_mut().unwrap().remove("alg");
        jwk
    }

    /// A signature as in a token.
    pub(super) fn sign(&self, message: &[u8], algorithm: Algorithm) -> String {
        jsonwebtoken::crypto::sign(message, &self.key, algorithm).unwrap()
    }
}

pub(super) fn rsa() -> TestKey {
    let key = EncodingKey::from_rsa_der(&STANDARD.decode(RSA).unwrap());
    TestKey {
        key,
        default_algorithm: Algorithm::RS256,
    }
}

/// A new key each time, as below: nearly any random bytes after the fixed head are a key.
pub(super) fn p256() -> TestKey {
    let key = EncodingKey::from_ec_der(&random::<32>(&P256_HEAD));
    TestKey {
        key,
        default_algorithm: Algorithm::ES256,
    }
}

pub(super) fn p384() -> TestKey {
    let key = EncodingKey::from_ec_der(&random::<48>(&P384_HEAD));
    TestKey {
        key,
        default_algorithm: Algorithm::ES384,
    }
}

pub(super) fn ed25519() -> TestKey {
    let key = EncodingKey::from_ed_der(&random::<32>(&ED25519_HEAD));
    TestKey {
        key,
        default_algorithm: Algorithm::EdDSA,
    }
}

fn random<const N: usize>(head: &[u8]) -> Vec<u8> {
    let mut bytes = [0; N];
    rand::fill(&mut bytes[..]);
    [head, &bytes].concat()
}

/// PKCS #8: version, object identifiers of the kind and the curve, and the length of the number that follows.
const P256_HEAD: [u8; 35] = [
    0x30, 0x41, 0x02, 0x01, 0x00, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01,
    0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x04, 0x27, 0x30, 0x25, 0x02, 0x01,
    0x01, 0x04, 0x20,
];
const P384_HEAD: [u8; 32] = [
    0x30, 0x4e, 0x02, 0x01, 0x00, 0x30, 0x10, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01,
    0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x22, 0x04, 0x37, 0x30, 0x35, 0x02, 0x01, 0x01, 0x04, 0x30,
];
const ED25519_HEAD: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];
/// PKCS #1, 2048 bits.
const RSA: &str = "MIIEowIBAAKCAQEAtF3hgMeRFJ1gUivOSwFPbpSNzhK+B65yDg6PNbTYTofQ9isrYzNma7Ipg3vx6QFq9d4tRuI4Vn9InpC5cLGM7a/TrrTSTM\
    r1es+zOcQc1u7bM93aI67kPw2HI8VjayChElTGaSc06JfndgGuK3XmIKPnUYCJP7BNWg6VpAAAyJZTavariFhWfL+Bk7sr9j44uSrlpNlNajPs\
    yUM+XrBRsXHF90oENzKWtLGefnKupOATHH28Qz0F6lyjwwo4wAie7QQcxTjGkTvgopNlolU2lXDEl5HxYklrkIIJVn0mWqdQF/foBZGSZCbJ/m\
    UHfU1MGWP7wxXWP+uarh1NwQ4mHwIDAQABAoIBAAJzC+7txuCayoYTJjgKioOb7NkRlBcSnWXneLZoAFAAtCvDplEwj4GC5+FrO3vIkyVHoSHH\
    TLCQBfJxULNhFeLccml69ygn0XGbhHmSWjnpAH0R1DaL13mru1wXACSiSs2u7Qrch3FpLrGBkFXywe9Lioam0jZVNJe2fv29KkWPDzcD/bCyos\
    EzriVAqcUcCfXgXrbama9qASbT3Cn8LaWUBABpmN3eyNgPYowa49TXn6eet8PdnTryaJLpcIRMwWZ8Nb0kFuGO2A/t5aqp+t9z7cStfm9ECgk6\
    VxNRUUh+YTyufyO/+DK/ZAFaA7Zewhf1s6v7Qjq3gvE4944Av9ECgYEA4c4J0eYhthohQvX++D5DvEUexofSxsbPG55LwfRX1rX4Ax0r5Xu/9f\
    UULCwDxEL4kVUhpM7JM90Ny6NQbQwhIlfLnlUrrJAJpg5h3ye758VLO9Gq7LbaHSkgihNBC69KM7s4QHYwv2jDwP/5R3tMeXI21cvcvf0Ehkik\
    0SFsYfMCgYEAzHxc067Gmq3a1jjUEdesg/TQspvI0NhormlhoLPiFBO8ChBPOexybCeszfA424CNC30KlB99SPlG7ZrU/42R2yW6cWSYUC649C\
    wUTV1cdhhmw9o/3ehHPMfrei78poRXb3kDls5XDy4hPI48RVzDImka2GTVgrIBpAFl2rDNiiUCgYBUdj9SFiTR+uAqLd3beV7Y03n5hOCgncjm\
    acWonP8mPxawA39h7XIWTD/pbeVSykI0CoX1Iaw9DBiW7VWuFHVoZTKy3OTjPVV+ma6eTDyLK09C5uBqftMDSVj0jNMtzbmRtBwMcKk3T7a5QI\
    Y76LDoVIKSYhkFr9i7afzMhRYHZQKBgFnJ7dTBdNGsr1/LWktvYYAbupwCzb3umKClA0pWUlowhCwDF1a+3UtibH2NEtpHayd1Q3ThEtk9JAjn\
    KMoB9t68hU6PNlZW/b2xsUR7T0NH2a/8IHknKkilHF/tS+EuUVpQT+QjPJUc01lMt2hZoBF3B2Onex1FXnUObBQH+GjFAoGBAIXGsBzZZrfAae\
    Al9GCq+AqXXmJF9+XlG89zMgmIwvjUJBFYhPoTnUN03ascOKUVidWm0Bk3e09ly5ubGLlbWfuLx3fp5LTaR1CvDxRswPc2jLE/j0HwtMw+YiKK\
    lH0ZtkpATJcF/YDnZK1/wDyHJm7VV6dW3lqEHOPsbU4LoJY5";
