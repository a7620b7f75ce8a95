//! TLS, and whether a certificate is believed.
//!
//! - **T1** A password is proved, never sent, and bound to the server's certificate where that can be: so
//!   that `sslmode=require`, which does not look at who has signed the certificate, finds out somebody who
//!   stands between and passes the proof on. Who asks for none is believed, as libpq does. A wish to break
//!   off a statement, with its key, goes unencrypted.
use crate::address::{Address, Encryption};
use ondol_wire::certificate;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme,
    StreamOwned,
};
use std::io;
use std::net::TcpStream;
use std::sync::Arc;

pub type Encrypted = StreamOwned<ClientConnection, TcpStream>;

/// Whether the server has its certificate's key, and whom the certificate is from if there are roots (T1).
#[derive(Debug)]
struct Verifier {
    algorithms: WebPkiSupportedAlgorithms,
    roots: Option<Roots>,
}

/// Take a certificate that one of them has signed, or that is one of them: also such as is an authority of
/// its own, which rustls takes for nobody's (T1).
#[derive(Debug)]
struct Roots {
    roots: Vec<CertificateDer<'static>>,
    usual: Arc<WebPkiServerVerifier>,
}

impl Roots {
    fn verify(
        &self,
        own: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        stapled: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let done = self.usual.verify_server_cert(own, between, name, stapled, now);
        let is_other = matches!(&done, Err(rustls::Error::InvalidCertificate(CertificateError::Other(_))));
        let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let is_good =
            || certificate::validity(own).is_some_and(|(from, until)| (from..=until).contains(&seconds));
        if !is_other || !self.roots.contains(own) || !is_good() {
            return done;
        }
        verify_server_name(&ParsedCertificate::try_from(own)?, name)?;
        Ok(ServerCertVerified::assertion())
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        own: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        stapled: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match &self.roots {
            Some(roots) => roots.verify(own, between, name, stapled, now),
            None => Ok(ServerCertVerified::assertion()),
        }
    }
    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }
    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// The socket, encrypted as the address says.
pub fn encrypted(address: &Address, mut socket: TcpStream) -> io::Result<Box<Encrypted>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let roots = match &address.roots {
        Some(path) if address.encryption == Encryption::VerifyFull => {
            let named = |e: &dyn std::fmt::Debug| io::Error::other(format!("{}: {e:?}", path.display()));
            let read = CertificateDer::pem_file_iter(path).map_err(|e| named(&e))?;
            let roots: Vec<CertificateDer<'static>> =
                read.collect::<Result<_, _>>().map_err(|e| named(&e))?;
            let mut store = RootCertStore::empty();
            for root in &roots {
                store.add(root.clone()).map_err(io::Error::other)?
            }
            let usual = WebPkiServerVerifier::builder_with_provider(Arc::new(store), provider.clone());
            Some(Roots { roots, usual: usual.build().map_err(io::Error::other)? })
        }
        _ => None,
    };
    let verifier = Arc::new(Verifier { algorithms: provider.signature_verification_algorithms, roots });
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"postgresql".to_vec()];
    let name = ServerName::try_from(address.host.clone()).map_err(io::Error::other)?;
    let mut connection = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
    // Now, while reads wait for as long as connecting may take.
    while connection.is_handshaking() {
        connection.complete_io(&mut socket)?;
    }
    Ok(Box::new(StreamOwned::new(connection, socket)))
}

/// What a proof is bound to (T1).
pub fn end_point(of: &Encrypted) -> Option<Vec<u8>> {
    certificate::end_point(of.conn.peer_certificates()?.first()?)
}
