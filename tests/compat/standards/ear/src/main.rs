//! A client of the library `ear`: verifies a token with a JWK, and signs a token with a PEM key.
//!
//! `ear-peer verify ALG` reads `{"token", "jwk"}` and prints the claims; `ear-peer sign ALG` reads
//! `{"claims", "pem", "kid"}` and prints the token. A refusal is one line on standard error, with exit code 1.

use std::io::Read;
use std::process::ExitCode;

use ear::{new_jwt_header, Algorithm, Ear, RawValue, RawValueKind};
use serde_json::Value;

fn algorithm(name: &str) -> Result<Algorithm, String> {
    match name {
        "ES256" => Ok(Algorithm::ES256),
        "ES384" => Ok(Algorithm::ES384),
        "EdDSA" => Ok(Algorithm::EdDSA),
        _ => Err(format!("the library has no {name}")),
    }
}

fn verify(asked: &Value, name: &str) -> Result<String, String> {
    let token = asked["token"].as_str().ok_or("no token")?;
    let jwk = asked["jwk"].to_string();
    let found = Ear::from_jwt_jwk(token, algorithm(name)?, jwk.as_bytes()).map_err(|e| e.to_string())?;
    found.validate().map_err(|e| e.to_string())?;
    serde_json::to_string(&found).map_err(|e| e.to_string())
}

fn sign(asked: &Value, name: &str) -> Result<String, String> {
    let text = asked["claims"].to_string();
    let mut claims: Ear = serde_json::from_str(&text).map_err(|e| e.to_string())?;
    // The library leaves out claims that it does not know.
    let issuer = asked["claims"]["iss"].as_str().ok_or("no issuer")?;
    claims.extensions.register("iss", 1, RawValueKind::String).map_err(|e| e.to_string())?;
    let named = RawValue::String(issuer.to_string());
    claims.extensions.set_by_name("iss", named).map_err(|e| e.to_string())?;
    let mut header = new_jwt_header(&algorithm(name)?).map_err(|e| e.to_string())?;
    header.kid = asked["kid"].as_str().map(str::to_string);
    let pem = asked["pem"].as_str().ok_or("no key")?;
    claims.sign_jwt_pem_with_header(&header, pem.as_bytes()).map_err(|e| e.to_string())
}

fn run() -> Result<String, String> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).map_err(|e| e.to_string())?;
    let asked: Value = serde_json::from_str(&text).map_err(|e| e.to_string())?;
    match given.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["verify", name] => verify(&asked, name),
        ["sign", name] => sign(&asked, name),
        _ => Err("expected verify or sign, and an algorithm".to_string()),
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}
