"""How a store is reached."""


def reached(bucket):
    """The options by which a store reaches the bucket."""
    return {
        "endpoint_url": bucket.endpoint.url,
        "access_key": bucket.endpoint.access_key,
        "secret_key": bucket.endpoint.secret_key,
        "region": "us-east-1",
    }
