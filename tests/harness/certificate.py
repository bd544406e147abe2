"""Certificates for servers on this machine."""

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Certificate:
    """The files `path` and `key`, in PEM, and `authority`: who trusts that trusts the server. It has signed itself, or the
    authority of another name has that is made for it."""

    def __init__(self, folder: Path, authority: str | None = None):
        self.path, self.key = folder / "certificate.pem", folder / "key.pem"
        self.authority = self.path
        key = ec.generate_private_key(ec.SECP256R1())
        made = _made("tidegate tests", key, is_authority=False, issuer=None)
        if authority:
            self.authority = folder / "authority.pem"
            its_key = ec.generate_private_key(ec.SECP256R1())
            its_own = _made(authority, its_key, is_authority=True, issuer=None)
            self.authority.write_bytes(its_own.public_bytes(serialization.Encoding.PEM))
            made = _made("tidegate tests", key, is_authority=False, issuer=(authority, its_key))
        self.path.write_bytes(made.public_bytes(serialization.Encoding.PEM))
        self.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )


def _name(name):
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _made(name, key, is_authority, issuer):
    signer, signing = issuer or (name, key)
    now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
    return (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(_name(signer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - day)
        .not_valid_after(now + day)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        # Clients that are strict take no authority for a server.
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), True)
        .sign(signing, hashes.SHA256())
    )
