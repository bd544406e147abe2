"""How a store is reached."""


def reached(bucket):
    """The options by which a store reaches the bucket."""
    return reached_by(bucket.endpoint)


def reached_by(endpoint):
    """The options by which a store reaches the server."""
    return {
        "endpoint_url": endpoint.url,
        "access_key": endpoint.access_key,
        "secret_key": endpoint.secret_key,
        "region": "us-east-1",
    }
